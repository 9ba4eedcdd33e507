#include "src/validate/plain_training.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/model/local.h"
#include "src/model/model.h"
#include "src/parallel/axis.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/framework_style.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"
#include "src/runtime/values/clipping.h"
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

// The type in which a layer's kernels read a tensor: sharded parameters are gathered in the compute
// type; autocast casts the matrices of all layers but the embedding; else parameters are
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
  // In the textbook a shard group of one rank has nothing to gather.
  const bool gathers =
      plan::IsFsdp(data_parallel.framework) ||
      (textbook && data_parallel.zero_stage == 3 && plan::ShardRanks(scenario.plan) > 1);
  return gathers ? computed : training.parameter_dtype;
}

// The type in which gradients are when they are clipped: DeepSpeed has cast them up by then.
DataType TypeClipped(const scenario::Scenario& scenario) {
  const bool wide = plan::StyleOf(scenario.plan.data_parallel.framework).clips_in_fp32;
  return wide ? DataType::kFp32 : scenario.plan.training.gradient_dtype;
}

// Into how many parts ranks split the tensor.
std::int64_t Parts(const model::Tensor& tensor, const parallel::Grids& grids) {
  std::int64_t parts = 1;
  for (const model::Split& split : tensor.splits) parts *= grids.Degree(split.axis);
  return parts;
}

// Of ranks that have the same part of a tensor because they divide layers, the first one's gradient
// is that of all, unless each has its own part of the tokens.
bool Contributes(const plan::Plan& plan, const model::Tensor& tensor,
                 const parallel::RankGrid::Coordinates& at) {
  const parallel::Axis axis = tensor.group == model::ParameterGroup::kExperts
                                  ? parallel::Axis::kExpertTensor
                                  : parallel::Axis::kTensor;
  return at[static_cast<std::size_t>(axis)] == 0 || tensor.IsSplitAlong(axis) ||
         (tensor.sequence_parallel && plan::AddsUpPartsOfTokens(plan));
}

}  // namespace

Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed) {
  const plan::Training& training = scenario.plan.training;
  const PlainPasses passes(scenario);
  const parallel::Grids grids = plan::GridsOf(scenario.plan);
  const model::Model local = model::Localised(*scenario.model, grids);
  const auto addends =
      static_cast<double>(plan::GradientRanks(scenario.plan) * training.gradient_accumulation);
  const auto micro_batches = static_cast<int>(training.gradient_accumulation);
  // Elements are numbered through one rank's model for each part that tensors are split into.
  const std::int64_t own = local.parameter_count();
  std::vector<std::int64_t> first_elements;
  std::int64_t elements = 0, most_parts = 1;
  for (const model::Tensor& tensor : local.tensors) {
    first_elements.push_back(elements);
    elements += tensor.elements;
    most_parts = std::max(most_parts, Parts(tensor, grids));
  }
  const std::int64_t count = own * most_parts;

  Weights weights;
  weights.used.assign(static_cast<std::size_t>(count), true);
  for (std::size_t t = 0; t < local.tensors.size(); ++t) {
    for (std::int64_t part = Parts(local.tensors[t], grids); part < most_parts; ++part) {
      const auto begin = weights.used.begin() + part * own + first_elements[t];
      std::fill(begin, begin + local.tensors[t].elements, false);
    }
  }
  // Without a master copy the parameters themselves are updated, and moments are rounded likewise.
  const DataType updated = plan::UpdatedType(training);
  for (std::int64_t e = 0; e < count; ++e) {
    weights.masters.push_back(Rounded(values::InitialValue(values::SeedHash(seed), e), updated));
    weights.parameters.push_back(weights.masters.back());
  }
  std::vector<float> moments(static_cast<std::size_t>(2 * count), 0.0f);
  for (int step = 0; step < steps; ++step) {
    std::vector<double> sums(static_cast<std::size_t>(count), 0.0);
    for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      const PlainPasses::Seeds seeds =
          passes.apart() ? PlainPasses::Seeds() : passes.Of(step, micro_batch);
      for (int rank = 0; rank < passes.ranks(); ++rank) {
        const parallel::RankGrid::Coordinates at = grids.At(rank);
        const std::uint32_t alone = values::SmallIntegerSeed(rank, step, micro_batch);
        const std::uint32_t quadratic =
            values::QuadraticSeed(grids.Layout(parallel::kData).Index(rank), micro_batch);
        for (std::size_t l = 0; l < local.layers.size(); ++l) {
          const model::Layer& layer = local.layers[l];
          for (std::size_t position = 0; position < layer.tensors.size(); ++position) {
            const auto t = static_cast<std::size_t>(layer.tensors[position]);
            const model::Tensor& tensor = local.tensors[t];
            if (!Contributes(scenario.plan, tensor, at)) continue;
            const std::uint32_t own_seed =
                passes.apart() ? alone : seeds[static_cast<std::size_t>(rank)][l][position];
            const DataType type = TypeRead(scenario, layer, tensor);
            const std::int64_t first = first_elements[t] + model::PartOf(tensor, grids, at) * own;
            for (std::int64_t e = first; e < first + tensor.elements; ++e) {
              const float read = Rounded(weights.parameters[e], type);
              sums[e] += gradients == Gradients::kSmallIntegers
                             ? values::SmallIntegerGradient(read, own_seed, e)
                             : values::QuadraticGradient(read, quadratic, e);
            }
          }
        }
      }
    }
    std::vector<float> means;
    for (const double sum : sums) means.push_back(static_cast<float>(sum / addends));
    if (training.gradient_clipping) {
      const float squares = static_cast<float>(
          values::SumOfSquares(means.data(), static_cast<std::int64_t>(means.size())));
      const float factor =
          values::ClipFactor(squares, static_cast<float>(*training.gradient_clipping));
      const DataType type = TypeClipped(scenario);
      for (float& mean : means) mean = Rounded(values::Multiply(factor, mean), type);
    }
    for (std::int64_t e = 0; e < count; ++e) {
      const float mean = means[e];
      weights.masters[e] =
          training.optimizer != plan::Optimizer::kSgd
              ? values::Updated(values::AdamWOf(step + 1), weights.masters[e], mean, &moments[e],
                                count)
              : values::Updated(values::SgdOf(), weights.masters[e], mean, &moments[e], count);
      weights.masters[e] = Rounded(weights.masters[e], updated);
      moments[e] = Rounded(moments[e], updated);
      moments[count + e] = Rounded(moments[count + e], updated);
      weights.parameters[e] = Rounded(weights.masters[e], training.parameter_dtype);
    }
  }
  return weights;
}

}  // namespace stepcast::validate
