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
// constants.py). For "auto", which Hugging Face's integration fills in, the other files' values are
// used, or what that integration computes.
extern const Framework kDeepSpeed;

bool IsDeepSpeed(const Document& document);

// Arguments of Megatron-LM's pretrain_gpt.py and similar programs (NVIDIA/Megatron-LM,
// megatron/training/arguments.py), from a script, a list of arguments, or YAML.
extern const Framework kMegatron;

// The document with options named as on the command line, if it contains Megatron-LM's arguments.
// Sections of its --yaml-cfg are removed, and so are the hyphens of files that list `--seq-length:
// 4096`. Nothing otherwise.
std::optional<Document> MegatronDocument(const Document& document);

// Megatron-LM's arguments for models with experts.

// Patterns of special layers in Megatron-LM's options: "([0]*3+[1]*58)".

// Parses lists of zeros and ones, their sums and multiples; nothing for any other value.
std::optional<std::vector<bool>> ParseLayerPattern(const Value& value);

// Reads the model's experts; requires `num-experts` above one.
void ReadExpertsOfModel(Reading& reading);

// Reads how the experts run: the scenario's `experts`.
void ReadHowExpertsRun(Reading& reading);

// Hugging Face's nanotron configuration in YAML.
extern const Framework kNanotron;

bool IsNanotron(const Document& document);

// Converts the YAML of NeMo's first Megatron models and of Megatron-Bridge to Megatron-LM's
// arguments. The former has the sections trainer and model (NVIDIA/NeMo,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml). The latter is ConfigContainer:
// model, train, optimizer, ddp (NVIDIA-NeMo/Megatron-Bridge,
// src/megatron/bridge/training/config.py). Both name Megatron-Core's settings with underscores; the
// result has the names of Megatron-LM's command line. Nothing if the document is neither.
std::optional<Document> NemoDocument(const Document& document);

// torchtitan's job configuration in TOML, for releases before 23 February 2026 (pytorch/torchtitan,
// torchtitan/config/job_config.py; commit 9810191bb replaced the files by Python).
extern const Framework kTorchtitan;

// The configuration of torchtitan's present releases: keyword arguments of a function in a
// config_registry.py (pytorch/torchtitan, torchtitan/config/training.py, parallelism.py,
// compile.py).
extern const Framework kTorchtitanPython;

// Whether settings of a TOML or Python file are torchtitan's.
bool IsTorchtitan(const Document& document);

// torchtune: YAML configurations of its recipes, for `tune run RECIPE --config`.
extern const Framework kTorchtune;

bool IsTorchtune(const Document& document);

// TrainingArguments of Hugging Face's Trainer (huggingface/transformers,
// src/transformers/training_args.py), from YAML, JSON or a command line, with the additions of
// TRL's SFTConfig and LLaMA-Factory.
extern const Framework kTransformers;

// The document with options named as in Python, if it contains such arguments.
std::optional<Document> TransformersDocument(const Document& document);

}  // namespace stepcast::foreign
