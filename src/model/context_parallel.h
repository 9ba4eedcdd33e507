#pragma once

#include <compare>
#include <cstdint>

// Context parallelism: the ranks of a group have parts of each sequence and exchange tokens only in
// attention.
namespace stepcast::model {

// How a rank's queries reach the keys and values of all ranks:
//  kRing          keys and values are passed around, and each rank attends to those that it has
//                 while the next ones arrive (ring attention, arXiv 2310.01889)
//  kAllGather     keys and values are gathered
//  kAllToAll      each rank gets all tokens of some heads (DeepSpeed-Ulysses, arXiv 2309.14509)
//  kHierarchical  neighboring ranks divide heads, and a ring passes through these groups
enum class ContextMethod : std::uint8_t { kRing, kAllGather, kAllToAll, kHierarchical };
const char* Name(ContextMethod method);  // "ring", "all_gather", "all_to_all", "hierarchical"

struct ContextParallel {
  std::int64_t ranks = 1;
  ContextMethod method = ContextMethod::kRing;
  // Number of neighboring ranks that divide heads: all with kAllToAll, 1 without all-to-alls.
  std::int64_t heads = 1;
  // PyTorch's implementation, which accumulates in FP32; false: Transformer Engine's.
  bool of_pytorch = false;

  // Number of groups of ranks that divide heads, among which a sequence's tokens are divided.
  std::int64_t parts() const { return ranks / heads; }
  friend auto operator<=>(const ContextParallel&, const ContextParallel&) = default;
};

}  // namespace stepcast::model
