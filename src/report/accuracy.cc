#include "src/report/accuracy.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"

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

using validate::PublishedAccuracy;
using validate::PublishedOutcome;

// Forecasts and measurements of one figure.
class Points {
 public:
  explicit Points(const PublishedAccuracy& accuracy) : accuracy_(accuracy) {}

  void Add(const PublishedOutcome& outcome, const std::string& what, double measured,
           double forecast, const std::string& measured_text, const std::string& forecast_text) {
    if (measured <= 0 || forecast <= 0) return;  // no place on a logarithmic axis
    const scenario::PublishedCase& row = accuracy_.CaseOf(outcome);
    data_.Word("name", row.name);
    data_.Word("group", accuracy_.sources[outcome.source].name);
    data_.Word("shape", row.split == scenario::Split::kFit ? "fit" : "check");
    data_.Word("run", fmt::format("{} on {} {}", outcome.model, outcome.devices, outcome.gpu));
    data_.Word("what", what);
    data_.Number("measured", measured);
    data_.Number("forecast", forecast);
    data_.Word("measured_text", measured_text);
    data_.Word("forecast_text", forecast_text);
    data_.Number("error", Rounded(kHundred * (forecast - measured) / measured));
  }

  // A section; it has no chart if nothing was measured.
  PageSection Section(const std::string& heading, const std::string& unit) && {
    PageSection section{.heading = heading};
    const std::size_t points = data_.rows();
    if (points == 0) {
      section.paragraphs = {"No case has a measured value for this chart."};
      return section;
    }
    section.paragraphs = {
        "Each point is a published run. Circles are rows marked check; crosses are rows marked "
        "fit. On the solid line, forecast and measurement are equal; on the dashed lines, they "
        "differ by 10 %."};
    const std::size_t sources = data_.Distinct("group").size();
    section.chart = PredictedAgainstMeasured(
        fmt::format(
            "{}: forecast against measured; {} {} from {} {}; the tables below list the errors by "
            "source",
            heading, points, points == 1 ? "point" : "points", sources,
            sources == 1 ? "source" : "sources"),
        unit, std::move(data_), {"check", "fit"},
        {{"group", "Source"},
         {"name", "Case"},
         {"run", "Run"},
         {"what", "Figure"},
         {"measured_text", "Measured"},
         {"forecast_text", "Forecast"},
         {"error", "Error", "%", 1},
         {"shape", "Rows"}});
    return section;
  }

 private:
  const PublishedAccuracy& accuracy_;
  ChartData data_;
};

Table SourceTable(const PublishedAccuracy& accuracy) {
  Table table({{"source", Align::kLeft},
               {"machine", Align::kLeft},
               {"rows and notes", Align::kLeft},
               {"cited", Align::kLeft}});
  for (const scenario::PublishedSource& source : accuracy.sources) {
    std::string about = source.rule;
    for (const std::string& note : source.notes) about += "; " + note;
    table.AddRow({source.name, source.machine, about, source.source});
  }
  return table;
}

std::vector<PageFigure> Answer(const PublishedAccuracy& accuracy) {
  const std::int64_t simulated =
      std::count_if(accuracy.outcomes.begin(), accuracy.outcomes.end(),
                    [](const PublishedOutcome& outcome) { return outcome.simulated(); });
  const bool meets = accuracy.MeetsAims();
  return {{.label = "Published runs",
           .value = Grouped(static_cast<std::int64_t>(accuracy.outcomes.size())),
           .more = fmt::format("of {} sources", accuracy.sources.size())},
          {.label = "Simulated",
           .value = Grouped(simulated),
           .more = "a table below lists why the other runs were not simulated"},
          {.label = "Targets",
           .value = meets ? "met" : "missed",
           .more = meets ? "" : "a table below lists the missed targets",
           .tone = meets ? Tone::kGood : Tone::kBad}};
}

using validate::CollectiveAccuracy;
using validate::CollectivePoint;
using validate::CollectiveSource;
using validate::ErrorSummary;
using validate::Role;
using validate::SizeBand;

constexpr Role kRoles[] = {Role::kFit, Role::kHeldBack, Role::kUncertain};

struct MeasuredRow {
  std::size_t source = 0;
  SizeBand band = SizeBand::kTiny;
  Role role = Role::kFit;
  ErrorSummary forecast, law;
};

