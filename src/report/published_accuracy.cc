#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
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
  std::string out, line;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line + "\n";
}

Json FiguresJson(const AccuracyFigures& figures) {
  if (figures.cases == 0) return nullptr;
  return Json{
      {"cases", figures.cases},
      {"mean", figures.mean},
      {"median", figures.median},
      {"p90", figures.p90},
      {"bias", figures.bias},
      {"rank_correlation", figures.rank_correlation ? Json(*figures.rank_correlation) : Json()}};
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
    out += fmt::format("\n{}\n\n{}", content.title, content.ToTable().ToString());
    if (!content.note.empty()) out += Paragraph(content.note);
  }
  return out;
}

std::string PublishedAccuracyMarkdown(const PublishedAccuracy& accuracy) {
  std::string out = PublishedPreface() + "\n\n" + PublishedCounts(accuracy) + "\n";
  for (const PublishedTable& content : PublishedTables(accuracy)) {
    out += fmt::format("\n### {}\n\n{}", content.title, Markdown(content.ToTable()));
    if (!content.note.empty()) out += "\n" + content.note + "\n";
  }
  return out;
}

std::string PublishedAccuracyJson(const PublishedAccuracy& accuracy) {
  Json sources = Json::array();
  for (std::size_t i = 0; i < accuracy.sources.size(); ++i) {
    const scenario::PublishedSource& source = accuracy.sources[i];
    Json groups = Json::array();
    for (const scenario::Split split : {scenario::Split::kFit, scenario::Split::kCheck}) {
      for (const scenario::Quality quality : {scenario::Quality::kA, scenario::Quality::kB}) {
        const validate::Selection rows = {.source = i, .split = split, .quality = quality};
        const AccuracyFigures time = accuracy.StepTime(rows), memory = accuracy.Memory(rows);
        if (time.cases + memory.cases == 0) continue;
        groups.push_back(
            Json{{"split", scenario::Name(split)},
                 {"quality", scenario::Name(quality)},
                 {"step_time", FiguresJson(time)},
                 {"step_time_beside_rival", FiguresJson(accuracy.StepTimeBesideRival(rows, false))},
                 {"rival_step_time", FiguresJson(accuracy.RivalStepTime(rows, false))},
                 {"step_time_in_range", CoverageJson(accuracy.StepTimeCoverage(rows))},
                 {"memory", FiguresJson(memory)},
                 {"memory_in_range", CoverageJson(accuracy.MemoryCoverage(rows))}});
      }
    }
    sources.push_back(Json{{"name", source.name},
                           {"source", source.source},
                           {"machine", source.machine},
                           {"rule", source.rule},
                           {"notes", source.notes},
                           {"groups", std::move(groups)}});
  }
  Json cases = Json::array();
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    cases.push_back(CaseJson(accuracy, outcome));
  }
  Json choices = Json::array();
  for (const validate::PlanChoice& choice : accuracy.Choices()) {
    const auto name = [&](std::size_t i) { return accuracy.CaseOf(accuracy.outcomes[i]).name; };
    choices.push_back(Json{{"source", accuracy.sources[accuracy.outcomes[choice.best].source].name},
                           {"cases", choice.outcomes.size()},
                           {"chosen", name(choice.chosen)},
                           {"best", name(choice.best)},
                           {"regret", choice.regret}});
  }
  Json aims = Json::array();
  for (const validate::PublishedAim& aim : accuracy.Aims()) {
    aims.push_back(Json{{"source", aim.source},
                        {"what", aim.what},
                        {"value", aim.value},
                        {"limit", aim.limit},
                        {"at_least", aim.at_least},
                        {"met", aim.met()}});
  }
  return Text(Json{{"aims_met", accuracy.MeetsAims()},
                   {"aims", std::move(aims)},
                   {"sources", std::move(sources)},
                   {"choices", std::move(choices)},
                   {"cases", std::move(cases)}});
}

std::string PublishedAccuracyCsv(const PublishedAccuracy& accuracy) {
  std::string out = CsvRecord({"source",
                               "case",
                               "split",
                               "quality",
                               "simulated",
                               "reason",
                               "model",
                               "gpu",
                               "gpus",
                               "measured_s",
                               "forecast_s",
                               "range_low_s",
                               "range_high_s",
                               "error",
                               "rival_s",
                               "rival_from_small_s",
                               "memory_kind",
                               "memory_measured_bytes",
                               "memory_forecast_bytes",
                               "memory_error",
                               "over_bytes",
                               "stand_ins"});
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    const auto seconds = [](const std::optional<Time>& time) {
      return time ? fmt::format("{:.6f}", time->seconds()) : std::string();
    };
    const auto line = [&](const validate::MemoryOutcome* memory) {
      const bool both = outcome.simulated() && row.step_time;
      out += CsvRecord(
          {accuracy.sources[outcome.source].name,
           row.name,
           std::string(scenario::Name(row.split)),
           std::string(scenario::Name(row.quality)),
           outcome.simulated() ? "true" : "false",
           outcome.reason,
           outcome.model,
           outcome.gpu,
           outcome.simulated() ? fmt::format("{}", outcome.devices) : "",
           seconds(row.step_time),
           outcome.simulated() ? seconds(outcome.forecast) : "",
           outcome.range ? seconds(outcome.range->low) : "",
           outcome.range ? seconds(outcome.range->high) : "",
           both ? fmt::format("{:.6f}", outcome.forecast / *row.step_time - 1) : "",
           seconds(outcome.rival.step_time),
           seconds(outcome.rival.from_small),
           memory == nullptr ? "" : std::string(scenario::Name(memory->kind)),
           memory == nullptr ? "" : fmt::format("{}", memory->measured.count()),
           memory == nullptr ? "" : fmt::format("{}", memory->forecast.count()),
           memory == nullptr
               ? ""
               : fmt::format("{:.6f}", static_cast<double>(memory->forecast.count()) /
                                               static_cast<double>(memory->measured.count()) -
                                           1),
           outcome.simulated() ? fmt::format("{}", outcome.over.count()) : "",
           outcome.simulated() ? fmt::format("{}", fmt::join(row.stand_ins, "; ")) : ""});
    };
    if (outcome.memory.empty()) line(nullptr);
    for (const validate::MemoryOutcome& memory : outcome.memory) line(&memory);
  }
  return out;
}

}  // namespace stepcast::report
