#include <utility>

#include "src/report/answers.h"
#include "src/report/json.h"
#include "src/report/measured_step.h"

namespace stepcast::report {

std::string ExplainJson(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, double seconds,
                        const MeasuredStep* measured) {
  Json path = Json::array();
  for (const forecast::PathShare& share : explanation.path) {
    path.push_back({{"operation", share.operation},
                    {"bound_by", share.bound_by.empty() ? Json() : Json(share.bound_by)},
                    {"time_s", JsonSeconds(share.time)},
                    {"slowed_s", JsonSeconds(share.slowed)}});
  }
  Json exposed = Json::array();
  for (const forecast::ExposedCollective& collective : explanation.exposed) {
    Json largest = Json::array();
    for (const auto& [label, time] : collective.largest) {
      largest.push_back({{"label", label}, {"exposed_s", JsonSeconds(time)}});
    }
    exposed.push_back({{"collective", Name(collective.collective)},
                       {"group", collective.group},
                       {"calls", collective.calls},
                       {"exposed_s", JsonSeconds(collective.exposed)},
                       {"largest", std::move(largest)}});
  }
  Json what_if = Json::array();
  for (const forecast::WhatIf& change : explanation.what_if) {
    what_if.push_back({{"faster", Name(change.resource)},
                       {"factor", forecast::kFaster},
                       {"step_time_s", JsonSeconds(change.step_time)}});
  }
  Json contents = Json::array();
  for (const forecast::PeakContent& content : explanation.contents) {
    contents.push_back({{"name", content.name},
                        {"category", Name(content.category)},
                        {"count", content.count},
                        {"bytes", content.total.count()}});
  }
  Json layers = Json::array();
  for (const forecast::LayerMemory& layer : explanation.layers) {
    layers.push_back({{"layer", layer.layer}, {"bytes", layer.total.count()}});
  }
  const auto& speed = explanation.speed_that_hides;
  return Text(Json{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"step_time_s", JsonSeconds(explanation.forecast.step_time)},
      {"measured",
       measured == nullptr ? Json() : MeasuredStepJson(explanation.forecast, *measured)},
      {"time_s", TimeJson(explanation.forecast.time)},
      {"critical_path", std::move(path)},
      {"exposed_communication",
       {{"total_s", JsonSeconds(explanation.forecast.time.exposed_communication)},
        {"collectives", std::move(exposed)},
        {"hidden_part", forecast::kHiddenPart},
        {"hidden_when_faster_by", speed ? Json(*speed) : Json()}}},
      {"what_if", std::move(what_if)},
      {"memory", MemoryJson(explanation.forecast.memory)},
      {"memory_at_peak", {{"contents", std::move(contents)}, {"layers", std::move(layers)}}},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
