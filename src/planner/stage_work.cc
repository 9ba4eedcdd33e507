#include "src/planner/stage_work.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "src/base/expected.h"
#include "src/lowering/host_offload.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_style.h"
#include "src/plan/rank_grid.h"
#include "src/planner/bounds.h"
#include "src/program/program.h"

namespace stepcast::planner {
namespace {

using model::Operation;
using scenario::Scenario;

// Prices of kernels and of collectives inside layers, in the order of the works' passes.
class PassPricer {
 public:
  PassPricer(const Scenario& scenario, const std::vector<model::LayerWork>& works,
             cost::PriceCache& cache)
      : scenario_(scenario), works_(works), cache_(cache) {}

  Result<std::vector<LayerFigures>> Run() {
    const bool splits = scenario_.plan.parallelism.splits_backward;
    for (const model::LayerWork& work : works_) {
      for (const auto* list : {&work.forward, &work.recompute, &work.backward}) Collect(*list);
      if (!splits) continue;
      Collect(work.backward_input.operations);
      Collect(work.backward_weight.operations);
    }
    STEPCAST_TAKE(auto prices, cache_.Price(program_, scenario_, works_));
    prices_ = &prices;
    std::vector<LayerFigures> figures;
    for (const model::LayerWork& work : works_) {
      LayerFigures& layer = figures.emplace_back();
      layer.forward = Walk({&work.forward});
      layer.backward = Walk({&work.recompute, &work.backward});
      if (splits) {
        layer.backward_input = Walk({&work.backward_input.operations}).kernels;
        layer.backward_weight = Walk({&work.backward_weight.operations}).kernels;
      }
      layer.saved = work.BytesOf(model::Lifetime::kSaved);
      layer.recomputed = work.BytesOf(model::Lifetime::kRecomputed);
      // With backward in two parts, the first part runs while all saved values are live.
      layer.transient = splits ? std::min(work.backward_transient, work.backward_input.transient)
                               : work.backward_transient;
      layer.continues_checkpoint = work.continues_checkpoint;
    }
    return figures;
  }

 private:
  // Collectives are priced. Messages between two ranks wait for both of them and are omitted.
  bool IsPriced(const model::GroupOperation& operation) const {
    return scenario_.network == scenario::Fidelity::kAnalytic &&
           operation.collective != CollectiveKind::kSendRecv;
  }

  void Collect(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      if (!operation.group) {
        program_.kernels.push_back(operation.kernel);
      } else if (IsPriced(*operation.group)) {
        program_.collectives.push_back({.kind = operation.group->collective,
                                        .communicator = GroupOf(operation.group->axes),
                                        .bytes = operation.group->bytes,
                                        .data_type = operation.group->type,
                                        .multiprocessors = operation.group->multiprocessors,
                                        .loads = operation.group->loads});
      }
    }
  }

  // The communicator of these axes, and the index of its stream among streams of collectives.
  program::Index GroupOf(parallel::AxisSet axes) {
    const auto known = std::find(axes_.begin(), axes_.end(), axes);
    const auto index = static_cast<program::Index>(known - axes_.begin());
    if (known != axes_.end()) return index;
    axes_.push_back(axes);
    const std::string name = parallel::NameOf(axes);
    const parallel::GroupLayout layout = plan::GridsOf(scenario_.plan).Layout(axes);
    program_.groups.push_back(
        {.name = name, .ranks = layout.Ranks(program_.rank), .layout = layout});
    program_.communicators.push_back({.name = name, .group = index});
    return index;
  }

