#pragma once

#include <optional>
#include <vector>

#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// The configuration of axolotl (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas).
extern const Framework kAxolotl;

bool IsAxolotl(const Document& document);

// The configuration of DeepSpeed in JSON (deepspeedai/DeepSpeed, deepspeed/runtime/zero/config.py
// and constants.py). "auto" means the values of the other files, or the values that Hugging Face's
// integration computes.
extern const Framework kDeepSpeed;

bool IsDeepSpeed(const Document& document);

// The arguments of Megatron-LM's pretrain_gpt.py and similar programs (NVIDIA/Megatron-LM,
// megatron/training/arguments.py), from a script, a list of arguments, or YAML.
extern const Framework kMegatron;

// Returns the document with options spelled as on the command line, or none if it has no arguments
// of Megatron-LM. Removes section names of Megatron-LM's --yaml-cfg, and the hyphens of lines such
// as `--seq-length: 4096`.
std::optional<Document> MegatronDocument(const Document& document);

// Reads Megatron-LM's arguments for models with experts.

// Parses layer patterns in Megatron-LM's options, such as "([0]*3+[1]*58)".

// Parses a list of zeros and ones, or sums and multiples of lists. Returns none if the value is not
// a pattern.
std::optional<std::vector<bool>> ParseLayerPattern(const Value& value);

// Reads the model's experts. Requires `num-experts` > 1.
void ReadExpertsOfModel(Reading& reading);

// The configuration of Hugging Face's nanotron in YAML.
extern const Framework kNanotron;

bool IsNanotron(const Document& document);

// Converts YAML of NeMo's Megatron models (before NeMo 2) and of Megatron-Bridge to Megatron-LM's
// arguments. NeMo's YAML has the sections trainer and model (NVIDIA/NeMo,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml). Megatron-Bridge's YAML is a
// ConfigContainer with the sections model, train, optimizer and ddp (NVIDIA-NeMo/Megatron-Bridge,
// src/megatron/bridge/training/config.py). Both programs spell Megatron-Core's settings with
// underscores; the result is spelled as on Megatron-LM's command line. Returns none if the document
// belongs to neither program.
std::optional<Document> NemoDocument(const Document& document);

// The job configuration of torchtitan in TOML, for releases before 23 February 2026
// (pytorch/torchtitan, torchtitan/config/job_config.py; commit 9810191bb replaced the files with
// Python).
extern const Framework kTorchtitan;

// The configuration of torchtitan's current releases: the keyword arguments of a function in a
// config_registry.py (pytorch/torchtitan, torchtitan/config/training.py, parallelism.py,
// compile.py).
extern const Framework kTorchtitanPython;

// Returns whether the settings of a TOML or Python file belong to torchtitan.
bool IsTorchtitan(const Document& document);

// The YAML configurations of torchtune's recipes, for `tune run RECIPE --config`.
extern const Framework kTorchtune;

bool IsTorchtune(const Document& document);

// The TrainingArguments of Hugging Face's Trainer (huggingface/transformers,
// src/transformers/training_args.py), from YAML, JSON or a command line, with the additions of
// TRL's SFTConfig and LLaMA-Factory.
extern const Framework kTransformers;

// Returns the document with options spelled as in Python, or none if it has no arguments of Hugging
// Face's Trainer.
std::optional<Document> TransformersDocument(const Document& document);

}  // namespace stepcast::foreign
