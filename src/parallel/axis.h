#pragma once

#include <cstdint>
#include <string>

// The axes along which training is divided among ranks.
namespace stepcast::parallel {

// In the default rank order, fastest axis first (Megatron-Core's `tp-cp-ep-dp-pp`).
enum class Axis : std::uint8_t {
  kTensor,
  // Context parallelism: ranks have parts of each sequence. With hierarchical exchange, ranks along
  // kContextInner divide heads, and rings run along kContextOuter. Otherwise kContextInner has
  // degree 1.
  kContextInner,
  kContextOuter,
  // Data parallelism is the product of two axes. Ranks along kShard have different shards of the
  // model states; ranks along kReplica have the same shard of another copy.
  kShard,
  kReplica,
  kPipeline,
  // The expert grid: the same ranks of a pipeline stage, arranged differently for the experts of a
  // mixture. Ranks along kExpertTensor have parts of each expert; ranks along kExpertInner and
  // kExpertOuter have different experts. If tokens are sent once to each node, ranks along
  // kExpertInner are on one node; otherwise kExpertInner has degree 1. Ranks along kExpertShard and
  // kExpertReplica have the same experts, and different shards (or another copy) of their states,
  // like ranks along the shard and replica axes for all other tensors.
  kExpertTensor,
  kExpertInner,
  kExpertOuter,
  kExpertShard,
  kExpertReplica,
};
inline constexpr int kAxes = 11;

const char* Name(Axis axis);  // "tensor", "context inner", ...

// A set of axes. The size of a group along several axes is the product of their degrees.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis)
      : bits_(1U << static_cast<unsigned>(axis)) {}  // NOLINT: implicit, a set of one

  constexpr bool Has(Axis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  // Whether the sets have an axis in common.
  friend constexpr bool Meet(AxisSet a, AxisSet b) { return (a.bits_ & b.bits_) != 0; }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  unsigned bits_ = 0;
};

constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

// Sets of the axes of one kind of parallelism.
inline constexpr AxisSet kContext = Axis::kContextInner | Axis::kContextOuter;
inline constexpr AxisSet kData = Axis::kShard | Axis::kReplica;

// The ranks that share one copy of the states. Below: all ranks that sum gradients. Ranks with
// parts of a sequence train the same parameters as ranks with other sequences.
inline constexpr AxisSet kStates = kContext | Axis::kShard;
inline constexpr AxisSet kGradients = kContext | kData;

// The axes of the expert grid that the dense grid does not have.
inline constexpr AxisSet kExpert = Axis::kExpertInner | Axis::kExpertOuter;
inline constexpr AxisSet kExpertData = Axis::kExpertShard | Axis::kExpertReplica;
inline constexpr AxisSet kExpertAxes = Axis::kExpertTensor | kExpert | kExpertData;

// "tensor", "context", "tensor and pipeline".
std::string NameOf(AxisSet axes);

}  // namespace stepcast::parallel
