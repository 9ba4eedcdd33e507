#pragma once

#include <string_view>

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// The options of PyTorch's FSDP in accelerate, by a program's names for them; empty: the program
// has no such option.
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

// Sets the framework, the sharding and FSDP's settings. `because_of`: the option that selected
// FSDP.
void ReadFsdp(Reading& reading, const FsdpOptions& options, std::string_view because_of);

// Parallel degrees of accelerate's ParallelismConfig, by a program's names for them.
struct DegreeOptions {
  std::string_view shard, replicate, tensor, context, expert;
};
void ReadDegrees(Reading& reading, const DegreeOptions& options);

}  // namespace stepcast::foreign
