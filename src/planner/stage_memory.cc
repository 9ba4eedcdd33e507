#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/forecast/memory_summary.h"
#include "src/lowering/host_offload.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_style.h"
#include "src/planner/bounds.h"

namespace stepcast::planner {
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
// with more than three chunks does not keep all at once (parallel/parameter_passes.h).
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

void SayWhetherItFits(const Scenario& scenario, int communicators, Bound& bound) {
  const Bytes capacity = scenario.cluster->device_memory();
  const Bytes outside =
      forecast::OutsideAllocator(scenario, static_cast<std::size_t>(communicators));
  bound.needed = bound.memory + outside;
  bound.over = bound.needed - capacity;
  bound.fit_probability = forecast::FitProbabilityOf(scenario, bound.memory, outside);
  bound.fits = bound.over <= Bytes(0);
  const plan::DeepSpeed& deepspeed = scenario.plan.data_parallel.deepspeed;
  if (!deepspeed.offloads()) return;
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  const topology::Host& node = *scenario.cluster->node_type()->host;
  const Bytes lacking = std::max(host.memory - node.memory, host.drives - node.nvme);
  if (lacking <= Bytes(0)) return;
  bound.fits_host = false;
  bound.over = std::max(bound.over, lacking);
  bound.fits = false;
}

}  // namespace stepcast::planner