// Rows by source, band and role, if they have points.
std::vector<MeasuredRow> RowsOf(const CollectiveAccuracy& accuracy) {
  std::vector<MeasuredRow> rows;
  for (std::size_t source = 0; source < accuracy.sources.size(); ++source) {
    for (SizeBand band : validate::kSizeBands) {
      for (Role role : kRoles) {
        std::vector<double> forecast, law;
        for (const CollectivePoint& point : accuracy.points) {
          if (point.source != source || point.role != role ||
              validate::BandOf(point.size) != band) {
            continue;
          }
          forecast.push_back(point.error());
          law.push_back(point.law_error());
        }
        if (forecast.empty()) continue;
        rows.push_back({source, band, role, validate::Summarise(std::move(forecast)),
                        validate::Summarise(std::move(law))});
      }
    }
  }
  return rows;
}

std::string NameOf(const CollectiveSource& source) {
  return source.counts() ? source.name : source.name + " (not counted)";
}

std::string ChoiceOf(const std::string& algorithm, const std::string& protocol) {
  return protocol.empty() ? algorithm : algorithm + " " + protocol;
}

std::string TotalSentence(const CollectiveAccuracy& accuracy, Role role) {
  const ErrorSummary total = accuracy.Total(role);
  const ErrorSummary law = accuracy.TotalByLaw(role);
  return fmt::format(
      "{} from 32 KiB to 16 GiB ({} points): median error {} %, 90th percentile {} %, mean error "
      "{} %. Without measured curves: median error {} %, 90th percentile {} %, mean error {} %.\n",
      role == Role::kHeldBack ? "Points held back," : "Fit points,", total.points,
      PerCent(total.median), PerCent(total.p90), SignedPerCent(total.bias), PerCent(law.median),
      PerCent(law.p90), SignedPerCent(law.bias));
}

std::string Choices(const CollectiveAccuracy& accuracy) {
  std::string out = fmt::format("Algorithms: {} of {} forecast choices are as documented.\n",
                                accuracy.as_documented(), accuracy.documented());
  for (const CollectivePoint& point : accuracy.points) {
    if (!point.documented() || point.as_documented()) continue;
    out +=
        fmt::format("  {}: {} of {} over {} ranks: {}, documented {}\n",
                    accuracy.sources[point.source].name, Name(point.collective),
                    FormatBytes(point.size), point.ranks, ChoiceOf(point.algorithm, point.protocol),
                    ChoiceOf(point.documented_algorithm, point.documented_protocol));
  }
  return out;
}

std::string Targets(const CollectiveAccuracy& accuracy) {
  return fmt::format(
      "Targets for held-back points: a median error of at most {:.0f} %, a 90th percentile of at "
      "most {:.0f} %, and all documented choices of algorithms. The targets are {}.\n",
      100 * CollectiveAccuracy::kMedianTarget, 100 * CollectiveAccuracy::kP90Target,
      accuracy.MeetsTargets() ? "met" : "not met");
}

Json SummaryJson(const ErrorSummary& summary) {
  return Json{{"points", summary.points},
              {"median", summary.median},
              {"p90", summary.p90},
              {"bias", summary.bias}};
}

