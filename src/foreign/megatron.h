#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// Megatron-LM's arguments, of pretrain_gpt.py and programs like it (NVIDIA/Megatron-LM,
// megatron/training/arguments.py), from a script, a list of arguments, or YAML.
extern const Framework kMegatron;

// The document with options named as on the command line, where it holds Megatron-LM's arguments:
// of its --yaml-cfg without their sections, of files that list `--seq-length: 4096` without their
// hyphens. Nothing: it is none.
std::optional<Document> MegatronDocument(const Document& document);

}  // namespace stepcast::foreign
