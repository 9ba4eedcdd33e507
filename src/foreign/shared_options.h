#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/foreign/framework.h"
#include "src/scenario/hub_models.h"

namespace stepcast::foreign {

// Reads the framework, the sharding and FSDP's settings from accelerate's options for PyTorch FSDP,
// such as "fsdp_config.fsdp_version" or "fsdp_config.version". The framework's table has rules for
// the spellings that the program accepts. `because_of` is the option that selected FSDP.
void ReadFsdp(Reading& reading, std::string_view because_of);

// A program's names for the parallel degrees in accelerate's ParallelismConfig.
struct DegreeOptions {
  std::string_view shard, replicate, tensor, context, expert;
};
void ReadDegrees(Reading& reading, const DegreeOptions& options);

// Sets the size of shard groups, given the number of copies of the states. The size depends on the
// number of GPUs and on the degrees of the other axes.
void ReadCopies(Reading& reading, std::string_view option, std::int64_t copies,
                std::string remark = {});

// Reports that a configuration, which the option names, is missing on the command line. `what` is
// the program of the configuration, such as "DeepSpeed".
void AskForFile(Reading& reading, std::string_view option, std::string_view what);

// Reads the limit of the gradient norm. Zero and negative values mean no limit.
void ReadClipping(Reading& reading, std::string_view option);

// Reads how a program makes sequences from samples: "packed", "padded" or "by_length"
// (plan::Batching). Configurations do not contain sample lengths. If the command line sets lengths
// (training.lengths.histogram, or one length of packed documents), adds the batching to these
// lengths. Otherwise, reports the option as an omission.
void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of);

// Reads the cluster and the software from torchrun's options and a script's environment: nodes,
// processes per node, and the allocator. The framework's table must have kRule rows for
// "launcher.nnodes", "launcher.nproc-per-node" and "env.PYTORCH_CUDA_ALLOC_CONF".
void ReadLauncher(Reading& reading);

// Functions for all programs based on Hugging Face's Trainer, for names of models, optimizers and
// attention kernels.

using scenario::ModelOfTheHub;

// Sets the model from an option, whose value is a model of the Hugging Face Hub or a folder with a
// config.json. If the data root lacks the model, the later error message contains the model's name.
void ReadHubModel(Reading& reading, std::string_view option);

// Reads the name of an optimizer, such as "adamw_torch_fused" or "paged_adamw_8bit".
void ReadHubOptimizer(Reading& reading, std::string_view option);

// Reads the name of an attention kernel, such as "flash_attention_2" or "sdpa". Also sets the
// kernels of norms, rotary positions and activations: fused kernels if `liger` is true, otherwise
// the kernels of transformers.
void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of);

// Sets how experts are computed if every rank has all experts and FSDP2 shards their parameters.
// Call this function after the sharding is set.
void ReadHubExperts(Reading& reading);

// Sets a loss that is fused with the output layer, "chunked" or "cut", because of the option. If
// the vocabulary is divided among ranks, reports the option as an omission instead.
void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss);

// Sets the rank of adapters, and the layers with adapters as a list or "all-linear". Does nothing
// if the file does not set the rank of adapters.
void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout);

}  // namespace stepcast::foreign
