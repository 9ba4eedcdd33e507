#include "src/validate/training_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/parallel/axis.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/framework_style.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"
#include "src/validate/plain_passes.h"

namespace stepcast::validate {
namespace {

namespace values = runtime::values;

float Rounded(float value, DataType type) {
  return values::WithStorageType(
      type, [&](auto t) { return values::ToFp32(values::FromFp32<decltype(t)>(value)); });
}

// The type in which a layer's kernels read a tensor. Sharded parameters are gathered in the compute
// type; autocast converts the matrices of all layers except the embedding; otherwise parameters are
// read as stored.
DataType TypeRead(const scenario::Scenario& scenario, const model::Layer& layer,
                  const model::Tensor& tensor) {
  const plan::Training& training = scenario.plan.training;
  const DataType computed = plan::ComputeType(training.precision);
  if (training.autocast) {
    const bool casts = !scenario.model->is_layer_list() && tensor.shape.size() > 1 &&
                       layer.kind != model::LayerKind::kEmbedding;
    return casts ? computed : training.parameter_dtype;
  }
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const bool textbook = plan::TraitsOf(data_parallel.framework).textbook;
  // In the textbook, a shard group of one rank gathers nothing.
  const bool gathers =
      plan::IsFsdp(data_parallel.framework) ||
      (textbook && data_parallel.zero_stage == 3 && plan::ShardRanks(scenario.plan) > 1);
  return gathers ? computed : training.parameter_dtype;
}

// The type of gradients when they are clipped; DeepSpeed has converted them to FP32 by then.
DataType TypeClipped(const scenario::Scenario& scenario) {
  const bool wide = plan::StyleOf(scenario.plan.data_parallel.framework).clips_in_fp32;
  return wide ? DataType::kFp32 : scenario.plan.training.gradient_dtype;
}

// The number of parts into which ranks split the tensor.
std::int64_t Parts(const model::Tensor& tensor, const parallel::Grids& grids) {
  std::int64_t parts = 1;
  for (const model::Split& split : tensor.splits) parts *= grids.Degree(split.axis);
  return parts;
}

// Whether the rank's gradient counts. Of ranks with the same part of a tensor, only the first one's
// does, unless each has its own part of the tokens.
bool Contributes(const plan::Plan& plan, const model::Tensor& tensor,
                 const parallel::RankGrid::Coordinates& at) {
  const parallel::Axis axis = tensor.group == model::ParameterGroup::kExperts
                                  ? parallel::Axis::kExpertTensor
                                  : parallel::Axis::kTensor;
  return at[static_cast<std::size_t>(axis)] == 0 || tensor.IsSplitAlong(axis) ||
         (tensor.sequence_parallel && plan::AddsUpPartsOfTokens(plan));
}

class PlainTraining {
 public:
  PlainTraining(const scenario::Scenario& scenario, Gradients gradients, std::uint64_t seed)
      : scenario_(scenario),
        training_(scenario.plan.training),
        gradients_(gradients),
        passes_(scenario),
        grids_(plan::GridsOf(scenario.plan)),
        local_(model::Localised(*scenario.model, grids_)),
        updated_(plan::UpdatedType(training_)) {
    NumberElements();
    MarkUsed();
    for (std::int64_t e = 0; e < count_; ++e) {
      weights_.masters.push_back(
          Rounded(values::InitialValue(values::SeedHash(seed), e), updated_));
      weights_.parameters.push_back(weights_.masters.back());
    }
    moments_.assign(static_cast<std::size_t>(2 * count_), 0.0f);
  }

  void RunStep(int step) {
    std::vector<double> sums(static_cast<std::size_t>(count_), 0.0);
    for (int micro_batch = 0; micro_batch < training_.gradient_accumulation; ++micro_batch) {
      const PlainPasses::Seeds seeds =
          passes_.apart() ? PlainPasses::Seeds() : passes_.Of(step, micro_batch);
      for (int rank = 0; rank < passes_.ranks(); ++rank) {
        AddGradients({step, micro_batch, rank}, seeds, sums);
      }
    }
    Update(step, Means(sums));
  }

  const Weights& weights() const { return weights_; }

 private:
  // The backward pass of a micro-batch on a rank.
  struct Backward {
    int step, micro_batch, rank;
  };

  // Numbers the elements through one rank's model, for each part into which tensors are split.
  void NumberElements() {
    std::int64_t elements = 0;
    for (const model::Tensor& tensor : local_.tensors) {
      first_elements_.push_back(elements);
      elements += tensor.elements;
      most_parts_ = std::max(most_parts_, Parts(tensor, grids_));
    }
    own_ = local_.parameter_count();
    count_ = own_ * most_parts_;
  }

