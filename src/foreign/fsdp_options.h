#pragma once

#include <string_view>

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// The options of PyTorch's FSDP as accelerate passes them on, by the names that a program gives
// them; empty: it has none.
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

// States the framework, what is sharded, and FSDP's settings. `because_of`: the option that chose
// FSDP.
void ReadFsdp(Reading& reading, const FsdpOptions& options, std::string_view because_of);

// Degrees of accelerate's ParallelismConfig, by the names that a program gives them.
struct DegreeOptions {
  std::string_view shard, replicate, tensor, context, expert;
};
void ReadDegrees(Reading& reading, const DegreeOptions& options);

}  // namespace stepcast::foreign
