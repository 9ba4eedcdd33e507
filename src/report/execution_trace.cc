#include "src/report/execution_trace.h"

#include <utility>

#include "fmt/format.h"
#include "src/memory/replay.h"

namespace stepcast::report {

std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution) {
  std::vector<TraceProcess> processes;
  for (const validate::RankRun& run : execution.ranks) {
    processes.push_back(
        {.id = run.place.rank,
         .name = fmt::format("rank {} on {}", run.place.rank, run.place.host),
         .program = &execution.program,
         .timeline = &run.measurement.timeline,
         .memory = memory::Record(execution.program, run.measurement.timeline, memory::kUnlimited),
         .marked_step = execution.steps[execution.typical].step});
  }
  return processes;
}

std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution) {
  const int rank = forecast.forecast.memory.rank;
  std::vector<TraceProcess> processes{
      ForecastProcess(forecast, 0, fmt::format("forecast: rank {}", rank))};
  const Time start =
      forecast.first_step == 0 ? Time() : forecast.timeline.step_ends[forecast.first_step - 1];
  for (TraceProcess& process : MeasuredProcesses(execution)) {
    process.id += 1;
    process.name = "measured: " + process.name;
    process.shift = start - execution.steps[execution.typical].start;
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace stepcast::report
