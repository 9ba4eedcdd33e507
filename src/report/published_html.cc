#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/accuracy.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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
    const std::string& source = accuracy_.sources[outcome.source].name;
    if (std::find(sources_.begin(), sources_.end(), source) == sources_.end()) {
      sources_.push_back(source);
    }
    least_ = std::min({least_, measured, forecast});
    most_ = std::max({most_, measured, forecast});
    data_.Word("name", row.name);
    data_.Word("group", source);
    data_.Word("shape", row.split == scenario::Split::kFit ? "fit" : "check");
    data_.Word("run", fmt::format("{} on {} {}", outcome.model, outcome.devices, outcome.gpu));
    data_.Word("what", what);
    data_.Number("measured", measured);
    data_.Number("forecast", forecast);
    data_.Word("measured_text", measured_text);
    data_.Word("forecast_text", forecast_text);
    data_.Number("error", Rounded(kHundred * (forecast - measured) / measured));
    ++count_;
  }

  // A section; it has no chart if nothing was measured.
  PageSection Section(const std::string& heading, const std::string& unit) && {
    PageSection section{.heading = heading};
    if (count_ == 0) {
      section.paragraphs = {"No case has a measured value for this chart."};
      return section;
    }
    section.paragraphs = {
        "Each point is a published run. Circles are rows marked check; crosses are rows marked "
        "fit. On the solid line, forecast and measurement are equal; on the dashed lines, they "
        "differ by 10 %."};
    section.chart = PredictedAgainstMeasured(
        fmt::format(
            "{}: forecast against measured; {} {} from {} {}; the tables below list the errors by "
            "source",
            heading, count_, count_ == 1 ? "point" : "points", sources_.size(),
            sources_.size() == 1 ? "source" : "sources"),
        unit, std::move(data_), sources_, {"check", "fit"}, least_, most_,
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
  std::vector<std::string> sources_;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = 0;
  std::size_t count_ = 0;
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

}  // namespace

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
    section.tables.push_back({.caption = given.title, .table = given.ToTable()});
    if (!given.note.empty()) section.notes.push_back(given.note);
    page.sections.push_back(std::move(section));
  }
  PageSection sources{.heading = "Sources"};
  sources.tables.push_back(
      {.caption = "Sources of the measurements", .table = SourceTable(accuracy)});
  page.sections.push_back(std::move(sources));
  return PageHtml(page);
}

}  // namespace stepcast::report
