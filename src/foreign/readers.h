#pragma once

#include <optional>
#include <vector>

#include "src/foreign/framework.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// axolotl's configuration (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas).
extern const Framework kAxolotl;

bool IsAxolotl(const Document& document);

// DeepSpeed's configuration in JSON (deepspeedai/DeepSpeed, deepspeed/runtime/zero/config.py and
// constants.py). "auto", which Hugging Face's integration fills in, is what the other files say,
// else what that integration computes.
extern const Framework kDeepSpeed;

bool IsDeepSpeed(const Document& document);

// Megatron-LM's arguments, of pretrain_gpt.py and programs like it (NVIDIA/Megatron-LM,
// megatron/training/arguments.py), from a script, a list of arguments, or YAML.
extern const Framework kMegatron;

// The document with options named as on the command line, where it holds Megatron-LM's arguments:
// of its --yaml-cfg without their sections, of files that list `--seq-length: 4096` without their
// hyphens. Nothing: it is none.
std::optional<Document> MegatronDocument(const Document& document);

// Megatron-LM's arguments of mixtures of experts.

// Which layers are special, as Megatron-LM's options write it: "([0]*3+[1]*58)".

// Zeros and ones in lists, their sums and their multiples; nothing where it is something else.
std::optional<std::vector<bool>> ParseLayerPattern(const Value& value);

// What the model is: `num-experts` is more than one.
void ReadExpertsOfModel(Reading& reading);

// And how its experts run: `experts`.
void ReadHowExpertsRun(Reading& reading);

// Hugging Face's nanotron: its configuration in YAML.
extern const Framework kNanotron;

bool IsNanotron(const Document& document);

// The YAML of NeMo's first Megatron models: sections trainer and model (NVIDIA/NeMo,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml), and of Megatron-Bridge's
// ConfigContainer: model, train, optimizer, ddp (NVIDIA-NeMo/Megatron-Bridge,
// src/megatron/bridge/training/config.py). Both name Megatron-Core's settings with underscores.
// As Megatron-LM's arguments: their options under the names that its command line has for them,
// and its table holds. Nothing: the document is neither.
std::optional<Document> NemoDocument(const Document& document);

// torchtitan's job configuration as its releases before 23 February 2026 read it: TOML
// (pytorch/torchtitan, torchtitan/config/job_config.py; commit 9810191bb replaced the files by
// Python).
extern const Framework kTorchtitan;

// The same of its present releases: keyword arguments of a function in a config_registry.py
// (pytorch/torchtitan, torchtitan/config/training.py, parallelism.py, compile.py).
extern const Framework kTorchtitanPython;

// Whether settings of a TOML or Python file are torchtitan's.
bool IsTorchtitan(const Document& document);

// torchtune: the configurations of its recipes in YAML, as `tune run RECIPE --config` takes them.
extern const Framework kTorchtune;

bool IsTorchtune(const Document& document);

// TrainingArguments of Hugging Face's Trainer (huggingface/transformers,
// src/transformers/training_args.py), from YAML, JSON or a command line, with what TRL's SFTConfig
// and LLaMA-Factory add to them.
extern const Framework kTransformers;

// The document with options named as in Python, where it holds such arguments.
std::optional<Document> TransformersDocument(const Document& document);

}  // namespace stepcast::foreign
