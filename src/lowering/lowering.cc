#include "src/lowering/lowering.h"

#include <cstdint>

#include "src/base/check.h"
#include "src/lowering/ddp.h"
#include "src/lowering/deepspeed.h"
#include "src/lowering/deepspeed_stage3.h"
#include "src/lowering/fsdp1.h"
#include "src/lowering/fsdp2.h"
#include "src/lowering/internevo.h"
#include "src/lowering/megatron.h"
#include "src/lowering/reference.h"

namespace stepcast::lowering {

bool DescribesValues(const plan::Plan& plan) {
  const plan::DeepSpeed& deepspeed = plan.data_parallel.deepspeed;
  return plan.data_parallel.framework != plan::Framework::kInternEvo &&
         plan.data_parallel.comm_hook != plan::CommHook::kPowerSgd && !deepspeed.offloads() &&
         !deepspeed.quantized_weights && !deepspeed.quantized_gradients;
}

program::Program Lower(const scenario::Scenario& scenario, const LowerOptions& options) {
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

std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank) {
  std::vector<program::ProcessGroup> groups = program.groups;
  for (program::ProcessGroup& group : groups) group.ranks = group.layout.Ranks(rank);
  return groups;
}

}  // namespace stepcast::lowering
