#pragma once

#include <string>
#include <string_view>

#include "src/foreign/framework.h"

// What configurations of programs around Hugging Face's Trainer have in common: names of models,
// of optimizers, of attention.
namespace stepcast::foreign {

// The model of ours that has the dimensions of the Hub's of this name, whoever its owner is: of
// those whose names it begins with the longest. Null: there is none.
const char* ModelOfTheHub(const std::string& name);

// The model that an option names: by its name on the Hub, where the data root has it, or by a
// folder that holds its config.json. Else it is named in what is asked for.
void ReadHubModel(Reading& reading, std::string_view option);

// "adamw_torch_fused", "paged_adamw_8bit", ...
void ReadHubOptimizer(Reading& reading, std::string_view option);

// "flash_attention_2", "sdpa", ...; and whose kernels norms, rotary positions and activations are:
// transformers' own, or with `liger` one fused kernel each.
void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of);

// Sets which implementation of experts runs where every rank has all experts and FSDP2 shards their
// parameters. It may be called when the files have said what is sharded.
void ReadHubExperts(Reading& reading);

// The head and its loss are one, "chunked" or "cut", because of the option; it is left out where
// ranks have the vocabulary between them.
void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss);

// Adapters: their rank, and the layers that have some, a list or "all-linear". Nothing of it where
// the rank is not stated.
void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout);

}  // namespace stepcast::foreign
