#pragma once

#include <cstdint>
#include <string>

// The axes along which training is divided among ranks.
namespace stepcast::parallel {

// In the default order of ranks, fastest first (Megatron-Core's `tp-cp-ep-dp-pp`).
enum class Axis : std::uint8_t {
  kTensor,
  // Ranks that have parts of each sequence. With hierarchical exchange those along kContextInner
  // share out heads, and rings go along kContextOuter; else the near degree is 1.
  kContextInner,
  kContextOuter,
  // Data parallelism is a product of three. Ranks along kShardInner and kShardOuter hold different
  // shards of the model states; ranks along kReplica hold the same shard of another copy. Where
  // shards are gathered in two levels (secondary partitions of ZeRO++, `reshard_after_forward: N`,
  // hierarchical exchange), kShardInner is the near level; else its degree is 1.
  kShardInner,
  kShardOuter,
  kReplica,
  kPipeline,
  // The same ranks of a pipeline stage, folded again for the experts of a mixture: ranks along
  // kExpertTensor have parts of each expert, ranks along kExpertInner and kExpertOuter have
  // different experts: the inner ones are on one node where tokens are sent once to each node, else
  // there is one of them. Ranks
  // along kExpertShard and kExpertReplica have the same experts, and hold different shards or
  // another copy of their states, as kShardInner and kShardOuter, and kReplica, do of all other
  // tensors.
  kExpertTensor,
  kExpertInner,
  kExpertOuter,
  kExpertShard,
  kExpertReplica,
};
inline constexpr int kAxes = 12;

const char* Name(Axis axis);  // "tensor", "shard inner", ...

// A set of axes. A group of ranks along several axes has the product of their degrees.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis)
      : bits_(1U << static_cast<unsigned>(axis)) {}  // NOLINT: a set of one

  constexpr bool Has(Axis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  // Whether an axis is in both sets.
  friend constexpr bool Meet(AxisSet a, AxisSet b) { return (a.bits_ & b.bits_) != 0; }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  unsigned bits_ = 0;
};

constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

// Axes that factor.
inline constexpr AxisSet kContext = Axis::kContextInner | Axis::kContextOuter;
inline constexpr AxisSet kShard = Axis::kShardInner | Axis::kShardOuter;
inline constexpr AxisSet kData = kShard | Axis::kReplica;

// Ranks that have parts of a sequence train the same parameters as those that have other
// sequences: the ranks that share one copy of the states, and all that add up gradients.
inline constexpr AxisSet kStates = kContext | kShard;
inline constexpr AxisSet kGradients = kContext | kData;

// Axes of the expert grid alone.
inline constexpr AxisSet kExpert = Axis::kExpertInner | Axis::kExpertOuter;
inline constexpr AxisSet kExpertData = Axis::kExpertShard | Axis::kExpertReplica;
inline constexpr AxisSet kExpertAxes = Axis::kExpertTensor | kExpert | kExpertData;

// "tensor", "context", "tensor and pipeline".
std::string NameOf(AxisSet axes);

}  // namespace stepcast::parallel
