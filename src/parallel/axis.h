#pragma once

#include <cstdint>
#include <string>

// The axes along which a training job is divided among ranks.
namespace stepcast::parallel {

// The axes of the rank grid, in the default rank order, fastest axis first (Megatron-Core's
// `tp-cp-ep-dp-pp`).
enum class Axis : std::uint8_t {
  kTensor,
  // Context parallelism: each rank has a part of each sequence. With a hierarchical exchange, ranks
  // along kContextInner divide heads, and rings run along kContextOuter. Otherwise, the degree of
  // kContextInner is 1.
  kContextInner,
  kContextOuter,
  // Data parallelism: ranks along kShard have different shards of one copy of the model states.
  // Ranks along kReplica have the same shard of different copies.
  kShard,
  kReplica,
  kPipeline,
  // The expert grid: the ranks of a pipeline stage, arranged differently for the experts of a
  // mixture. Ranks along kExpertTensor have parts of each expert. Ranks along kExpertInner and
  // kExpertOuter have different experts. If tokens are sent once to each node, ranks along
  // kExpertInner are on one node. Otherwise, the degree of kExpertInner is 1. Ranks along
  // kExpertShard have different shards of the same experts' states. Ranks along kExpertReplica have
  // the same shard of different copies.
  kExpertTensor,
  kExpertInner,
  kExpertOuter,
  kExpertShard,
  kExpertReplica,
};
inline constexpr int kAxes = 11;

const char* Name(Axis axis);  // "tensor", "context inner", ...

// A set of axes. The size of a group along these axes is the product of the degrees of the axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis)
      : bits_(1U << static_cast<unsigned>(axis)) {}  // NOLINT: implicit: a set of one axis

  constexpr bool Has(Axis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  // Returns whether the two sets have an axis in common.
  friend constexpr bool Meet(AxisSet a, AxisSet b) { return (a.bits_ & b.bits_) != 0; }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  unsigned bits_ = 0;
};

constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

// The axes of each kind of parallelism that has several axes.
inline constexpr AxisSet kContext = Axis::kContextInner | Axis::kContextOuter;
inline constexpr AxisSet kData = Axis::kShard | Axis::kReplica;

// kStates: ranks share one copy of the states. kGradients: ranks sum gradients. kStates and
// kGradients include the context axes, because ranks with different parts of a sequence train the
// same parameters.
inline constexpr AxisSet kStates = kContext | Axis::kShard;
inline constexpr AxisSet kGradients = kContext | kData;

// The axes that only the expert grid has.
inline constexpr AxisSet kExpert = Axis::kExpertInner | Axis::kExpertOuter;
inline constexpr AxisSet kExpertData = Axis::kExpertShard | Axis::kExpertReplica;
inline constexpr AxisSet kExpertAxes = Axis::kExpertTensor | kExpert | kExpertData;

// Returns the axes as text, such as "tensor", "context" or "tensor and pipeline".
std::string NameOf(AxisSet axes);

}  // namespace stepcast::parallel
