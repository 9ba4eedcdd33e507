#include "src/cli/collective_command.h"

#include "src/base/quantity.h"
#include "src/cli/collective_words.h"
#include "src/cli/warnings.h"
#include "src/forecast/collective_forecast.h"
#include "src/report/collective_report.h"
#include "src/report/text_wrap.h"
#include "src/scenario/load.h"

namespace stepcast::cli {

Outcome Collective(const CollectiveOptions& options) {
  Diagnostics faults;
  const auto op = ReadCollective("--op", options.op, faults);
  const auto from = ReadSize("--from", options.from, faults);
  const auto to = ReadSize("--to", options.to, faults);
  if (from && to && *from > *to) {
    faults.push_back({"command.wrong-use",
                      {"--to " + options.to, 0, 0},
                      "the last size lies below the first: " + Quoted(options.to),
                      "the first is --from " + FormatBytes(*from)});
  }
  scenario::InputCache cache;
  std::vector<std::string> set = options.set;
  if (!options.network.empty()) set.push_back("cluster.network=" + options.network);
  const auto scenario = scenario::Load(options.scenario, set, cache);
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  if (!faults.empty()) return WrongInput(faults);

  const auto forecast = forecast::ForecastCollective(*scenario, *op,
                                                     {.name = options.group,
                                                      .ranks = options.ranks,
                                                      .nodes = options.nodes,
                                                      .siblings = options.siblings},
                                                     *from, *to);
  if (!forecast) return WrongInput(forecast.error());
  Outcome outcome;
  outcome.output = options.json ? report::CollectiveJson(scenario->name, *forecast)
                   : options.csv
                       ? report::CollectiveCsv(*forecast)
                       : report::Wrapped(report::CollectiveText(scenario->name, *forecast));
  outcome.messages = Warnings(*scenario);
  return outcome;
}

}  // namespace stepcast::cli
