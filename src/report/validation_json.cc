#include <cmath>
#include <cstddef>
#include <utility>

#include "src/forecast/training_run.h"
#include "src/program/description.h"
#include "src/report/hardware_reports.h"
#include "src/report/json.h"

namespace stepcast::report {
namespace {

Json Relative(double difference, double measured) {
  return measured == 0 ? Json() : Json(difference / measured);
}

Json Pair(const validate::TimePair& pair) {
  return Json{{"forecast_s", JsonSeconds(pair.forecast)},
              {"measured_s", JsonSeconds(pair.measured)},
              {"difference_s", JsonSeconds(pair.difference())},
              {"error", Relative(pair.difference().seconds(), pair.measured.seconds())}};
}

Json TimeOfStep(const validate::Comparison& comparison) {
  Json object = Json::object();
  for (const validate::TimePair& pair : comparison.time) {
    for (const forecast::TimePart& part : forecast::PartsOf({})) {
      if (part.name == pair.name) object[std::string(part.key)] = Pair(pair);
    }
  }
  return object;
}

Json Kinds(const validate::Comparison& comparison) {
  Json array = Json::array();
  for (const validate::TimePair& pair : comparison.kinds) {
    Json object{{"operation", pair.name}, {"calls", pair.calls}};
    object.update(Pair(pair));
    array.push_back(std::move(object));
  }
  return array;
}

Json Largest(const program::Program& program, const validate::Comparison& comparison) {
  Json array = Json::array();
  for (const validate::OperationPair& pair : comparison.largest) {
    const program::Instruction& instruction = program.step[pair.instruction];
    Json object{
        {"operation", program::OperandName(program, instruction)},
        {"label",
         instruction.label == program::kNone ? Json() : Json(program.labels[instruction.label])},
        {"stream", program::RunsOnStream(instruction.opcode)
                       ? program.streams[instruction.stream].name
                       : "host"},
        {"phase", Name(instruction.phase)},
        {"micro_batch", instruction.micro_batch},
        {"forecast_start_s", JsonSeconds(pair.forecast_start)},
        {"measured_start_s", JsonSeconds(pair.measured_start)},
        {"forecast_s", JsonSeconds(pair.forecast_duration)},
        {"measured_s", JsonSeconds(pair.measured_duration)},
        {"difference_s", JsonSeconds(pair.difference())},
    };
    array.push_back(std::move(object));
  }
  return array;
}

}  // namespace

std::string ValidationJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within, double seconds) {
  Json steps = Json::array();
  for (const validate::MeasuredStep& step : execution.steps) {
    steps.push_back(JsonSeconds(step.end - step.start));
  }
  Json machine = Json::object();
  for (const auto& [what, value] : execution.machine) machine[what] = value;
  const validate::BytesPair& peak = comparison.peak;
  const auto forecast_peak = static_cast<double>(peak.forecast.count());
  const auto measured_peak = static_cast<double>(peak.measured.count());
  const Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"backend", execution.backend},
      {"machine", std::move(machine)},
      {"ranks", execution.ranks.size()},
      {"within", within},
      {"ok", std::abs(comparison.step_error()) <= within},
      {"step_time_s", Pair(comparison.step)},
      {"steps_s", std::move(steps)},
      {"time_s", TimeOfStep(comparison)},
      {"communication_total_s", Pair(comparison.communication)},
      {"operations", Kinds(comparison)},
      {"largest_differences", Largest(execution.program_of(execution.critical()), comparison)},
      {"peak_bytes",
       {{"forecast", peak.forecast.count()},
        {"measured", peak.measured.count()},
        {"difference", (peak.forecast - peak.measured).count()},
        {"error", Relative(forecast_peak - measured_peak, measured_peak)}}},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  };
  return Text(document);
}

}  // namespace stepcast::report
