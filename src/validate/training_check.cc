#include "src/validate/training_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/plan/rank_grid.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/optimizers.h"
#include "src/validate/plain_training.h"

namespace stepcast::validate {
namespace {

bool IsPowerOfTwo(std::int64_t number) { return (number & (number - 1)) == 0; }

// Whether the sum of the squares of all averages is exact in FP32, however it is added up, and with
// it what gradients are clipped by. An average is a multiple of 1 / addends, and at most twice what
// a rank makes (a tied tensor has two contributions).
bool ClipsExactly(const scenario::Scenario& scenario, std::int64_t addends) {
  if (!scenario.plan.training.gradient_clipping) return true;
  constexpr double kExactInFp32 = 1 << 24;
  const double largest = 2.0 * runtime::values::kLargestSmallInteger * static_cast<double>(addends);
  return static_cast<double>(scenario.model->parameter_count()) * largest * largest <= kExactInFp32;
}

// Exact averages need a power of two to divide by and sums that the wire's type holds: at most 64
// addends of up to 4 in bf16.
double BoundOf(const scenario::Scenario& scenario, int steps) {
  const plan::Training& training = scenario.plan.training;
  const std::int64_t addends =
      plan::GradientRanks(scenario.plan) * training.gradient_accumulation *
      (plan::AddsUpPartsOfTokens(scenario.plan) ? scenario.plan.parallelism.tensor : 1);
  constexpr std::int64_t kExactAddends = 64;
  if (IsPowerOfTwo(addends) && addends <= kExactAddends && ClipsExactly(scenario, addends)) {
    return 0;
  }
  // A gradient is at most kLargestSmallInteger; see optimizers.h.
  namespace values = runtime::values;
  const double largest = training.optimizer != plan::Optimizer::kSgd
                             ? (1 - values::kBeta1) / std::sqrt(1 - values::kBeta2)
                             : values::kLargestSmallInteger / (1 - values::kMomentum);
  return 2 * values::kLearningRate * (largest + values::kWeightDecay) * steps;
}

}  // namespace

runtime::Attempt<std::string> ReadWeights(const program::Program& program,
                                          runtime::Device& device) {
  messaging::ByteWriter writer;
  for (const program::StatePart& part : program.data_flow.state) {
    if (part.role == program::StateRole::kMoment) continue;
    const auto values = device.Read(part.place, part.elements);
    if (!values) return tl::unexpected(values.error());
    writer.Number(part.role == program::StateRole::kMaster ? 2 : 1);
    writer.Signed(part.first_element);
    writer.Text({reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float)});
  }
  writer.Number(0);
  return writer.Take();
}

runtime::Attempt<TrainingCheck> CheckTraining(const scenario::Scenario& scenario,
                                              const std::vector<std::string>& weights, int steps,
                                              std::uint64_t seed) {
  const Weights plain = TrainPlainly(scenario, Gradients::kSmallIntegers, steps, seed);
  TrainingCheck check;
  check.elements = static_cast<std::int64_t>(plain.parameters.size());
  check.bound = BoundOf(scenario, steps);
  std::vector<bool> seen(plain.parameters.size());
  for (std::size_t e = 0; e < seen.size(); ++e) seen[e] = !plain.used[e];
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    messaging::ByteReader reader(weights[rank]);
    for (;;) {
      const auto role = reader.Number();
      if (role == 0) break;
      const auto first = static_cast<std::size_t>(reader.Signed());
      const std::string bytes = reader.Text();
      const std::size_t count = bytes.size() / sizeof(float);
      if (first > seen.size() || count > seen.size() - first) {
        return tl::unexpected(runtime::Failure{
            fmt::format("rank {} sent elements that the model does not have", rank)});
      }
      const std::vector<float>& expected = role == 2 ? plain.masters : plain.parameters;
      for (std::size_t i = 0; i < count; ++i) {
        float value = 0;
        std::copy_n(bytes.data() + i * sizeof(float), sizeof(float),
                    reinterpret_cast<char*>(&value));
        const float right = expected[first + i];
        const double off = std::abs(static_cast<double>(value) - static_cast<double>(right));
        const bool same = check.bound == 0 ? std::bit_cast<std::uint32_t>(value) ==
                                                 std::bit_cast<std::uint32_t>(right)
                                           : off <= check.bound;
        seen[first + i] = true;
        check.compared += 1;
        check.furthest = std::max(check.furthest, off);
        if (same) continue;
        if (check.wrong == 0) {
          check.example =
              fmt::format("{} of element {} on rank {} is {}, not {}",
                          role == 2 ? "master copy" : "parameter", first + i, rank, value, right);
        }
        check.wrong += 1;
      }
    }
    if (reader.bad()) {
      return tl::unexpected(
          runtime::Failure{fmt::format("the parameters of rank {} are not whole", rank)});
    }
  }
  const auto gap = std::find(seen.begin(), seen.end(), false);
  if (gap != seen.end()) {
    check.missing = fmt::format("element {} is on no rank", gap - seen.begin());
  }
  return check;
}

}  // namespace stepcast::validate
