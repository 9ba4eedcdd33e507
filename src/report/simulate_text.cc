#include "src/report/simulate_text.h"

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/figures_text.h"

namespace stepcast::report {

std::string Verdict(const forecast::MemoryForecast& memory) {
  const Bytes left = memory.capacity - memory.reserved - memory.outside;
  if (memory.fits) {
    return fmt::format("fits: {} of {} are left", FormatBytes(left), FormatBytes(memory.capacity));
  }
  return fmt::format("does not fit: {} more than the device's {}",
                     FormatBytes(Bytes(-left.count())), FormatBytes(memory.capacity));
}

std::string SimulateText(const scenario::Scenario& scenario, const forecast::Forecast& forecast) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", Header(scenario), Throughput(forecast),
                     TimeTable(forecast), CollectiveTable(forecast), MemoryTable(forecast.memory),
                     Verdict(forecast.memory));
}

}  // namespace stepcast::report
