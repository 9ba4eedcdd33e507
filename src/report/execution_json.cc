#include <utility>

#include "src/report/categories.h"
#include "src/report/hardware_reports.h"
#include "src/report/json.h"

namespace stepcast::report {
namespace {

Json Ranks(const validate::Execution& execution) {
  Json ranks = Json::array();
  for (const validate::RankRun& run : execution.ranks) {
    ranks.push_back(Json{
        {"rank", run.place.rank},
        {"host", run.place.host},
        {"local_rank", run.place.local_rank},
        {"peak_bytes", run.measurement.memory.peak.count()},
        {"reserved_bytes", run.measurement.memory.reserved.count()},
        {"outside_bytes", run.measurement.memory.outside.count()},
    });
  }
  return ranks;
}

Json Memory(const forecast::MemoryForecast& memory) {
  Json object = MemoryJson(memory);
  Bytes known;
  for (const Bytes bytes : memory.at_peak) known += bytes;
  if (known == memory.peak) return object;
  // The device counts memory differently from the program, so categories would not add up.
  for (std::size_t i = 0; i < memory.at_peak.size(); ++i) {
    object[std::string(kCategoryNames[i]) + "_bytes"] = nullptr;
  }
  object["padding_bytes"] = nullptr;
  return object;
}

}  // namespace

std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds) {
  const forecast::Forecast& figures = execution.figures;
  const auto utilization = [&](double value) { return figures.has_flops ? Json(value) : Json(); };
  Json steps = Json::array();
  for (const validate::MeasuredStep& step : execution.steps) {
    steps.push_back(JsonSeconds(step.end - step.start));
  }
  Json machine = Json::object();
  for (const auto& [what, value] : execution.machine) machine[what] = value;
  const Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"backend", execution.backend},
      {"machine", std::move(machine)},
      {"step_time_s", JsonSeconds(figures.step_time)},
      {"steps_s", std::move(steps)},
      {"critical_rank", execution.critical_rank},
      {"tokens_per_s", figures.tokens_per_second},
      {"tokens_per_s_per_gpu", figures.tokens_per_second_per_gpu},
      {"mfu", utilization(figures.mfu)},
      {"hfu", utilization(figures.hfu)},
      {"parameters", scenario.model->all_parameter_count()},
      {"time_s", TimeJson(figures.time)},
      {"communication", CommunicationJson(figures)},
      {"memory", Memory(figures.memory)},
      {"ranks", Ranks(execution)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  };
  return Text(document);
}

}  // namespace stepcast::report
