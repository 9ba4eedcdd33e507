#include "src/cli/init_options.h"

#include "src/cli/option_parts.h"

namespace stepcast::cli {
namespace {

constexpr const char* kInitAbout =
    "Makes a scenario of what you train with today: configurations of torchtitan, Megatron-LM,\n"
    "NeMo, DeepSpeed, accelerate, Hugging Face's Trainer, axolotl and torchtune. Behind each "
    "value\n"
    "stands where it comes from.";

constexpr const char* kInitFooter =
    "Several files describe one job together: a script, its DeepSpeed JSON and the model's\n"
    "config.json. What they do not say is asked for, and the option that says it is named. "
    "Settings\n"
    "that the forecast leaves out are listed at the scenario's end and on stderr, with what that\n"
    "may change.\n"
    "\n"
    "Nothing in the files is executed. Of shell scripts assignments, arrays, ${A:-b}, $((A * b)),\n"
    "tests of known variables and YAML between heredocs are read; what scripts take from their\n"
    "arguments and surroundings is said with --variable. Of Python files literal keyword "
    "arguments\n"
    "are read. docs/foreign.md lists the options of each program.\n"
    "\n"
    "simulate, memory, plan and explain take the same files and options, without a scenario.\n"
    "\n"
    "Exits 3 when the scenario was written and cannot be forecast as it stands; stderr says why.\n"
    "\n"
    "Example:\n"
    "  stepcast init train.toml --cluster dgx-h100 --nodes 16 -o scenario.yaml\n"
    "  stepcast init pretrain.sh --variable TP=4 --model config.json --cluster dgx-h100 --nodes 8\n"
    "  stepcast init ds_config.json trainer.yaml --model config.json --cluster dgx-a100 \\\n"
    "      --set training.sequence_length=4096\n"
    "  stepcast simulate train.toml --cluster dgx-h100 --nodes 16\n"
    "\n";

}  // namespace

void AddInit(Command app, InitOptions& options) {
  Command init = app.Add("init", kInitAbout, kInitFooter);
  init.AddOption("FILE", options.files.files, "Configurations of other programs").Required();
  AddRepeated(init, "--set", options.set, "KEY=VALUE",
              "A key of the scenario by its dotted path, in the place of what the files say, as "
              "often as needed");
  AddImport(init, options.files);
  AddOutput(init, "-o,--output", options.output, "Write to FILE instead of stdout");
  init.AddFlag("--force", options.force, "Replace the file of --output");
}

}  // namespace stepcast::cli
