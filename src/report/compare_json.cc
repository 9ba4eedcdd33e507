#include <cstdint>
#include <utility>

#include "src/report/answers.h"
#include "src/report/categories.h"
#include "src/report/json.h"
#include "src/report/plan_rows.h"

namespace stepcast::report {
namespace {

Json Plan(const ComparedPlan& plan) {
  const forecast::Forecast& forecast = *plan.forecast;
  const auto utilization = [&](double value) { return forecast.has_flops ? Json(value) : Json(); };
  return Json{
      {"scenario", plan.scenario->name},
      {"file", plan.file},
      {"step_time_s", JsonSeconds(forecast.step_time)},
      {"tokens_per_s", forecast.tokens_per_second},
      {"tokens_per_s_per_gpu", forecast.tokens_per_second_per_gpu},
      {"mfu", utilization(forecast.mfu)},
      {"hfu", utilization(forecast.hfu)},
      {"time_s", TimeJson(forecast.time)},
      {"communication", CommunicationJson(forecast)},
      {"memory", MemoryJson(forecast.memory)},
      {"resolved", ToJson(plan.scenario->resolved)},
      {"warnings", plan.scenario->warnings},
  };
}

Json TimeDifference(const forecast::Forecast& a, const forecast::Forecast& b) {
  // Subtracted as whole picoseconds, so that equal parts have a difference of exactly zero.
  forecast::TimeBreakdown time;
  for (std::size_t i = 0; i < time.phase.size(); ++i) {
    time.phase[i] = b.time.phase[i] - a.time.phase[i];
  }
  time.exposed_communication = b.time.exposed_communication - a.time.exposed_communication;
  time.imbalance = b.time.imbalance - a.time.imbalance;
  time.pipeline_bubble = b.time.pipeline_bubble - a.time.pipeline_bubble;
  time.idle = b.time.idle - a.time.idle;
  time.allocator_flushes = b.time.allocator_flushes - a.time.allocator_flushes;
  time.learned = b.time.learned - a.time.learned;
  return TimeJson(time);
}

Json MemoryDifference(const forecast::MemoryForecast& a, const forecast::MemoryForecast& b) {
  Json object{
      {"peak_bytes", (b.peak - a.peak).count()},
      {"reserved_bytes", (b.reserved - a.reserved).count()},
      {"outside_bytes", (b.outside - a.outside).count()},
  };
  forecast::BytesByCategory categories{};
  for (std::size_t i = 0; i < categories.size(); ++i) categories[i] = b.at_peak[i] - a.at_peak[i];
  AddCategories(object, categories);
  return object;
}

Json Collectives(const forecast::Forecast& a, const forecast::Forecast& b) {
  Json array = Json::array();
  for (const CollectivePair& pair : PairCollectives(a, b)) {
    const auto figure = [&](auto of) {
      return (pair.b == nullptr ? 0 : of(*pair.b)) - (pair.a == nullptr ? 0 : of(*pair.a));
    };
    const Time of_a = pair.a == nullptr ? Time() : pair.a->total;
    const Time of_b = pair.b == nullptr ? Time() : pair.b->total;
    array.push_back(Json{
        {"collective", Name(pair.any().collective)},
        {"group", pair.any().group},
        {"calls", figure([](const auto& summary) { return summary.calls; })},
        {"bytes_per_rank",
         JsonNumber(figure([](const auto& summary) { return summary.wire_bytes_per_rank; }))},
        {"total_s", JsonSeconds(of_b - of_a)},
    });
  }
  return array;
}

}  // namespace

std::string CompareJson(const ComparedPlan& a, const ComparedPlan& b, double seconds,
                        const std::vector<GuardVerdict>& guards) {
  Json verdicts = Json::array();
  for (const GuardVerdict& verdict : guards) {
    verdicts.push_back(
        {{"guard", verdict.guard}, {"a", verdict.a}, {"b", verdict.b}, {"failed", verdict.failed}});
  }
  Json settings = Json::array();
  for (const SettingPair& pair : DifferentSettings(*a.scenario, *b.scenario)) {
    settings.push_back(Json{{"key", pair.key}, {"a", pair.a}, {"b", pair.b}});
  }
  return Text(Json{
      {"stepcast", 1},
      {"a", Plan(a)},
      {"b", Plan(b)},
      {"settings", std::move(settings)},
      {"difference",
       {{"step_time_s", JsonSeconds(b.forecast->step_time - a.forecast->step_time)},
        {"time_s", TimeDifference(*a.forecast, *b.forecast)},
        {"communication_total_s",
         JsonSeconds(b.forecast->communication_total - a.forecast->communication_total)},
        {"collectives", Collectives(*a.forecast, *b.forecast)},
        {"memory", MemoryDifference(a.forecast->memory, b.forecast->memory)}}},
      {"guards", std::move(verdicts)},
      {"run", {{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
