#include "src/report/simulate_text.h"

#include <string>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/figures_text.h"
#include "src/report/number_text.h"
#include "src/report/training_report.h"

namespace stepcast::report {

namespace {

std::string PartOfMemory(const forecast::MemoryForecast& memory) {
  return Decimal(100 * memory.fit_probability, 0) + " %";
}

}  // namespace

std::string MemorySentence(const forecast::MemoryForecast& memory) {
  if (!memory.fits_host()) {
    return fmt::format(
        "does not fit: the ranks of a node need {} of its memory and {} of its "
        "drives, which have {} and {}",
        FormatBytes(memory.host), FormatBytes(memory.drives), FormatBytes(memory.host_capacity),
        FormatBytes(memory.drives_capacity));
  }
  switch (memory.verdict()) {
    case forecast::MemoryVerdict::kFits:
      return fmt::format("fits: {} of {} are left{}", FormatBytes(memory.left()),
                         FormatBytes(memory.capacity),
                         memory.error > Bytes() ? ", probability " + PartOfMemory(memory) : "");
    case forecast::MemoryVerdict::kMayNotFit:
      return fmt::format(
          "may not fit: {} of {} are left{}{}; it fits with a probability of {}",
          FormatBytes(memory.left()), FormatBytes(memory.capacity),
          memory.allocator_flushes > 0 ? " once the allocator has given cached memory back" : "",
          memory.allocator_may_hang ? ", for which it waits for the device while stages wait for "
                                      "each other: the step may hang"
                                    : "",
          PartOfMemory(memory));
    case forecast::MemoryVerdict::kDoesNotFit:
      break;
  }
  return fmt::format("does not fit: {} more than the device's {}",
                     FormatBytes(Bytes(-memory.left().count())), FormatBytes(memory.capacity));
}

namespace {

// How collectives were followed, where it is not the ordinary way.
std::string NetworkLine(const scenario::Scenario& scenario) {
  if (scenario.network == scenario::Fidelity::kAnalytic) return "";
  std::string line = scenario.network == scenario::Fidelity::kFlow
                         ? "network    flow: the collectives of all ranks share links"
                         : "network    message: the messages of all ranks queue on links";
  if (!scenario.slow_links.empty()) {
    line += fmt::format("; {} {} worse than described", scenario.slow_links.size(),
                        scenario.slow_links.size() == 1 ? "link is" : "links are");
  }
  return line + "\n";
}

}  // namespace

std::string SimulateText(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         const forecast::TrainingTarget& target) {
  return fmt::format("{}{}\n{}{}\n{}\n{}\n{}\n{}\n", Header(scenario, ForecastFacts(scenario)), NetworkLine(scenario),
                     Throughput(forecast), TrainingText(target, TrainedStepOf(forecast)),
                     TimeTable(forecast) + ClassTable(forecast), CollectiveTable(forecast),
                     MemoryTable(forecast.memory), MemorySentence(forecast.memory));
}

}  // namespace stepcast::report
