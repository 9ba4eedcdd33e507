#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/foreign/framework.h"

// Names of models, optimizers and attention kernels that programs around Hugging Face's Trainer
// share.
namespace stepcast::foreign {

// Our model with the dimensions of a model on the Hub, for any owner. The longest matching prefix
// of `name` decides. Nothing if there is none.
std::optional<std::string> ModelOfTheHub(const std::string& name);

// Sets the model that an option names, by its name on the Hub if the data root has it, or by a
// folder with its config.json. Otherwise the mistake about the missing model contains the name.
void ReadHubModel(Reading& reading, std::string_view option);

// Reads "adamw_torch_fused", "paged_adamw_8bit", ...
void ReadHubOptimizer(Reading& reading, std::string_view option);

// Reads "flash_attention_2", "sdpa", ... It also sets the kernels of norms, rotary positions and
// activations: transformers' own, or with `liger` one fused kernel each.
void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of);

// Sets the implementation of experts if every rank has all experts and FSDP2 shards their
// parameters. Call it after the sharding is known.
void ReadHubExperts(Reading& reading);

// Sets a combined head and loss, "chunked" or "cut", because of the option. Left out if ranks
// divide the vocabulary.
void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss);

// Sets adapters: their rank, and the layers that have them, a list or "all-linear". No effect if
// the rank is not stated.
void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout);

}  // namespace stepcast::foreign
