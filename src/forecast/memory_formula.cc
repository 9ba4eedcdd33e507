#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "src/forecast/memory_summary.h"
#include "src/lowering/parameter_share.h"
#include "src/lowering/pipeline_stage.h"
#include "src/model/model.h"
#include "src/plan/framework_style.h"
#include "src/plan/pipeline.h"

namespace stepcast::forecast {
namespace {

using program::Category;

// Bytes of `elements` spread over `ranks`, rounded up.
Bytes Spread(std::int64_t bytes, std::int64_t ranks) { return Bytes((bytes + ranks - 1) / ranks); }

// The stage's passes, in an order for counting memory. If a forward and a backward pass interleave,
// the forward stores, layer by layer, about what the backward frees, as if it came after.
std::vector<std::size_t> OrderOfMemory(const scenario::Scenario& scenario,
                                       const lowering::PipelineStage& stage) {
  std::vector<std::size_t> order(stage.passes().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!scenario.plan.mixture.overlap_communication) return order;
  for (std::size_t pass = 0; pass < order.size(); ++pass) {
    if (stage.begins_pair()[pass]) std::swap(order[pass], order[pass + 1]);
  }
  return order;
}

// Activations of the stage for all micro-batches in flight.
Bytes Activations(const scenario::Scenario& scenario, const lowering::PipelineStage& stage) {
  const model::Model& model = stage.model();
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto works = model::BuildWork(model, options);
  Bytes saved;              // of all micro-batches in flight
  Bytes again, recomputed;  // of the present checkpoint so far; largest
  // With offloading, two blocks' checkpoints are on the device at once.
  Bytes largest;
  int offloaded = 0;
  const std::vector<int> of_layers = stage.WorkOfLayers(options);
  const auto chunk_of = [&](std::size_t layer) {
    std::size_t chunk = 0;
    while (static_cast<int>(layer) >= stage.chunks()[chunk].end_layer) ++chunk;
    return chunk;
  };
  // By chunk: memory of a micro-batch until its backward (or the input gradient's part of it), and
  // from there to the weight gradient's part.
  std::vector<Bytes> all(stage.chunks().size()), left(stage.chunks().size());
  for (std::size_t i = 0; i < of_layers.size(); ++i) {
    const model::LayerWork& work = works[of_layers[i]];
    const Bytes own = work.BytesOf(model::Lifetime::kSaved);
    again =
        (work.continues_checkpoint ? again : Bytes()) + work.BytesOf(model::Lifetime::kRecomputed);
    recomputed = std::max(recomputed, again);
    if (scenario.plan.training.activation_offload &&
        model.layers[i].kind == model::LayerKind::kBlock) {
      largest = std::max(largest, own);
      ++offloaded;
    } else {
      const std::size_t chunk = chunk_of(i);
      all[chunk] += own;
      left[chunk] += work.BytesOf(model::Lifetime::kDeferred);
      for (const model::LayerValue& kept : work.Of(model::Lifetime::kSaved)) {
        if (kept.for_weights) left[chunk] += kept.bytes;
      }
    }
  }
  for (std::size_t chunk = 0; chunk < all.size(); ++chunk) {
    Bytes now, most;
    for (const std::size_t at : OrderOfMemory(scenario, stage)) {
      const parallel::Action& pass = stage.passes()[at];
      if (stage.chunk_of(pass) != chunk) continue;
      if (pass.task == parallel::Task::kForward) now += all[chunk];
      most = std::max(most, now);
      if (pass.task == parallel::Task::kBackwardInput) now += left[chunk];
      if (pass.task != parallel::Task::kForward) {
        now -= pass.task == parallel::Task::kBackwardWeight ? left[chunk] : all[chunk];
      }
      most = std::max(most, now);
    }
    saved += most;
  }
  for (int i = 0; i < std::min(offloaded, 2); ++i) saved += largest;
  return saved + recomputed;
}

BytesByCategory OfStage(const scenario::Scenario& scenario,
                        const lowering::PipelineStage& pipeline) {
  const plan::Training& training = scenario.plan.training;
  const int stage = scenario.plan.data_parallel.zero_stage;
  const std::int64_t shards = plan::ShardRanks(scenario.plan);
  const lowering::ParameterShares parameters(scenario.plan, lowering::ElementsOf(pipeline.model()));
  const auto sharded_from = [&](int first_stage, std::int64_t bytes_per_parameter) {
    return stage >= first_stage ? parameters.Sharded(bytes_per_parameter)
                                : parameters.Whole(bytes_per_parameter);
  };
  const bool whole_gradients =
      scenario.plan.data_parallel.accumulate_unsharded &&
      (training.gradient_accumulation > 1 || scenario.plan.parallelism.pipeline > 1);
  const plan::GradientStore store = plan::StyleOf(scenario.plan.data_parallel.framework).gradients;
  const auto written_bytes = [&] {
    if (store == plan::GradientStore::kMainBuffers) return SizeOf(training.gradient_dtype);
    if (whole_gradients && store == plan::GradientStore::kUnitsAsReduced) {
      return SizeOf(training.reduce_dtype);
    }
    if (whole_gradients && store == plan::GradientStore::kUnitsAsWritten) {
      return SizeOf(plan::ComputeType(training.precision));
    }
    return SizeOf(plan::WrittenGradientType(training)) +
           (plan::AccumulatesApart(training) ? SizeOf(training.gradient_dtype) : 0);
  };
  const std::int64_t gradient_bytes = written_bytes();

  // Textbook data parallelism keeps only its shard of gradients that every micro-batch reduces.
  const bool each = !scenario.plan.data_parallel.no_sync && training.gradient_accumulation > 1;
  const int first = each && plan::TraitsOf(scenario.plan.data_parallel.framework).textbook ? 1 : 2;

  BytesByCategory result;
  const auto set = [&result](Category category, Bytes bytes) {
    result[static_cast<std::size_t>(category)] = bytes;
  };
  const Bytes frozen = model::FrozenBytes(pipeline.model());
  set(Category::kParameter, sharded_from(3, SizeOf(training.parameter_dtype)) +
                                Spread(frozen.count(), stage >= 3 ? shards : 1));
  // Updates in the backward pass leave no gradient.
  set(Category::kGradient, training.optimizer_in_backward ? Bytes()
                           : whole_gradients              ? parameters.Whole(gradient_bytes)
                                                          : sharded_from(first, gradient_bytes));
  set(Category::kOptimizer, lowering::OptimizerStates(scenario.plan, pipeline.model(), stage >= 1));
  set(Category::kActivation, Activations(scenario, pipeline));
  return result;
}

}  // namespace

BytesByCategory MemoryFormula(const scenario::Scenario& scenario) {
  BytesByCategory most{};
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario.plan);
  for (int stage = 0; stage < scenario.plan.parallelism.pipeline; ++stage) {
    const BytesByCategory own =
        OfStage(scenario, lowering::PipelineStage(scenario, schedule, stage));
    const auto total = [](const BytesByCategory& bytes) {
      return std::accumulate(bytes.begin(), bytes.end(), Bytes());
    };
    if (stage == 0 || total(own) > total(most)) most = own;
  }
  return most;
}

}  // namespace stepcast::forecast
