#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/report/accuracy.h"
#include "src/report/step_figures.h"

namespace stepcast::report {
namespace {

using validate::AccuracyFigures;
using validate::PublishedAccuracy;
using validate::PublishedOutcome;

// Wraps a paragraph to lines of at most 100 columns.
std::string Paragraph(const std::string& text) {
  constexpr std::size_t kWidth = 100;
  return fmt::format("{}\n", fmt::join(WrapWords(text, kWidth), "\n"));
}

Json FiguresJson(const AccuracyFigures& figures) {
  Json json = ErrorJson("cases", figures);
  if (!json.is_null()) json["rank_correlation"] = Cell(figures.rank_correlation).value;
  return json;
}

Json CoverageJson(const validate::Coverage& coverage) {
  if (coverage.cases == 0) return nullptr;
  return Json{{"cases", coverage.cases}, {"inside", coverage.inside}};
}

Json Seconds(const std::optional<Time>& time) { return time ? Json(JsonSeconds(*time)) : Json(); }

Json CaseJson(const PublishedAccuracy& accuracy, const PublishedOutcome& outcome) {
  const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
  Json json{{"source", accuracy.sources[outcome.source].name},
            {"name", row.name},
            {"split", scenario::Name(row.split)},
            {"quality", scenario::Name(row.quality)},
            {"simulated", outcome.simulated()},
            {"measured_s", Seconds(row.step_time)}};
  if (!outcome.simulated()) {
    json["reason"] = outcome.reason;
    return json;
  }
  json["model"] = outcome.model;
  json["gpu"] = outcome.gpu;
  json["gpus"] = outcome.devices;
  json["forecast_s"] = JsonSeconds(outcome.forecast);
  json["forecast_range_s"] = RangeJson(outcome.range);
  json["rival_s"] = Seconds(outcome.rival.step_time);
  json["rival_from_small_s"] = Seconds(outcome.rival.from_small);
  Json memory = Json::array();
  for (const validate::MemoryOutcome& peak : outcome.memory) {
    memory.push_back(Json{{"kind", scenario::Name(peak.kind)},
                          {"measured_bytes", peak.measured.count()},
                          {"forecast_bytes", peak.forecast.count()},
                          {"forecast_range_bytes", RangeJson(peak.range)}});
  }
  json["memory"] = std::move(memory);
  json["over_bytes"] = outcome.over.count();
  json["stand_ins"] = row.stand_ins;
  return json;
}

}  // namespace

std::string PublishedAccuracyText(const PublishedAccuracy& accuracy) {
  std::string out = Paragraph(PublishedPreface()) + "\n" + PublishedCounts(accuracy) + "\n";
  for (const PublishedTable& content : PublishedTables(accuracy)) {
    out += fmt::format("\n{}\n\n{}", content.title, content.table.Text());
    if (!content.note.empty()) out += Paragraph(content.note);
  }
  return out;
}

std::string PublishedAccuracyMarkdown(const PublishedAccuracy& accuracy) {
  std::string out = PublishedPreface() + "\n\n" + PublishedCounts(accuracy) + "\n";
  for (const PublishedTable& content : PublishedTables(accuracy)) {
    out += fmt::format("\n### {}\n\n{}", content.title, Markdown(content.table.ToTable()));
    if (!content.note.empty()) out += "\n" + content.note + "\n";
  }
  return out;
}

std::string PublishedAccuracyJson(const PublishedAccuracy& accuracy) {
  AnswerTable sources{Keys("name source machine rule notes groups")};
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) {
    const scenario::PublishedSource& source = accuracy.sources[i];
    AnswerTable groups{
        Keys("split quality step_time step_time_beside_rival rival_step_time step_time_in_range "
             "memory memory_in_range")};
    for (const scenario::Split split : {scenario::Split::kFit, scenario::Split::kCheck}) {
      for (const scenario::Quality quality : {scenario::Quality::kA, scenario::Quality::kB}) {
        const validate::Selection rows = {.source = i, .split = split, .quality = quality};
        const AccuracyFigures time = accuracy.StepTime(rows), memory = accuracy.Memory(rows);
        if (time.cases + memory.cases == 0) continue;
        groups.Add({scenario::Name(split), scenario::Name(quality), FiguresJson(time),
                    FiguresJson(accuracy.StepTimeBesideRival(rows, false)),
                    FiguresJson(accuracy.RivalStepTime(rows, false)),
                    CoverageJson(accuracy.StepTimeCoverage(rows)), FiguresJson(memory),
                    CoverageJson(accuracy.MemoryCoverage(rows))});
      }
    }
    sources.Add({source.name, source.source, source.machine, source.rule, Json(source.notes),
                 groups.ToJson()});
  }
  Json cases = Json::array();
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    cases.push_back(CaseJson(accuracy, outcome));
  }
  AnswerTable choices{Keys("source cases chosen best regret")};
  for (const validate::PlanChoice& choice : accuracy.Choices()) {
    const auto name = [&](std::size_t i) { return accuracy.CaseOf(accuracy.outcomes[i]).name; };
    choices.Add({accuracy.sources[accuracy.outcomes[choice.best].source].name,
                 choice.outcomes.size(), name(choice.chosen), name(choice.best), choice.regret});
  }
  AnswerTable aims{Keys("source what value limit at_least met")};
  for (const validate::PublishedAim& aim : accuracy.Aims()) {
    aims.Add({aim.source, aim.what, aim.value, aim.limit, aim.at_least, aim.met()});
  }
  return Text(Json{{"aims_met", accuracy.MeetsAims()},
                   {"aims", aims.ToJson()},
                   {"sources", sources.ToJson()},
                   {"choices", choices.ToJson()},
                   {"cases", std::move(cases)}});
}

