#pragma once

#include <cstdint>

// The axes along which training is divided among ranks.
namespace stepcast::parallel {

// In the default order of ranks, fastest first (Megatron-Core's `tp-cp-ep-dp-pp`).
enum class Axis : std::uint8_t {
  kTensor,
  kContext,
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
inline constexpr int kAxes = 7;

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
inline constexpr AxisSet kShard = Axis::kShardInner | Axis::kShardOuter;
inline constexpr AxisSet kData = kShard | Axis::kReplica;

}  // namespace stepcast::parallel
