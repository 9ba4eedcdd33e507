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
// and constants.py). Hugging Face's integration fills in "auto"; the reader uses the other files'
// values instead, or the values that the integration computes.
extern const Framework kDeepSpeed;

bool IsDeepSpeed(const Document& document);

// The arguments of Megatron-LM's pretrain_gpt.py and similar programs (NVIDIA/Megatron-LM,
// megatron/training/arguments.py), from a script, a list of arguments, or YAML.
extern const Framework kMegatron;

// Returns the document with options named as on the command line. None if it does not contain
// Megatron-LM's arguments. Sections of Megatron-LM's --yaml-cfg are removed, and so are the hyphens
// of files that list `--seq-length: 4096`.
std::optional<Document> MegatronDocument(const Document& document);

// Reads Megatron-LM's arguments for models with experts.

// Parses patterns of special layers in Megatron-LM's options, such as "([0]*3+[1]*58)".

// Parses a list of zeros and ones, or sums and multiples of such lists. Returns none for any other
// value.
std::optional<std::vector<bool>> ParseLayerPattern(const Value& value);

// Reads the model's experts. Requires that `num-experts` is above one.
void ReadExpertsOfModel(Reading& reading);

// Reads how the experts run. This is the section `experts` of the scenario.
void ReadHowExpertsRun(Reading& reading);

// The configuration of Hugging Face's nanotron in YAML.
extern const Framework kNanotron;

bool IsNanotron(const Document& document);

// Converts the YAML of NeMo's first Megatron models and of Megatron-Bridge to Megatron-LM's
// arguments. NeMo's YAML has the sections trainer and model (NVIDIA/NeMo,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml). Megatron-Bridge's YAML is a
// ConfigContainer with the sections model, train, optimizer and ddp (NVIDIA-NeMo/Megatron-Bridge,
// src/megatron/bridge/training/config.py). Both write Megatron-Core's settings with underscores;
// the result has the names of Megatron-LM's command line. Returns none if the document is neither.
std::optional<Document> NemoDocument(const Document& document);

// The job configuration of torchtitan in TOML, for releases before 23 February 2026
// (pytorch/torchtitan, torchtitan/config/job_config.py; commit 9810191bb replaced the files with
// Python).
extern const Framework kTorchtitan;

// The configuration of torchtitan's current releases: the keyword arguments of a function in a
// config_registry.py (pytorch/torchtitan, torchtitan/config/training.py, parallelism.py,
// compile.py).
extern const Framework kTorchtitanPython;

// Returns whether the settings of a TOML or Python file are torchtitan's.
bool IsTorchtitan(const Document& document);

// The YAML configurations of torchtune's recipes, for `tune run RECIPE --config`.
extern const Framework kTorchtune;

bool IsTorchtune(const Document& document);

// The TrainingArguments of Hugging Face's Trainer (huggingface/transformers,
// src/transformers/training_args.py), from YAML, JSON or a command line, with the additions of
// TRL's SFTConfig and LLaMA-Factory.
extern const Framework kTransformers;

// Returns the document with options named as in Python. None if it does not contain arguments of
// Hugging Face's Trainer.
std::optional<Document> TransformersDocument(const Document& document);

}  // namespace stepcast::foreign
