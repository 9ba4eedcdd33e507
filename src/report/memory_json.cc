#include "src/report/categories.h"
#include "src/report/json_values.h"
#include "src/report/memory_report.h"

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
  return object;
}

}  // namespace

std::string MemoryJson(const scenario::Scenario& scenario, const MemoryReport& report,
                       double seconds) {
  Json stages = Json::array();
  for (const StageMemory& stage : report.stages) {
    Json formula = Json::object();
    AddCategories(formula, stage.formula);
    formula["total_bytes"] = Total(stage.formula).count();
    Json entry{{"stage", stage.stage}, {"formula", std::move(formula)}};
    entry["simulated"] = stage.simulated.has_value() ? Simulated(*stage.simulated) : Json();
    if (!stage.simulated.has_value()) entry["reason"] = stage.reason;
    stages.push_back(std::move(entry));
  }
  return Text(Json{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"parameters", scenario.model->parameter_count()},
      {"capacity_bytes", scenario.cluster->device_memory().count()},
      {"stage", report.own_stage},
      {"stages", std::move(stages)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
