#pragma once

#include "src/emit/target.h"

// A trainer is the program that trains the plans of one framework. It says which of the emitted
// files that program takes.
namespace stepcast::emit {

struct Trainer {
  bool takes_deepspeed_json = false, takes_torchtitan_toml = false, takes_megatron_args = false;
  // The text of pytorch_NAME.py; null: no module of settings is written for it.
  Target (*module)(const scenario::Scenario& scenario) = nullptr;
  // The lines of launch.sh that set what torchrun starts, or why nothing runs the plan.
  Target (*launch)(const scenario::Scenario& scenario,
                   const model::NumericalConstants& constants) = nullptr;
};
const Trainer& TrainerOf(const plan::Plan& plan);

// pytorch.cc: for DistributedDataParallel, FullyShardedDataParallel and fully_shard.
Target DdpModule(const scenario::Scenario& scenario);
Target FullyShardedModule(const scenario::Scenario& scenario);
Target FullyShardModule(const scenario::Scenario& scenario);
// torchtitan where it can train so, else a script that imports the module.
Target LaunchPytorch(const scenario::Scenario& scenario,
                     const model::NumericalConstants& constants);
Target LaunchDeepSpeed(const scenario::Scenario& scenario,
                       const model::NumericalConstants& constants);
Target LaunchMegatron(const scenario::Scenario& scenario,
                      const model::NumericalConstants& constants);

}  // namespace stepcast::emit
