#include "src/report/answers.h"
#include "src/report/categories.h"
#include "src/report/json.h"

namespace stepcast::report {
namespace {

Json Simulated(const forecast::MemoryForecast& memory) {
  Json object = Json::object();
  AddCategories(object, memory.at_peak);
  object["peak_bytes"] = memory.peak.count();
  object["padding_bytes"] = memory.padding.count();
  object["reserved_bytes"] = memory.reserved.count();
  object["outside_bytes"] = memory.outside.count();
  object["fits"] = memory.fits;
  object["verdict"] = Name(memory.verdict());
  object["fit_probability"] = memory.fit_probability;
  return object;
}

// The largest micro-batch, the memory it leaves, and the memory that one more sequence lacks.
Json Limit(const forecast::MicroBatchLimit& limit) {
  const auto left = [](const forecast::MemoryForecast& memory) {
    return (memory.capacity - memory.reserved - memory.outside).count();
  };
  const bool some = limit.largest > 0;
  return Json{
      {"micro_batch_size", limit.largest},
      {"limited_by", limit.of_the_plan ? "plan" : "memory"},
      {"reserved_bytes", some ? Json(limit.memory.reserved.count()) : Json()},
      {"headroom_bytes", some ? Json(left(limit.memory)) : Json()},
      {"one_more_lacks_bytes", limit.of_the_plan ? Json()
                               : some            ? Json(-left(limit.beyond))
                                                 : Json(-left(limit.memory))},
  };
}

// The least memory among the cluster's devices.
Bytes LeastMemory(const scenario::Scenario& scenario) {
  Bytes least = scenario.cluster->device_memory();
  for (const scenario::KindOfNode& kind : scenario.other_nodes) {
    least = std::min(least, kind.cluster->device_memory());
  }
  return least;
}

}  // namespace

std::string MemoryJson(const scenario::Scenario& scenario, const MemoryReport& report,
                       double seconds, const Fitting* fitting) {
  Json stages = Json::array();
  for (const StageMemory& stage : report.stages) {
    Json formula = Json::object();
    AddCategories(formula, stage.formula);
    formula["total_bytes"] = Total(stage.formula).count();
    Json entry{{"stage", stage.stage}, {"formula", std::move(formula)}};
    entry["simulated"] = stage.simulated.has_value() ? Simulated(*stage.simulated) : Json();
    if (!stage.simulated.has_value()) entry["reason"] = stage.reason;
    if (stage.limit.has_value()) entry["max_micro_batch"] = Limit(*stage.limit);
    stages.push_back(std::move(entry));
  }
  Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"parameters", scenario.model->all_parameter_count()},
      {"capacity_bytes", LeastMemory(scenario).count()},
      {"stage", report.own_stage},
      {"stages", std::move(stages)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
  };
  if (fitting != nullptr) document["would_fit"] = FittingJson(*fitting);
  document["run"] = {{"seconds", seconds}};
  return Text(document);
}

}  // namespace stepcast::report
