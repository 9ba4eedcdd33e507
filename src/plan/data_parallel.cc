#include "src/plan/data_parallel.h"

namespace stepcast::plan {
PowerSgd Complete(const PowerSgdRequest& request) {
  const PowerSgd defaults;
  return {
      .rank = request.rank.value_or(defaults.rank),
      .start_iteration = request.start_iteration.value_or(defaults.start_iteration),
      .min_compression_rate = request.min_compression_rate.value_or(defaults.min_compression_rate),
      .error_feedback = request.error_feedback.value_or(defaults.error_feedback),
      .warm_start = request.warm_start.value_or(defaults.warm_start)};
}

bool Compresses(const PowerSgd& settings, std::int64_t rows, std::int64_t columns) {
  return static_cast<double>((rows + columns) * settings.rank) * settings.min_compression_rate <
         static_cast<double>(rows * columns);
}

}  // namespace stepcast::plan
