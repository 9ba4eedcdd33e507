#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// The YAML of NeMo's first Megatron models: sections trainer and model (NVIDIA/NeMo,
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml), and of Megatron-Bridge's
// ConfigContainer: model, train, optimizer, ddp (NVIDIA-NeMo/Megatron-Bridge,
// src/megatron/bridge/training/config.py). Both name Megatron-Core's settings with underscores.
// As Megatron-LM's arguments: their options under the names that its command line has for them,
// and its table holds. Nothing: the document is neither.
std::optional<Document> NemoDocument(const Document& document);

}  // namespace stepcast::foreign