// Without `fit`, no rows of fit points: forecasts equal the curve at these points, so their errors
// are zero.
Table ErrorTable(const CollectiveAccuracy& accuracy, bool fit) {
  using enum Align;
  Table table({{"source", kLeft},
               {"sizes", kLeft},
               {"points are", kLeft},
               {"points"},
               {"median %"},
               {"p90 %"},
               {"mean %"},
               {"law median %"},
               {"law p90 %"}});
  for (const MeasuredRow& row : RowsOf(accuracy)) {
    if (!fit && row.role == Role::kFit) continue;
    table.AddRow({NameOf(accuracy.sources[row.source]), std::string(Name(row.band)),
                  std::string(Name(row.role)), fmt::format("{}", row.forecast.points),
                  PerCent(row.forecast.median), PerCent(row.forecast.p90),
                  SignedPerCent(row.forecast.bias), PerCent(row.law.median), PerCent(row.law.p90)});
  }
  return table;
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

std::string PublishedAccuracyHtml(const PublishedAccuracy& accuracy) {
  Page page;
  page.kind = "Forecasts against published measurements";
  page.title = "Published training steps, forecast";
  page.answer = Answer(accuracy);
  Points times(accuracy), memories(accuracy);
  for (const PublishedOutcome& outcome : accuracy.outcomes) {
    if (!outcome.simulated()) continue;
    const scenario::PublishedCase& row = accuracy.CaseOf(outcome);
    if (row.step_time) {
      times.Add(outcome, "step time", row.step_time->seconds(), outcome.forecast.seconds(),
                FormatTime(*row.step_time), FormatTime(outcome.forecast));
    }
    for (const validate::MemoryOutcome& memory : outcome.memory) {
      constexpr double kGib = 1024.0 * 1024 * 1024;
      memories.Add(outcome, std::string(scenario::Name(memory.kind)),
                   static_cast<double>(memory.measured.count()) / kGib,
                   static_cast<double>(memory.forecast.count()) / kGib,
                   FormatBytes(memory.measured), FormatBytes(memory.forecast));
    }
  }
  page.sections.push_back(std::move(times).Section("Step time", "s"));
  page.sections.push_back(std::move(memories).Section("Peak memory", "GiB"));
  PageSection errors{.heading = "Errors"};
  errors.paragraphs = {PublishedPreface(), PublishedCounts(accuracy)};
  page.sections.push_back(std::move(errors));
  for (const PublishedTable& given : PublishedTables(accuracy)) {
    PageSection section{.heading = given.title};
    section.tables.push_back({.caption = given.title, .table = given.table.ToTable()});
    if (!given.note.empty()) section.notes.push_back(given.note);
    page.sections.push_back(std::move(section));
  }
  PageSection sources{.heading = "Sources"};
  sources.tables.push_back(
      {.caption = "Sources of the measurements", .table = SourceTable(accuracy)});
  page.sections.push_back(std::move(sources));
  return PageHtml(page);
}

std::string CollectiveAccuracyText(const CollectiveAccuracy& accuracy) {
  return fmt::format(
      "An error is the forecast time minus the measured time, in percent of the measured time. The "
      "columns 'median' and 'p90' describe absolute errors; the column 'mean' is the mean of "
      "signed errors. The columns 'law' show errors of forecasts without measured curves.\n\n"
      "{}\n"
      "{}{}{}{}",
      ErrorTable(accuracy, true).ToString(), TotalSentence(accuracy, Role::kFit),
      TotalSentence(accuracy, Role::kHeldBack), Choices(accuracy), Targets(accuracy));
}

std::string CollectiveAccuracyMarkdown(const CollectiveAccuracy& accuracy) {
  return Markdown(ErrorTable(accuracy, false)) +
         fmt::format("\n{}\n{}\n{}\n{}", TotalSentence(accuracy, Role::kFit),
                     TotalSentence(accuracy, Role::kHeldBack), Choices(accuracy),
                     Targets(accuracy));
}

std::string CollectiveAccuracyJson(const CollectiveAccuracy& accuracy) {
  AnswerTable sources{Keys("name source machine rule counted not_counted")};
  for (const CollectiveSource& source : accuracy.sources) {
    sources.Add({source.name, source.source, source.machine, source.rule, source.counts(),
                 source.not_counted});
  }
  AnswerTable bands{Keys("source sizes role error law_error")};
  for (const MeasuredRow& row : RowsOf(accuracy)) {
    bands.Add({accuracy.sources[row.source].name, Name(row.band), Name(row.role),
               SummaryJson(row.forecast), SummaryJson(row.law)});
  }
  AnswerTable points{
      Keys("source collective ranks nodes forced_algorithm bytes role measured_s forecast_s law_s "
           "algorithm protocol channels provenance")};
  for (const CollectivePoint& point : accuracy.points) {
    points.Add({accuracy.sources[point.source].name, Name(point.collective), point.ranks,
                point.nodes, WordOr(point.forced), point.size.count(), Name(point.role),
                point.measured, point.forecast, point.by_law, point.algorithm, point.protocol,
                point.channels, cost::Name(point.provenance)});
  }
  const auto total = [&](Role role) {
    return Json{{"error", SummaryJson(accuracy.Total(role))},
                {"law_error", SummaryJson(accuracy.TotalByLaw(role))}};
  };
  return Text(Json{{"fit", total(Role::kFit)},
                   {"held_back", total(Role::kHeldBack)},
                   {"documented_choices", accuracy.documented()},
                   {"choices_as_documented", accuracy.as_documented()},
                   {"targets_met", accuracy.MeetsTargets()},
                   {"bands", bands.ToJson()},
                   {"sources", sources.ToJson()},
                   {"points", points.ToJson()}});
}

std::string CollectiveAccuracyCsv(const CollectiveAccuracy& accuracy) {
  AnswerTable table{
      Keys("source collective ranks nodes forced_algorithm bytes role counted measured_us "
           "forecast_us law_us algorithm protocol channels provenance documented_algorithm "
           "documented_protocol")};
  const auto microseconds = [](Time time) { return fmt::format("{:.3f}", time.microseconds()); };
  for (const CollectivePoint& point : accuracy.points) {
    const CollectiveSource& source = accuracy.sources[point.source];
    table.Add({source.name, Name(point.collective), point.ranks, point.nodes, point.forced,
               point.size.count(), Name(point.role), source.counts(), microseconds(point.measured),
               microseconds(point.forecast), microseconds(point.by_law), point.algorithm,
               point.protocol, point.channels, cost::Name(point.provenance),
               point.documented_algorithm, point.documented_protocol});
  }
  return table.Csv();
}

}  // namespace stepcast::report
