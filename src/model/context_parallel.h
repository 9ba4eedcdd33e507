#pragma once

#include <compare>
#include <cstdint>

// Context parallelism: each rank of a group has a part of each sequence. Only attention exchanges
// data between ranks.
namespace stepcast::model {

// How a rank's queries reach the keys and values of all ranks:
//   kRing: keys and values are passed around a ring. Each rank computes attention with the keys
//     that it has while the next keys arrive (ring attention, arXiv 2310.01889).
//   kAllGather: keys and values are gathered.
//   kAllToAll: each rank gets all tokens of some heads (DeepSpeed-Ulysses, arXiv 2309.14509).
//   kHierarchical: neighboring ranks form groups. The ranks of a group divide heads, and a ring
//   connects the groups.
enum class ContextMethod : std::uint8_t { kRing, kAllGather, kAllToAll, kHierarchical };
const char* Name(ContextMethod method);  // "ring", "all_gather", "all_to_all", "hierarchical"

struct ContextParallel {
  std::int64_t ranks = 1;
  ContextMethod method = ContextMethod::kRing;
  // The number of neighboring ranks that divide heads: all ranks for kAllToAll, 1 for kRing and
  // kAllGather.
  std::int64_t heads = 1;
  // True: PyTorch's implementation of attention, which accumulates in FP32. False: Transformer
  // Engine's implementation.
  bool of_pytorch = false;

  // Returns the number of groups of ranks. Each group has a part of each sequence's tokens, and the
  // ranks of a group divide heads.
  std::int64_t parts() const { return ranks / heads; }
  friend auto operator<=>(const ContextParallel&, const ContextParallel&) = default;
};

}  // namespace stepcast::model
