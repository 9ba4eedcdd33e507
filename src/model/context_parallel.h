#pragma once

#include <compare>
#include <cstdint>

// Context parallelism: the ranks of a group have parts of each sequence, and see the others' tokens
// in attention alone.
namespace stepcast::model {

// How a rank's queries come to see the keys and values of all ranks:
//   kRing          keys and values go round, and each rank attends to those that it has while the
//                  next ones come (ring attention, arXiv 2310.01889)
//   kAllGather     they are gathered
//   kAllToAll      each rank gets all tokens of a part of the heads (DeepSpeed-Ulysses, arXiv
//                  2309.14509)
//   kHierarchical  neighbours share out heads, and a ring goes through such groups
enum class ContextMethod : std::uint8_t { kRing, kAllGather, kAllToAll, kHierarchical };
const char* Name(ContextMethod method);  // "ring", "all_gather", "all_to_all", "hierarchical"

struct ContextParallel {
  std::int64_t ranks = 1;
  ContextMethod method = ContextMethod::kRing;
  // Of the ranks, so many neighbours share out heads: all with kAllToAll, 1 without all-to-alls.
  std::int64_t heads = 1;
  // Whose code it is: PyTorch's, which adds up in FP32, or Transformer Engine's.
  bool of_pytorch = false;

  // Groups of ranks that share out heads: those that a sequence's tokens are divided among.
  std::int64_t parts() const { return ranks / heads; }
  friend auto operator<=>(const ContextParallel&, const ContextParallel&) = default;
};

}  // namespace stepcast::model
