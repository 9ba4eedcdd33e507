#include "src/report/figures_json.h"

#include <optional>
#include <utility>

#include "src/forecast/time_parts.h"
#include "src/program/program.h"

namespace stepcast::report {
Json TimeJson(const forecast::TimeBreakdown& time) {
  Json object;
  for (const forecast::TimePart& part : forecast::PartsOf(time)) {
    if (part.always || part.time != Time()) object[part.key] = JsonSeconds(part.time);
  }
  return object;
}

Json ClassesJson(const forecast::Forecast& forecast) {
  Json classes = Json::array();
  for (const forecast::ClassForecast& own : forecast.classes) {
    classes.push_back(Json{{"stage", own.label.stage},
                           {"in_flight", own.in_flight},
                           {"ranks", own.ranks},
                           {"first_rank", own.first_rank},
                           {"speed", JsonNumber(own.speed)},
                           {"device", own.device.empty() ? Json() : Json(own.device)},
                           {"time_s", TimeJson(own.time)},
                           {"memory", MemoryJson(own.memory)}});
  }
  return classes;
}

Json LengthsJson(const forecast::LengthsForecast& lengths) {
  Json steps = Json::array();
  for (const forecast::LengthsForecast::Step& step : lengths.steps) {
    steps.push_back(Json{{"tokens", step.tokens},
                         {"of_ranks", JsonNumber(step.of_ranks)},
                         {"of_steps", JsonNumber(step.of_steps)},
                         {"step_time_s", JsonSeconds(step.step_time)}});
  }
  return Json{{"sample_tokens", JsonNumber(lengths.sample_tokens)},
              {"padded_tokens", JsonNumber(lengths.padded_tokens)},
              {"padding", JsonNumber(lengths.padding())},
              {"wait_in_micro_batches", lengths.wait_in_micro_batches},
              {"slowest_tokens", JsonNumber(lengths.slowest_tokens)},
              {"steps", std::move(steps)}};
}

Json CommunicationJson(const forecast::Forecast& forecast) {
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
        {"protocol", summary.protocol.empty() ? Json() : Json(summary.protocol)},
        {"channels", summary.channels == 0 ? Json() : Json(summary.channels)},
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

Json MemoryJson(const forecast::MemoryForecast& memory) {
  Json object{
      {"rank", memory.rank},
      {"peak_bytes", memory.peak.count()},
      {"reserved_bytes", memory.reserved.count()},
      {"outside_bytes", memory.outside.count()},
      {"capacity_bytes", memory.capacity.count()},
      {"fits", memory.fits},
      {"verdict", Name(memory.verdict())},
      {"fit_probability", memory.fit_probability},
  };
  AddCategories(object, memory.at_peak);
  object["padding_bytes"] = memory.padding.count();
  const std::optional<forecast::BytesRange>& range = memory.peak_range;
  object["peak_range_bytes"] = range ? Json{range->low.count(), range->high.count()} : Json();
  object["error_bytes"] = memory.error.count();
  object["allocator_flushes"] = memory.allocator_flushes;
  if (memory.allocator_may_hang) object["allocator_may_hang"] = true;
  if (memory.offloads()) {
    object["host_bytes"] = memory.host.count();
    object["host_capacity_bytes"] = memory.host_capacity.count();
    object["nvme_bytes"] = memory.drives.count();
    object["nvme_capacity_bytes"] = memory.drives_capacity.count();
  }
  return object;
}

}  // namespace stepcast::report