  void MarkUsed() {
    weights_.used.assign(static_cast<std::size_t>(count_), true);
    for (std::size_t t = 0; t < local_.tensors.size(); ++t) {
      for (std::int64_t part = Parts(local_.tensors[t], grids_); part < most_parts_; ++part) {
        const auto begin = weights_.used.begin() + part * own_ + first_elements_[t];
        std::fill(begin, begin + local_.tensors[t].elements, false);
      }
    }
  }

  void AddGradients(const Backward& backward, const PlainPasses::Seeds& seeds,
                    std::vector<double>& sums) const {
    const auto [step, micro_batch, rank] = backward;
    const parallel::RankGrid::Coordinates at = grids_.At(rank);
    const std::uint32_t alone = values::SmallIntegerSeed(rank, step, micro_batch);
    const std::uint32_t quadratic =
        values::QuadraticSeed(grids_.Layout(parallel::kData).Index(rank), micro_batch);
    for (std::size_t l = 0; l < local_.layers.size(); ++l) {
      const model::Layer& layer = local_.layers[l];
      for (std::size_t position = 0; position < layer.tensors.size(); ++position) {
        const auto t = static_cast<std::size_t>(layer.tensors[position]);
        const model::Tensor& tensor = local_.tensors[t];
        if (!Contributes(scenario_.plan, tensor, at)) continue;
        const std::uint32_t small_integers =
            passes_.apart() ? alone : seeds[static_cast<std::size_t>(rank)][l][position];
        const DataType type = TypeRead(scenario_, layer, tensor);
        const std::int64_t first = first_elements_[t] + model::PartOf(tensor, grids_, at) * own_;
        for (std::int64_t e = first; e < first + tensor.elements; ++e) {
          const float read = Rounded(weights_.parameters[e], type);
          sums[e] += gradients_ == Gradients::kSmallIntegers
                         ? values::SmallIntegerGradient(read, small_integers, e)
                         : values::QuadraticGradient(read, quadratic, e);
        }
      }
    }
  }

  // The average over ranks and micro-batches, clipped.
  std::vector<float> Means(const std::vector<double>& sums) const {
    const auto addends =
        static_cast<double>(plan::GradientRanks(scenario_.plan) * training_.gradient_accumulation);
    std::vector<float> means;
    for (const double sum : sums) means.push_back(static_cast<float>(sum / addends));
    if (training_.gradient_clipping) {
      const float squares = static_cast<float>(
          values::SumOfSquares(means.data(), static_cast<std::int64_t>(means.size())));
      const float factor =
          values::ClipFactor(squares, static_cast<float>(*training_.gradient_clipping));
      const DataType type = TypeClipped(scenario_);
      for (float& mean : means) mean = Rounded(values::Multiply(factor, mean), type);
    }
    return means;
  }

  // Without a master copy the parameters themselves are updated, and moments are rounded in the
  // same way.
  void Update(int step, const std::vector<float>& means) {
    for (std::int64_t e = 0; e < count_; ++e) {
      float& master = weights_.masters[e];
      master =
          training_.optimizer != plan::Optimizer::kSgd
              ? values::Updated(values::AdamWOf(step + 1), master, means[e], &moments_[e], count_)
              : values::Updated(values::SgdOf(), master, means[e], &moments_[e], count_);
      master = Rounded(master, updated_);
      moments_[e] = Rounded(moments_[e], updated_);
      moments_[count_ + e] = Rounded(moments_[count_ + e], updated_);
      weights_.parameters[e] = Rounded(master, training_.parameter_dtype);
    }
  }

  const scenario::Scenario& scenario_;
  const plan::Training& training_;
  Gradients gradients_;
  PlainPasses passes_;
  parallel::Grids grids_;
  model::Model local_;
  DataType updated_;
  std::vector<std::int64_t> first_elements_;  // by tensor
  std::int64_t most_parts_ = 1;
  std::int64_t own_ = 0;    // elements of one rank's model
  std::int64_t count_ = 0;  // of all elements
  Weights weights_;
  std::vector<float> moments_;
};

}  // namespace

Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed) {
  PlainTraining training(scenario, gradients, seed);
  for (int step = 0; step < steps; ++step) training.RunStep(step);
  return training.weights();
}

namespace {

bool IsPowerOfTwo(std::int64_t number) { return (number & (number - 1)) == 0; }

// Whether the sum of the squares of all averages, and so the clipping factor, is exact in FP32 in
// any order. An average is a multiple of 1 / addends, and at most twice a rank's gradient (a tied
// tensor has two contributions).
bool ClipsExactly(const scenario::Scenario& scenario, std::int64_t addends) {
  if (!scenario.plan.training.gradient_clipping) return true;
  constexpr double kExactInFp32 = 1 << 24;
  const double largest = 2.0 * runtime::values::kLargestSmallInteger * static_cast<double>(addends);
  return static_cast<double>(scenario.model->parameter_count()) * largest * largest <= kExactInFp32;
}

// An exact average needs a power of two as divisor, and sums that the communicated type holds: at
// most 64 addends of up to 4 in bf16.
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
