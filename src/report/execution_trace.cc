#include <utility>

#include "fmt/format.h"
#include "src/memory/replay.h"
#include "src/report/hardware_reports.h"

namespace stepcast::report {

std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution) {
  std::vector<TraceProcess> processes;
  for (const validate::RankRun& run : execution.ranks) {
    processes.push_back({.id = run.place.rank,
                         .name = fmt::format("rank {} on {}", run.place.rank, run.place.host),
                         .program = &execution.program_of(run),
                         .timeline = &run.measurement.timeline,
                         .memory = memory::Record(execution.program_of(run),
                                                  run.measurement.timeline, memory::kUnlimited),
                         .marked_step = execution.steps[execution.typical].step});
  }
  return processes;
}

std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution) {
  std::vector<TraceProcess> processes;
  for (const forecast::ClassRun& own : forecast.classes) {
    processes.push_back(ForecastProcess(forecast, own, static_cast<int>(processes.size()),
                                        fmt::format("forecast: rank {}", own.first_rank)));
  }
  const std::vector<Time>& ends = forecast.classes.front().timeline.step_ends;
  const Time start = forecast.first_step == 0 ? Time() : ends[forecast.first_step - 1];
  const auto forecasts = static_cast<int>(processes.size());
  for (TraceProcess& process : MeasuredProcesses(execution)) {
    process.id += forecasts;
    process.name = "measured: " + process.name;
    process.shift = start - execution.steps[execution.typical].start;
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace stepcast::report
