#include "src/report/simulate_json.h"

#include "src/program/program.h"
#include "src/report/json_values.h"

namespace stepcast::report {
namespace {

double PhaseSeconds(const forecast::TimeBreakdown& time, program::Phase phase) {
  return JsonSeconds(time.phase[static_cast<std::size_t>(phase)]);
}

Json Communication(const forecast::Forecast& forecast) {
  double bytes_per_rank = 0;
  Json collectives = Json::array();
  for (const forecast::CollectiveSummary& summary : forecast.collectives) {
    bytes_per_rank += summary.wire_bytes_per_rank;
    collectives.push_back(Json{
        {"collective", Name(summary.collective)},
        {"group", summary.group},
        {"calls", summary.calls},
        {"bytes_per_rank", JsonNumber(summary.wire_bytes_per_rank)},
        {"algorithm", summary.algorithm},
        {"total_s", JsonSeconds(summary.total)},
        {"provenance", cost::Name(summary.provenance)},
    });
  }
  return Json{
      {"bytes_per_rank", JsonNumber(bytes_per_rank)},
      {"total_s", JsonSeconds(forecast.communication_total)},
      {"exposed_s", JsonSeconds(forecast.time.exposed_communication)},
      {"collectives", std::move(collectives)},
  };
}

Json Memory(const forecast::MemoryForecast& memory) {
  Json object{
      {"rank", memory.rank},
      {"peak_bytes", memory.peak.count()},
      {"reserved_bytes", memory.reserved.count()},
      {"outside_bytes", memory.outside.count()},
      {"capacity_bytes", memory.capacity.count()},
      {"fits", memory.fits},
  };
  AddCategories(object, memory.at_peak);
  object["padding_bytes"] = memory.padding.count();
  return object;
}

}  // namespace

std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds) {
  const auto utilization = [&](double value) { return forecast.has_flops ? Json(value) : Json(); };
  const Json document{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"step_time_s", JsonSeconds(forecast.step_time)},
      {"tokens_per_s", forecast.tokens_per_second},
      {"tokens_per_s_per_gpu", forecast.tokens_per_second_per_gpu},
      {"mfu", utilization(forecast.mfu)},
      {"hfu", utilization(forecast.hfu)},
      {"parameters", scenario.model->parameter_count()},
      {"time_s",
       {{"forward", PhaseSeconds(forecast.time, program::Phase::kForward)},
        {"backward", PhaseSeconds(forecast.time, program::Phase::kBackward)},
        {"optimizer", PhaseSeconds(forecast.time, program::Phase::kOptimizer)},
        {"exposed_communication", JsonSeconds(forecast.time.exposed_communication)},
        {"idle", JsonSeconds(forecast.time.idle)}}},
      {"communication", Communication(forecast)},
      {"memory", Memory(forecast.memory)},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  };
  return Text(document);
}

}  // namespace stepcast::report
