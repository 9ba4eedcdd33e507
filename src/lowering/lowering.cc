#include "src/lowering/lowering.h"

#include "src/base/check.h"
#include "src/lowering/ddp.h"
#include "src/lowering/fsdp2.h"
#include "src/lowering/reference.h"

namespace stepcast::lowering {

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
    case plan::Framework::kFsdp1:
    case plan::Framework::kDeepSpeed:
    case plan::Framework::kMegatron:
      break;
  }
  STEPCAST_CHECK(false, "legality lets through only frameworks that have a lowering");
  return {};
}

}  // namespace stepcast::lowering
