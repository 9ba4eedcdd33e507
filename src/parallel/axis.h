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
  kExpert,
  // Data parallelism is a product of three. Ranks along kShardInner and kShardOuter hold different
  // shards of the model states; ranks along kReplica hold the same shard of another copy. Where
  // shards are gathered in two levels (secondary partitions of ZeRO++, `reshard_after_forward: N`,
  // hierarchical exchange), kShardInner is the near level; else its degree is 1.
  kShardInner,
  kShardOuter,
  kReplica,
  kPipeline,
};
inline constexpr int kAxes = 8;

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

// "tensor", "context", "tensor and pipeline".
std::string NameOf(AxisSet axes);

}  // namespace stepcast::parallel