  // An operation starts when its stream is free and its inputs are complete, which is no later than
  // with other work in its way. Collectives have one stream per set of axes. The kernels of a lane
  // share the device with all others, so their total time is at least their sum.
  LayerFigures::Pass Walk(std::initializer_list<const std::vector<Operation>*> lists) {
    LayerFigures::Pass pass;
    std::array<Time, 256> lanes{};
    std::vector<Time> streams(axes_.size());  // of collectives
    Time all_kernels, left;
    for (const std::vector<Operation>* list : lists) {
      std::vector<Time> ends(list->size());
      for (std::size_t i = 0; i < list->size(); ++i) {
        const Operation& operation = (*list)[i];
        Time begin;
        for (const int other : operation.waits) {
          begin = std::max(begin, ends[static_cast<std::size_t>(other)]);
        }
        if (operation.group) {
          // It begins when the kernels before it have ended.
          ends[i] = std::max(begin, lanes[0]);
          if (IsPriced(*operation.group)) {
            Time& stream = streams[GroupOf(operation.group->axes)];
            stream = std::max(stream, ends[i]) +
                     prices_->collectives[next_collective_++].demand.uncontended();
            ends[i] = stream;
          }
          continue;
        }
        const cost::Demand& demand = prices_->kernels[next_kernel_++];
        Time& lane = lanes[operation.lane];
        lane = std::max(lane, begin) + demand.uncontended();
        ends[i] = lane;
        if (operation.lane == 0) pass.kernels += demand.uncontended();
        const double compute = demand.share[static_cast<std::size_t>(cost::Resource::kCompute)];
        if (compute >= 1) all_kernels += demand.work;
      }
      // Values left to the next kernel are complete when the collectives that made them have ended.
      for (const model::ValueUse& value : model::LeftToTheNextKernel(*list)) {
        for (std::size_t i = 0; i < list->size(); ++i) {
          const auto& group = (*list)[i].group;
          if (!group || !IsPriced(*group)) continue;
          if (group->target.value == value.value) left = std::max(left, ends[i]);
        }
      }
    }
    pass.span = std::max({pass.kernels, lanes[0], all_kernels});
    pass.trailing = std::max(left, pass.span) - pass.span;
    return pass;
  }

  const Scenario& scenario_;
  const std::vector<model::LayerWork>& works_;
  cost::PriceCache& cache_;
  program::Program program_;
  std::vector<parallel::AxisSet> axes_;  // by communicator
  const cost::Prices* prices_ = nullptr;
  std::size_t next_kernel_ = 0, next_collective_ = 0;
};

}  // namespace

Result<std::vector<LayerFigures>> LayerFiguresOf(const Scenario& scenario,
                                                 const std::vector<model::LayerWork>& works,
                                                 cost::PriceCache& prices) {
  return PassPricer(scenario, works, prices).Run();
}

ChunkWork WorkOfChunk(std::span<const LayerFigures> figures, std::span<const model::Layer> layers,
                      std::span<const int> of_layers, PassTimes counted, bool offloads) {
  const bool spans = counted == PassTimes::kSpans;
  ChunkWork chunk;
  Bytes again;  // recomputed of the layer's checkpoint so far
  for (std::size_t l = 0; l < of_layers.size(); ++l) {
    const LayerFigures& layer = figures[static_cast<std::size_t>(of_layers[l])];
    chunk.forward += spans ? layer.forward.span : layer.forward.kernels;
    chunk.backward += spans ? layer.backward.span : layer.backward.kernels;
    chunk.backward_input += layer.backward_input;
    chunk.backward_weight += layer.backward_weight;
    chunk.kernels += layer.forward.kernels + layer.backward.kernels;
    // Values left by the last layer of a pass are waited for elsewhere.
    if (spans && l + 1 < of_layers.size()) chunk.forward += layer.forward.trailing;
    if (spans && l > 0) chunk.backward += layer.backward.trailing;
    again = (layer.continues_checkpoint ? again : Bytes()) + layer.recomputed;
    if (offloads && layers[l].kind == model::LayerKind::kBlock) continue;
    chunk.saved += layer.saved;
    chunk.backward_peak = std::max(chunk.backward_peak, chunk.saved + again + layer.transient);
  }
  return chunk;
}