std::string PublishedAccuracyCsv(const PublishedAccuracy& accuracy) {
  AnswerTable table{
      Keys("source case split quality simulated reason model gpu gpus measured_s forecast_s "
           "range_low_s range_high_s error rival_s rival_from_small_s memory_kind "
           "memory_measured_bytes memory_forecast_bytes memory_error over_bytes stand_ins")};
  const auto number = [](double value) { return fmt::format("{:.6f}", value); };
  const auto seconds = [&](const std::optional<Time>& time) {
    return time ? number(time->seconds()) : std::string();
  };
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    const bool simulated = outcome.simulated();
    const auto& range = outcome.range;
    std::vector<std::optional<validate::MemoryOutcome>> peaks(outcome.memory.begin(),
                                                              outcome.memory.end());
    if (peaks.empty()) peaks.emplace_back();  // one row without a peak
    for (const std::optional<validate::MemoryOutcome>& peak : peaks) {
      const auto error = [](Bytes forecast, Bytes measured) {
        return static_cast<double>(forecast.count()) / static_cast<double>(measured.count()) - 1;
      };
      table.Add({accuracy.sources[outcome.source].name,
                 row.name,
                 scenario::Name(row.split),
                 scenario::Name(row.quality),
                 simulated,
                 outcome.reason,
                 outcome.model,
                 outcome.gpu,
                 simulated ? Cell(outcome.devices) : "",
                 seconds(row.step_time),
                 simulated ? seconds(outcome.forecast) : "",
                 range ? seconds(range->low) : "",
                 range ? seconds(range->high) : "",
                 simulated && row.step_time ? number(outcome.forecast / *row.step_time - 1) : "",
                 seconds(outcome.rival.step_time),
                 seconds(outcome.rival.from_small),
                 peak ? scenario::Name(peak->kind) : "",
                 peak ? Cell(peak->measured.count()) : "",
                 peak ? Cell(peak->forecast.count()) : "",
                 peak ? number(error(peak->forecast, peak->measured)) : "",
                 simulated ? Cell(outcome.over.count()) : "",
                 simulated ? fmt::format("{}", fmt::join(row.stand_ins, "; ")) : ""});
    }
  }
  return table.Csv();
}

}  // namespace stepcast::report
