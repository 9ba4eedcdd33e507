#include "src/validate/plain_training.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/plan/plan.h"
#include "src/runtime/values/clipping.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::validate {
namespace {

using plan::Framework;
namespace values = runtime::values;

float Rounded(float value, DataType type) {
  return values::WithStorageType(
      type, [&](auto t) { return values::ToFp32(values::FromFp32<decltype(t)>(value)); });
}

// The type in which a layer's kernels read a tensor: sharded parameters are gathered in the compute
// type; autocast under ddp casts the matrices of all layers but the embedding; else parameters are
// read as stored.
DataType TypeRead(const scenario::Scenario& scenario, const model::Layer& layer,
                  const model::Tensor& tensor) {
  const plan::Training& training = scenario.plan.training;
  switch (scenario.plan.data_parallel.framework) {
    case Framework::kFsdp1:
    case Framework::kFsdp2:
      return plan::ComputeType(training.precision);
    case Framework::kDdp: {
      const bool casts = training.parameter_dtype == DataType::kFp32 &&
                         plan::ComputeType(training.precision) != DataType::kFp32 &&
                         !scenario.model->is_layer_list() && tensor.shape.size() > 1 &&
                         layer.kind != model::LayerKind::kEmbedding;
      return casts ? plan::ComputeType(training.precision) : training.parameter_dtype;
    }
    case Framework::kReference: {
      // A shard group of one rank has nothing to gather.
      const plan::DataParallel& plan = scenario.plan.data_parallel;
      const bool gathers = plan.zero_stage == 3 && plan.shard_group_size > 1;
      return gathers ? plan::ComputeType(training.precision) : training.parameter_dtype;
    }
    default:
      return training.parameter_dtype;
  }
}

// The type in which gradients are when they are clipped: DeepSpeed has cast them up by then.
DataType TypeClipped(const scenario::Scenario& scenario) {
  const bool wide = scenario.plan.data_parallel.framework == Framework::kDeepSpeed;
  return wide ? DataType::kFp32 : scenario.plan.training.gradient_dtype;
}

// What the gradients of each pipeline stage are made from: a micro-batch's values go through all
// stages and back (program::EffectKind::kMix).
std::vector<std::uint32_t> SeedsOfStages(std::uint32_t seed, int stages) {
  if (stages == 1) return {seed};
  std::vector<std::uint32_t> onwards, back(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    onwards.push_back(values::MixedPass(stage == 0 ? seed : onwards.back(), 0, stage));
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    const auto at = static_cast<std::size_t>(stage);
    const std::uint32_t received = stage + 1 == stages ? onwards[at] : back[at + 1];
    back[at] = values::MixedPass(received, onwards[at], stages + stage);
  }
  return back;
}

}  // namespace

Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed) {
  const model::Model& model = *scenario.model;
  const plan::Training& training = scenario.plan.training;
  const auto ranks = static_cast<int>(scenario.plan.parallelism.data);
  const auto micro_batches = static_cast<int>(training.gradient_accumulation);
  const std::int64_t count = model.parameter_count();
  std::vector<std::int64_t> first_elements;
  std::int64_t elements = 0;
  for (const model::Tensor& tensor : model.tensors) {
    first_elements.push_back(elements);
    elements += tensor.elements;
  }

  const std::vector<int> stages =
      scenario.plan.parallelism.pipeline == 1
          ? std::vector<int>{0, static_cast<int>(model.layers.size())}
          : model::StageLayers(model, scenario.plan.parallelism.stage_layers);

  Weights weights;
  for (std::int64_t e = 0; e < count; ++e) {
    weights.masters.push_back(values::InitialValue(values::SeedHash(seed), e));
    weights.parameters.push_back(weights.masters.back());
  }
  std::vector<float> moments(static_cast<std::size_t>(2 * count), 0.0f);
  for (int step = 0; step < steps; ++step) {
    std::vector<double> sums(static_cast<std::size_t>(count), 0.0);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
        const std::vector<std::uint32_t> seeds = SeedsOfStages(
            values::SmallIntegerSeed(rank, step, micro_batch), static_cast<int>(stages.size()) - 1);
        const std::uint32_t quadratic = values::QuadraticSeed(rank, micro_batch);
        std::size_t stage = 0;
        for (std::size_t l = 0; l < model.layers.size(); ++l) {
          const model::Layer& layer = model.layers[l];
          while (static_cast<int>(l) >= stages[stage + 1]) ++stage;
          for (const int t : layer.tensors) {
            const DataType type = TypeRead(scenario, layer, model.tensors[t]);
            for (std::int64_t i = 0; i < model.tensors[t].elements; ++i) {
              const std::int64_t e = first_elements[t] + i;
              const float read = Rounded(weights.parameters[e], type);
              sums[e] += gradients == Gradients::kSmallIntegers
                             ? values::SmallIntegerGradient(read, seeds[stage], e)
                             : values::QuadraticGradient(read, quadratic, e);
            }
          }
        }
      }
    }
    std::vector<float> means;
    for (const double sum : sums)
      means.push_back(static_cast<float>(sum / (ranks * micro_batches)));
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
          training.optimizer == plan::Optimizer::kAdamW
              ? values::Updated(values::AdamWOf(step + 1), weights.masters[e], mean, &moments[e],
                                count)
              : values::Updated(values::SgdOf(), weights.masters[e], mean, &moments[e], count);
      weights.parameters[e] = Rounded(weights.masters[e], training.parameter_dtype);
    }
  }
  return weights;
}

}  // namespace stepcast::validate
