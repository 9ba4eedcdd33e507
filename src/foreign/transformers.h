#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// TrainingArguments of Hugging Face's Trainer (huggingface/transformers,
// src/transformers/training_args.py), from YAML, JSON or a command line, with what TRL's SFTConfig
// and LLaMA-Factory add to them.
extern const Framework kTransformers;

// The document with options named as in Python, where it holds such arguments.
std::optional<Document> TransformersDocument(const Document& document);

}  // namespace stepcast::foreign
