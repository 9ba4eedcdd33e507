#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answers.h"
#include "src/report/figures_text.h"
#include "src/report/measured_step.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

// The most rows in the two tables of memory; the rest is summed.
constexpr std::size_t kContents = 12, kLayers = 6;

std::string PathTable(const forecast::Explanation& explanation) {
  Table table({{"on the critical path", Align::kLeft},
               {"bound by", Align::kLeft},
               {"ms", Align::kRight},
               {"%", Align::kRight},
               {"slowed by others ms", Align::kRight}});
  for (const forecast::PathShare& share : explanation.path) {
    table.AddRow({share.operation, share.bound_by.empty() ? "-" : share.bound_by,
                  Milliseconds(share.time), Percent(share.time, explanation.path_length),
                  share.slowed == Time() ? "" : Milliseconds(share.slowed)});
  }
  table.AddRule();
  table.AddRow({"step", "", Milliseconds(explanation.path_length),
                Percent(explanation.path_length, explanation.path_length), ""});
  return table.ToString();
}

std::string ExposedText(const forecast::Explanation& explanation) {
  const forecast::Forecast& forecast = explanation.forecast;
  if (explanation.exposed.empty()) return "no communication is exposed\n";
  Table table({{"exposed communication", Align::kLeft},
               {"group", Align::kLeft},
               {"calls", Align::kRight},
               {"ms", Align::kRight},
               {"% of step", Align::kRight},
               {"most at", Align::kLeft}});
  for (const forecast::ExposedCollective& collective : explanation.exposed) {
    std::string largest;
    for (const auto& [label, time] : collective.largest) {
      largest += fmt::format("{}{} ({})", largest.empty() ? "" : ", ", label, FormatTime(time));
    }
    table.AddRow({std::string(Name(collective.collective)), collective.group,
                  Grouped(collective.calls), Milliseconds(collective.exposed),
                  Percent(collective.exposed, forecast.step_time), largest});
  }
  std::string out = table.ToString();
  const auto& speed = explanation.speed_that_hides;
  const std::string hidden = fmt::format("{:.0f} %", 100 * forecast::kHiddenPart);
  if (!speed) {
    out += fmt::format(
        "faster links cannot reduce it to {} of the step: it comes from latencies, or from "
        "collectives with no computation to hide them\n",
        hidden);
  } else if (*speed > 1) {
    out += fmt::format("it falls to {} of the step if links are {:.3g} times as fast\n", hidden,
                       *speed);
  }
  return out;
}

std::string WhatIfTable(const forecast::Explanation& explanation) {
  if (explanation.what_if.empty()) return "";
  Table table({{fmt::format("{:.0f} % faster", 100 * (forecast::kFaster - 1)), Align::kLeft},
               {"step ms", Align::kRight},
               {"gain %", Align::kRight}});
  const Time step = explanation.forecast.step_time;
  for (const forecast::WhatIf& change : explanation.what_if) {
    table.AddRow({Name(change.resource), Milliseconds(change.step_time),
                  Decimal(100 * (1 - change.step_time.seconds() / step.seconds()), 2)});
  }
  return "\n" + table.ToString();
}

std::string MemoryTables(const forecast::Explanation& explanation) {
  const Bytes peak = explanation.forecast.memory.peak;
  const ByteUnit unit = UnitFor(peak);
  Table contents({{"in memory at the peak", Align::kLeft},
                  {"category", Align::kLeft},
                  {"count", Align::kRight},
                  {unit.name, Align::kRight}});
  Bytes others = peak;
  for (std::size_t i = 0; i < std::min(kContents, explanation.contents.size()); ++i) {
    const forecast::PeakContent& content = explanation.contents[i];
    contents.AddRow(
        {content.name, Name(content.category), Grouped(content.count), In(unit, content.total)});
    others -= content.total;
  }
  if (others > Bytes(0)) contents.AddRow({"all others", "", "", In(unit, others)});
  contents.AddRule();
  contents.AddRow({"peak allocated", "", "", In(unit, peak)});

  Table layers({{"by layer or bucket", Align::kLeft}, {unit.name, Align::kRight}});
  others = peak;
  for (std::size_t i = 0; i < std::min(kLayers, explanation.layers.size()); ++i) {
    layers.AddRow({explanation.layers[i].layer, In(unit, explanation.layers[i].total)});
    others -= explanation.layers[i].total;
  }
  if (others > Bytes(0)) {
    layers.AddRow({fmt::format("{} others", explanation.layers.size() -
                                                std::min(kLayers, explanation.layers.size())),
                   In(unit, others)});
  }
  return contents.ToString() + "\n" + layers.ToString();
}

}  // namespace

std::string ExplainText(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, const MeasuredStep* measured) {
  std::string out = Header(scenario, ForecastFacts(scenario)) + "\n";
  out += fmt::format("step time  {}\n", FormatTime(explanation.forecast.step_time));
  if (measured != nullptr) out += MeasuredStepText(explanation.forecast, *measured);
  out += "\n";
  out += PathTable(explanation) + "\n";
  out += ExposedText(explanation);
  out += WhatIfTable(explanation) + "\n";
  out += MemoryTables(explanation) + "\n";
  out += MemorySentence(explanation.forecast.memory) + "\n";
  return out;
}

}  // namespace stepcast::report
