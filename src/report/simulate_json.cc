#include "src/report/simulate_json.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/version.h"
#include "src/model/parameter_counts.h"
#include "src/report/figures_json.h"
#include "src/report/json_values.h"
#include "src/report/training_report.h"

namespace stepcast::report {

namespace {

std::string VersionText(const Version& version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

// What the forecast is for, and which of it the scenario leaves out.
Json SoftwareJson(const scenario::Scenario& scenario) {
  const plan::Software& software = scenario.plan.software;
  Json assumed = Json::array();
  if (scenario.torch_assumed) assumed.push_back("torch");
  if (scenario.nccl_assumed) assumed.push_back("nccl");
  return {{"torch", VersionText(software.torch)},
          {"nccl", VersionText(software.nccl)},
          {"assumed", std::move(assumed)}};
}

}  // namespace

std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds, const forecast::TrainingTarget& target) {
  const auto utilization = [&](double value) { return forecast.has_flops ? Json(value) : Json(); };
  const std::optional<forecast::TimeRange>& range = forecast.step_time_range;
  Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"step_time_s", JsonSeconds(forecast.step_time)},
      {"step_time_range_s",
       range ? Json{JsonSeconds(range->low), JsonSeconds(range->high)} : Json()},
      {"tokens_per_s", forecast.tokens_per_second},
      {"tokens_per_s_per_gpu", forecast.tokens_per_second_per_gpu},
      {"mfu", utilization(forecast.mfu)},
      {"hfu", utilization(forecast.hfu)},
      {"parameters", scenario.model->all_parameter_count()},
      {"time_s", TimeJson(forecast.time)},
      {"communication", CommunicationJson(forecast)},
      {"memory", MemoryJson(forecast.memory)},
      {"classes", ClassesJson(forecast)},
      {"software", SoftwareJson(scenario)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
  };
  if (!scenario.model->is_layer_list()) {
    document["attention"] = {{"kernel", model::Name(scenario.plan.training.attention)},
                             {"assumed", scenario.attention_assumed}};
  }
  if (const std::int64_t idle = scenario.idle_devices(); idle > 0) {
    document["idle_gpus"] = idle;
  }
  const std::int64_t active = model::ActiveParametersOf(*scenario.model).all;
  if (active != scenario.model->all_parameter_count()) document["active_parameters"] = active;
  if (!scenario.model->frozen.empty()) {
    document["trained_parameters"] = scenario.model->parameter_count();
  }
  if (forecast.lengths) document["lengths"] = LengthsJson(*forecast.lengths);
  if (const auto& unknown = forecast.unknown_host) {
    document["unknown_host"] = {{"framework", unknown->framework},
                                {"like", unknown->like},
                                {"step_time_s", JsonSeconds(unknown->step_time)}};
  }
  if (const auto& gap = forecast.known_gap) {
    document["known_gap"] = {{"kind", gap->kind}, {"factor", gap->factor}};
  }
  if (const auto& learned = forecast.learned) {
    document["learned"] = {{"factor", learned->factor}, {"known", learned->known}};
  }
  if (target.said()) {
    document["training"] = TargetJson(target);
    for (auto& [key, value] : TrainingFigures(target, TrainedStepOf(forecast))) {
      document[key] = std::move(value);
    }
  }
  document["run"] = {{"seconds", seconds}};
  return Text(document);
}

}  // namespace stepcast::report
