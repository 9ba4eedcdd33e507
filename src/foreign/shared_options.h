#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// The names of the options for PyTorch's FSDP in accelerate, as a program spells them. A name is
// empty if the program has no such option.
struct FsdpOptions {
  std::string_view version;
  std::string_view strategy;
  std::string_view reshard;
  std::string_view offload;
  std::string_view wrap;
  std::string_view backward_prefetch;
  std::string_view forward_prefetch;
  std::string_view original_parameters;
  std::string_view limits_gathers;
  std::string_view checkpointing;
};

// Sets the framework, the sharding and FSDP's settings. `because_of` is the option that selected
// FSDP.
void ReadFsdp(Reading& reading, const FsdpOptions& options, std::string_view because_of);

// The names of the parallel degrees of accelerate's ParallelismConfig, as a program spells them.
struct DegreeOptions {
  std::string_view shard, replicate, tensor, context, expert;
};
void ReadDegrees(Reading& reading, const DegreeOptions& options);

// Reads the largest allowed norm of gradients. Zero and negative values mean that there is no
// limit.
void ReadClipping(Reading& reading, std::string_view option);

// Reads how a program makes sequences from samples: "packed", "padded" or "by_length"
// (plan::Batching). Configurations do not contain sample lengths. If the command line states
// lengths (training.lengths.histogram, or one length of packed documents), the batching is written
// next to these lengths. Otherwise, if the file states the option, the option is reported as an
// omission, with the lengths that are missing.
void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of);

// Reads the cluster and the software from torchrun's options and from a script's environment:
// nodes, processes per node, and the allocator. As rules, the framework's table must have the rows
// "launcher.nnodes", "launcher.nproc-per-node" and "env.PYTORCH_CUDA_ALLOC_CONF".
void ReadLauncher(Reading& reading);

// Reads names of models, optimizers and attention kernels that all programs based on Hugging Face's
// Trainer use.

// Returns the name of stepcast's model that has the dimensions of a model on the Hub, whoever owns
// it. The longest matching prefix of `name` decides. None if there is no such model.
std::optional<std::string> ModelOfTheHub(const std::string& name);

// Sets the model that an option names. The option contains its name on the Hub, if the data root
// has the model, or a folder with its config.json. Otherwise, the mistake about the missing model
// contains the name.
void ReadHubModel(Reading& reading, std::string_view option);

// Reads the name of an optimizer, such as "adamw_torch_fused" or "paged_adamw_8bit".
void ReadHubOptimizer(Reading& reading, std::string_view option);

// Reads the name of an attention kernel, such as "flash_attention_2" or "sdpa". Also sets the
// kernels of norms, rotary positions and activations. These are transformers' own or, if `liger`,
// one fused kernel each.
void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of);

// Sets the implementation of experts if every rank has all experts and FSDP2 shards their
// parameters. Call this function when the sharding is known.
void ReadHubExperts(Reading& reading);

// Sets a loss that is combined with the head, "chunked" or "cut", because of the option. If ranks
// divide the vocabulary, the option becomes an omission instead.
void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss);

// Sets adapters: their rank, and the layers that have adapters, as a list or "all-linear". Does
// nothing if the rank is not stated.
void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout);

}  // namespace stepcast::foreign
