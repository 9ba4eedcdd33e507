#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/forecast/warnings.h"
#include "src/plan/framework_style.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

using plan::MasterWeights;

struct Choice {
  plan::Training training;
  const char* whose;
};

// The other common choice of users of the same framework.
std::optional<Choice> OtherChoice(const plan::Plan& plan) {
  const plan::FrameworkTraits& traits = plan::TraitsOf(plan.data_parallel.framework);
  plan::Training other = plan.training;
  if (SizeOf(other.parameter_dtype) == SizeOf(DataType::kFp32)) return std::nullopt;
  if (other.optimizer == plan::Optimizer::kLamb) return std::nullopt;
  if (traits.of_pytorch) {
    other.master_weights = MasterWeights::kFp32;
    other.optimizer_state_dtype = DataType::kFp32;
    return Choice{other, "as Apex's FusedAdam and amp O2 can keep them"};
  }
  if (other.parameter_dtype != DataType::kBf16) return std::nullopt;
  other.optimizer_state_dtype = DataType::kBf16;
  if (traits.textbook) {
    other.master_weights = MasterWeights::kNone;
    return Choice{other, "as PyTorch's optimizers keep them"};
  }
  const bool precision_aware =
      plan::StyleOf(plan.data_parallel.framework).precision_aware_optimizer &&
      plan.data_parallel.zero_stage == 1 && other.optimizer == plan::Optimizer::kAdamW &&
      other.optimizer_implementation == plan::OptimizerImplementation::kFused &&
      !plan.data_parallel.optimizer_cpu_offload;
  if (!precision_aware) return std::nullopt;
  other.master_weights = MasterWeights::kFp16Remainder;
  return Choice{other, "as the precision-aware optimizer keeps them"};
}

std::string Text(const plan::Training& training) {
  return fmt::format("master_weights: {} and optimizer_state_dtype: {}",
                     plan::Name(training.master_weights), Name(training.optimizer_state_dtype));
}

}  // namespace

void WarnOfOptimizerStates(const MemoryForecast& memory, scenario::Scenario& scenario) {
  if (!scenario.optimizer_states_assumed) return;
  const plan::Training& training = scenario.plan.training;
  const std::optional<Choice> other = OtherChoice(scenario.plan);
  if (!other) return;
  const Bytes own = memory.at_peak[static_cast<std::size_t>(program::Category::kOptimizer)];
  __extension__ using Wide = __int128;
  const Bytes others(static_cast<std::int64_t>(static_cast<Wide>(own.count()) *
                                               plan::OptimizerBytesPerParameter(other->training) /
                                               plan::OptimizerBytesPerParameter(training)));
  const bool would_fit = memory.reserved + memory.outside + (others - own) <= memory.capacity &&
                         (!memory.offloads() || memory.fits_host());
  if (own == Bytes() || would_fit == memory.fits) return;
  scenario.warnings.push_back(fmt::format(
      "training.master_weights is left out: with {}, {}'s default, optimizer states are {} on a "
      "rank, and the plan {}; with {}, {}, they would be {}, and it {}: say which",
      Text(training), plan::Name(scenario.plan.data_parallel.framework), FormatBytes(own),
      memory.fits ? "fits" : "does not fit", Text(other->training), other->whose,
      FormatBytes(others), would_fit ? "would fit" : "would not"));
}

}  // namespace stepcast::forecast
