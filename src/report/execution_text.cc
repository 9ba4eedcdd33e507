#include <algorithm>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/figures_text.h"
#include "src/report/hardware_reports.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

std::string Machine(const validate::Execution& execution) {
  std::string out;
  for (const auto& [what, value] : execution.machine)
    out += fmt::format("{:<10} {}\n", what, value);
  return out;
}

std::string StepTimes(const validate::Execution& execution) {
  const forecast::Forecast& figures = execution.figures;
  std::string out = fmt::format("step time  {}", FormatTime(figures.step_time));
  if (execution.steps.size() > 1) {
    out += fmt::format(", the median of {}: {} to {}", execution.steps.size(),
                       FormatTime(execution.shortest), FormatTime(execution.longest));
  }
  out += fmt::format("\nthroughput {} tokens/s, {} tokens/s per GPU\n",
                     Decimal(figures.tokens_per_second, 0),
                     Decimal(figures.tokens_per_second_per_gpu, 1));
  if (figures.has_flops) {
    out += fmt::format("MFU        {} %\nHFU        {} %\n", Decimal(100 * figures.mfu, 1),
                       Decimal(100 * figures.hfu, 1));
  }
  return out;
}

std::string MemoryOfRanks(const validate::Execution& execution) {
  const forecast::MemoryForecast& memory = execution.figures.memory;
  const ByteUnit unit = UnitFor(memory.peak);
  Table table(
      {{fmt::format("memory of rank {}", memory.rank), Align::kLeft}, {unit.name, Align::kRight}});
  table.AddRow({"peak of the plan's buffers", In(unit, memory.peak)});
  table.AddRow({"reserved for them", In(unit, memory.reserved)});
  if (memory.outside > Bytes(0)) table.AddRow({"outside the pool", In(unit, memory.outside)});
  table.AddRow({"capacity", In(unit, memory.capacity)});
  return table.ToString();
}

}  // namespace

std::string RunLine(const validate::Execution& execution) {
  const std::size_t ranks = execution.ranks.size();
  const int hosts = execution.ranks.front().place.nodes;
  return fmt::format("{:<10} {}, {} {} on {} {}, {} {} measured{}\n", "run on", execution.backend,
                     Grouped(static_cast<std::int64_t>(ranks)), ranks == 1 ? "rank" : "ranks",
                     Grouped(hosts), hosts == 1 ? "host" : "hosts", execution.steps.size(),
                     execution.steps.size() == 1 ? "step" : "steps",
                     execution.barrier ? " between barriers" : "");
}

std::string ExecutionText(const scenario::Scenario& scenario,
                          const validate::Execution& execution) {
  return fmt::format("{}{}{}\n{}\n{}\n{}\n{}", Header(scenario, Facts(scenario)),
                     RunLine(execution), Machine(execution), StepTimes(execution),
                     TimeTable(execution.figures), CollectiveTable(execution.figures),
                     MemoryOfRanks(execution));
}

}  // namespace stepcast::report
