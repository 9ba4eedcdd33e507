#include "src/emit/trainers.h"

namespace stepcast::emit {
namespace {

Target LaunchNothing(const scenario::Scenario& scenario, const model::NumericalConstants&) {
  if (plan::TraitsOf(scenario.plan.data_parallel.framework).textbook) {
    return CannotRun("framework reference is a textbook model that no program runs");
  }
  return CannotRun("stepcast does not write nanotron's configuration");
}

}  // namespace

const Trainer& TrainerOf(const plan::Plan& plan) {
  static constexpr Trainer kDdp{.module = DdpModule, .launch = LaunchPytorch};
  static constexpr Trainer kFsdp1{.module = FullyShardedModule, .launch = LaunchPytorch};
  static constexpr Trainer kFsdp2{
      .takes_torchtitan_toml = true, .module = FullyShardModule, .launch = LaunchPytorch};
  static constexpr Trainer kDeepSpeed{.takes_deepspeed_json = true, .launch = LaunchDeepSpeed};
  static constexpr Trainer kMegatron{.takes_megatron_args = true, .launch = LaunchMegatron};
  static constexpr Trainer kNone{.launch = LaunchNothing};
  switch (plan.data_parallel.framework) {
    case plan::Framework::kDdp:
      return kDdp;
    case plan::Framework::kFsdp1:
      return kFsdp1;
    case plan::Framework::kFsdp2:
      return kFsdp2;
    case plan::Framework::kDeepSpeed:
      return kDeepSpeed;
    case plan::Framework::kMegatron:
      return kMegatron;
    case plan::Framework::kReference:
    case plan::Framework::kNanotron:
      break;
  }
  return kNone;
}

}  // namespace stepcast::emit
