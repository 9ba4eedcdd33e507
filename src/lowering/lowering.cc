#include "src/lowering/lowering.h"

#include <algorithm>
#include <cstdint>

#include "src/base/check.h"
#include "src/lowering/ddp.h"
#include "src/lowering/deepspeed.h"
#include "src/lowering/deepspeed_stage3.h"
#include "src/lowering/fsdp1.h"
#include "src/lowering/fsdp2.h"
#include "src/lowering/internevo.h"
#include "src/lowering/megatron.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/reference.h"
#include "src/lowering/training_step.h"
#include "src/lowering/work_shape.h"

namespace stepcast::lowering {

bool DescribesValues(const plan::Plan& plan) {
  const plan::DeepSpeed& deepspeed = plan.data_parallel.deepspeed;
  return plan.data_parallel.framework != plan::Framework::kInternEvo &&
         plan.data_parallel.comm_hook != plan::CommHook::kPowerSgd && !deepspeed.offloads() &&
         !deepspeed.quantized_weights && !deepspeed.quantized_gradients;
}

namespace {

// Techniques that write down how all their sizes follow from the number of ranks.
bool KnowsSizes(const plan::Plan& plan) {
  if (plan.training.checkpoint_saving) return false;  // all of a node's ranks write
  const plan::Framework framework = plan.data_parallel.framework;
  return framework == plan::Framework::kReference || framework == plan::Framework::kDdp ||
         framework == plan::Framework::kFsdp2;
}

// The groups of rank 0's program, for the plan's numbers of ranks.
void ResizeGroups(const plan::Plan& plan, program::Program& program) {
  const ProcessGroups own = ProcessGroupsOf(plan, 0);
  for (program::ProcessGroup& group : program.groups) {
    if (group.name == "data") {
      group.layout = own.data;
    } else if (group.name == "shard") {
      group.layout = own.shard;
    } else if (group.name == "replica") {
      group.layout = own.replica;
    } else {
      STEPCAST_CHECK(group.name == "reshard", "no other group's ranks are known to stay");
      group.layout = own.Near(group.layout.size());
    }
    group.ranks = group.layout.Ranks(0);
  }
}

}  // namespace

program::Program Lower(const scenario::Scenario& scenario, const LowerOptions& options) {
  if (options.sizes != nullptr && KnowsSizes(scenario.plan)) options.sizes->SetComplete();
  STEPCAST_CHECK(options.rank >= 0 && options.rank < scenario.plan.parallelism.data,
                 "the rank is one of the data-parallel ranks");
  switch (scenario.plan.data_parallel.framework) {
    case plan::Framework::kReference:
      return LowerReference(scenario, options);
    case plan::Framework::kDdp:
      return LowerDdp(scenario, options);
    case plan::Framework::kFsdp2:
      return LowerFsdp2(scenario, options);
    case plan::Framework::kMegatron:
      return LowerMegatron(scenario, options);
    case plan::Framework::kFsdp1:
      return LowerFsdp1(scenario, options);
    case plan::Framework::kInternEvo:
      return LowerInternEvo(scenario, options);
    case plan::Framework::kDeepSpeed:
      return scenario.plan.data_parallel.zero_stage == 3 ? LowerDeepSpeedStage3(scenario, options)
                                                         : LowerDeepSpeed(scenario, options);
  }
  STEPCAST_CHECK(false, "legality lets through only frameworks that have a lowering");
  return {};
}

std::optional<std::vector<Bucket>> GradientBuckets(const scenario::Scenario& scenario,
                                                   std::span<const model::LayerWork> works) {
  const plan::Plan& plan = scenario.plan;
  const plan::Framework framework = plan.data_parallel.framework;
  if (!plan.data_parallel.bucket_size) return std::nullopt;
  if (framework == plan::Framework::kReference) {
    return ReferenceBuckets(*scenario.model, works, plan);
  }
  if (framework == plan::Framework::kDdp) return DdpBuckets(*scenario.model, works, plan);
  return std::nullopt;
}

bool SizesDependOnRanks(const plan::Plan& plan) {
  const plan::DataParallel& data_parallel = plan.data_parallel;
  if (plan.training.checkpoint_saving) return true;  // all of a node's ranks write
  if (data_parallel.framework == plan::Framework::kDdp) return false;
  return data_parallel.framework != plan::Framework::kReference || data_parallel.zero_stage > 0;
}

bool Resize(const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
            program::Program& program, ProgramSizes* sizes) {
  if (sizes != nullptr && sizes->complete()) {
    ResizeGroups(scenario.plan, program);
    return sizes->Apply(scenario.plan.data_parallel.shard_group_size, program);
  }
  if (!SizesDependOnRanks(scenario.plan)) {
    ResizeGroups(scenario.plan, program);
    return true;
  }
  Resizing resizing{.program = &program};
  Lower(scenario, {.works = &works, .resizing = &resizing});
  return resizing.same;
}

bool CanReplaceWork(const plan::Plan& plan, const std::vector<model::LayerWork>& before,
                    const std::vector<model::LayerWork>& after) {
  // What the host copies to the device or takes back has sizes of its own.
  return KnowsSizes(plan) && !plan.training.data_loading && !plan.training.activation_offload &&
         SameShape(before, after);
}

// Techniques add their entries to tables after those of the works, which are added at the begin.
void ReplaceWork(const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
                 program::Program& program) {
  Resizing resizing{.program = &program, .works = true};
  const TrainingStep step(scenario, {.works = &works, .resizing = &resizing});
  STEPCAST_CHECK(resizing.same, "works of the same shape have the same entries");
}

std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank) {
  std::vector<program::ProcessGroup> groups = program.groups;
  for (program::ProcessGroup& group : groups) group.ranks = group.layout.Ranks(rank);
  return groups;
}

}  // namespace stepcast::lowering