namespace {

using scenario::Scenario;

Bytes Spread(std::int64_t bytes, std::int64_t ranks) { return Bytes((bytes + ranks - 1) / ranks); }

// Parameters and optimizer states, which exist from the first step to the last.
Bytes States(const Scenario& scenario, const lowering::ParameterShares& parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  const plan::Training& training = scenario.plan.training;
  const auto sharded = [&](bool sharded, std::int64_t bytes_per_parameter) {
    return sharded ? parameters.Sharded(bytes_per_parameter)
                   : parameters.Whole(bytes_per_parameter);
  };
  const bool fsdp = plan::IsFsdp(plan.framework);
  const bool on_host =
      plan.cpu_offload || plan.deepspeed.offload_param != plan::OffloadDevice::kNone;
  const bool updated_on_host = plan.cpu_offload || plan.optimizer_cpu_offload ||
                               plan.deepspeed.offload_optimizer != plan::OffloadDevice::kNone;
  Bytes states;
  if (!on_host) {
    states += sharded(plan.zero_stage == 3 || fsdp, SizeOf(training.parameter_dtype));
  }
  if (!updated_on_host) {
    states +=
        sharded(plan.zero_stage >= 1 || fsdp, plan::LeastOptimizerBytesPerParameter(training));
  }
  return states;
}

// Full gradients that are kept until the update, by stage and framework.
Bytes FullGradients(const Scenario& scenario, std::int64_t parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  const plan::Training& training = scenario.plan.training;
  if (KeepsGatheredGradients(scenario)) {
    // Gradients have the type of the products that make them, or of their reduction.
    return std::min(BytesOf(parameters, plan::ComputeType(training.precision)),
                    BytesOf(parameters, training.reduce_dtype));
  }
  if (plan.zero_stage > 1 || plan::IsFsdp(plan.framework)) return {};
  const plan::GradientStore store = plan::StyleOf(plan.framework).gradients;
  if (store == plan::GradientStore::kPartitions && plan.zero_stage == 1) return {};
  const bool textbook = plan::TraitsOf(plan.framework).textbook;
  // Every micro-batch reduces its gradients, of which the rank keeps its shard.
  if (textbook && plan.zero_stage == 1 && !plan.no_sync && training.gradient_accumulation > 1) {
    return {};
  }
  const DataType type = textbook ? plan::WrittenGradientType(training) : training.gradient_dtype;
  return BytesOf(parameters, type);
}

// Parameters that FSDP's stage 2 leaves gathered between forward and backward. A pipeline stage
// with more than three chunks does not keep all at once (parallel/pipeline_schedule.h).
Bytes GatheredParameters(const Scenario& scenario, std::int64_t parameters) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  if (!plan::IsFsdp(plan.framework) || plan.zero_stage != 2) return {};
  if (scenario.plan.parallelism.virtual_stages > 3) return {};
  return BytesOf(parameters, plan::ComputeType(scenario.plan.training.precision));
}

// Frozen parameters that exist from the first step to the last.
Bytes Frozen(const Scenario& scenario, Bytes frozen) {
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  const bool shared = plan.zero_stage == 3 || plan::IsFsdp(plan.framework);
  return Spread(frozen.count(), shared ? plan::ShardRanks(scenario.plan) : 1);
}

}  // namespace

bool KeepsGatheredGradients(const Scenario& scenario) {
  const plan::Parallelism& axes = scenario.plan.parallelism;
  const plan::DataParallel& plan = scenario.plan.data_parallel;
  if (!plan::IsFsdp(plan.framework) || axes.pipeline == 1 || !plan.accumulate_unsharded ||
      axes.listed != nullptr) {
    return false;
  }
  const parallel::NamedSchedule* const named = parallel::FindSchedule(axes.schedule);
  if (named == nullptr || named->two_copies || axes.schedule == "gpipe" ||
      axes.schedule == "breadth_first" || axes.schedule == "v_min") {
    return false;
  }
  return scenario.plan.training.gradient_accumulation >=
         4 * std::max<std::int64_t>(axes.pipeline, axes.microbatch_group_size_per_vp_stage);
}

Bytes MemoryBeside(const Scenario& scenario, const StageParameters& stage, Bytes activations,
                   bool keeps_gradients) {
  const lowering::ParameterShares parameters(scenario.plan, stage.trained);
  const Bytes gradients = FullGradients(scenario, parameters.elements());
  const Bytes active = activations + GatheredParameters(scenario, parameters.elements());
  return States(scenario, parameters) + Frozen(scenario, stage.frozen) +
         (keeps_gradients ? gradients + active : std::max(gradients, active));
}

}  // namespace stepcast::planner
