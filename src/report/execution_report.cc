#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/memory/replay.h"
#include "src/report/categories.h"
#include "src/report/hardware_reports.h"
#include "src/report/step_figures.h"

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
  return out + "\n" + ThroughputLine(figures) + UtilizationLines(figures);
}

std::string MemoryOfRanks(const validate::Execution& execution) {
  const forecast::MemoryForecast& memory = execution.figures.memory;
  const ByteUnit unit = UnitFor(memory.peak);
  Table table({{fmt::format("memory of rank {}", memory.rank), Align::kLeft}, {unit.name}});
  table.AddRow({"peak memory of the plan's buffers", In(unit, memory.peak)});
  table.AddRow({"reserved for the buffers", In(unit, memory.reserved)});
  if (memory.outside > Bytes(0)) table.AddRow({"outside the pool", In(unit, memory.outside)});
  table.AddRow({"capacity", In(unit, memory.capacity)});
  return table.ToString();
}

Json Ranks(const validate::Execution& execution) {
  AnswerTable ranks{Keys("rank host local_rank peak_bytes reserved_bytes outside_bytes")};
  for (const validate::RankRun& run : execution.ranks) {
    const auto& memory = run.measurement.memory;
    ranks.Add({run.place.rank, run.place.host, run.place.local_rank, memory.peak.count(),
               memory.reserved.count(), memory.outside.count()});
  }
  return ranks.ToJson();
}

Json Memory(const forecast::MemoryForecast& memory) {
  Json object = MemoryJson(memory);
  Bytes known;
  for (const Bytes bytes : memory.at_peak) known += bytes;
  if (known == memory.peak) return object;
  // The device counts memory differently from the program, so categories would not add up.
  for (const std::string_view name : kCategoryNames) object[std::string(name) + "_bytes"] = Json();
  object["padding_bytes"] = Json();
  return object;
}

}  // namespace

Json ExecutedJson(const scenario::Scenario& scenario, const validate::Execution& execution) {
  Json machine = Json::object();
  for (const auto& [what, value] : execution.machine) machine[what] = value;
  return Json{{"stepcast", 1},
              {"scenario", scenario.name},
              {"backend", execution.backend},
              {"machine", std::move(machine)}};
}

Json StepsJson(const validate::Execution& execution) {
  Json steps = Json::array();
  for (const validate::MeasuredStep& step : execution.steps) {
    steps.push_back(JsonSeconds(step.end - step.start));
  }
  return steps;
}

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

std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds) {
  const forecast::Forecast& figures = execution.figures;
  Json document = ExecutedJson(scenario, execution);
  document["step_time_s"] = JsonSeconds(figures.step_time);
  document["steps_s"] = StepsJson(execution);
  document["critical_rank"] = execution.critical_rank;
  AddStep(figures, document);
  document["parameters"] = scenario.model->all_parameter_count();
  document["time_s"] = TimeJson(figures.time);
  document["communication"] = CommunicationJson(figures);
  document["memory"] = Memory(figures.memory);
  document["ranks"] = Ranks(execution);
  Close(scenario, seconds, document);
  return Text(document);
}

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
