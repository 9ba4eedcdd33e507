#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/model/numerical_constants.h"
#include "src/scenario/resolved.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

// Writes a plan as configuration files of frameworks. Each function returns the complete text of a
// file, or a sentence about why the program cannot run the plan. A setting that the program lacks
// is an error, and never omitted.

using Target = tl::expected<std::string, std::string>;

inline tl::unexpected<std::string> CannotRun(std::string why) {
  return tl::unexpected<std::string>(std::move(why));
}

// Returns DeepSpeed's configuration, with keys of deepspeedai/DeepSpeed@1b88ac36
// deepspeed/runtime/zero/config.py, @088be892 deepspeed/runtime/constants.py, and
// deepspeed/runtime/activation_checkpointing/config.py.
Target DeepSpeedConfig(const scenario::Scenario& scenario);

// Returns a Python module with the arguments of torch.nn.parallel.DistributedDataParallel,
// torch.distributed.fsdp.FullyShardedDataParallel and torch.distributed.fsdp.fully_shard, and
// functions that apply them to a model.
Target PytorchSettings(const scenario::Scenario& scenario);

// Returns torchtitan's job configuration, with keys of pytorch/torchtitan@000204a4
// torchtitan/config/job_config.py.
Target TorchtitanConfig(const scenario::Scenario& scenario,
                        const model::NumericalConstants& constants);

// Returns the arguments of Megatron-LM's pretrain_gpt.py, one option per line, with names of
// NVIDIA/Megatron-LM@000c4ac2 megatron/training/arguments.py.
Target MegatronArguments(const scenario::Scenario& scenario,
                         const model::NumericalConstants& constants);

// Return two scripts. The shell script starts the ranks of one node with torchrun. The Slurm batch
// script runs the shell script on all nodes.
Target LaunchScript(const scenario::Scenario& scenario, const model::NumericalConstants& constants);
Target BatchScript(const scenario::Scenario& scenario, const model::NumericalConstants& constants);

// The program that trains a framework's plans, and the emitted files that it reads.

struct Trainer {
  bool takes_deepspeed_json = false, takes_torchtitan_toml = false, takes_megatron_args = false;
  // Returns the text of pytorch_NAME.py. Null if the program needs no such module.
  Target (*module)(const scenario::Scenario& scenario) = nullptr;
  // Returns the lines of launch.sh that set torchrun's command, or why no program can run the plan.
  Target (*launch)(const scenario::Scenario& scenario,
                   const model::NumericalConstants& constants) = nullptr;
};
const Trainer& TrainerOf(const plan::Plan& plan);

// Return the modules for DistributedDataParallel, FullyShardedDataParallel and fully_shard
// (pytorch.cc).
Target DdpModule(const scenario::Scenario& scenario);
Target FullyShardedModule(const scenario::Scenario& scenario);
Target FullyShardModule(const scenario::Scenario& scenario);
// Return launch scripts. The script of LaunchPytorch runs torchtitan if torchtitan can train the
// plan; otherwise, it imports the emitted module.
Target LaunchPytorch(const scenario::Scenario& scenario,
                     const model::NumericalConstants& constants);
Target LaunchDeepSpeed(const scenario::Scenario& scenario,
                       const model::NumericalConstants& constants);
Target LaunchMegatron(const scenario::Scenario& scenario,
                      const model::NumericalConstants& constants);

// Returns the tree as JSON that ends in a newline, with one key per line, indented by two columns.
// Lists of scalars are on one line. Numbers in a tree are integers; `decimals` are additional
// members at the end of the outermost object.
std::string JsonText(const scenario::Resolved& tree,
                     const std::vector<std::pair<std::string, double>>& decimals = {});

}  // namespace stepcast::emit
