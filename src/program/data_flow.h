#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"

namespace stepcast::program {

// How many elements one rank of a group reads and writes in a collective (EffectKind::kCollective
// says where they lie).
struct CollectiveParts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  friend bool operator==(const CollectiveParts&, const CollectiveParts&) = default;
};

// `elements`: the collective's whole size. `kind` is one of kProgramCollectiveKinds.
inline CollectiveParts PartsOf(CollectiveKind kind, std::int64_t elements, std::int64_t ranks) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return {elements, elements};
    case CollectiveKind::kReduceScatter:
      return {elements, elements / ranks};
    case CollectiveKind::kAllGather:
      return {elements / ranks, elements};
    case CollectiveKind::kAllToAll:
      return {elements / ranks * (ranks - 1), elements / ranks * (ranks - 1)};
    default:
      STEPCAST_CHECK(false, "step programs hold no other collective");
  }
  return {};
}

// Whether the whole consists of equal parts, one for each rank: its elements divide by the ranks.
constexpr bool HasPartForEachRank(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kAllToAll;
}

// In an all-to-all the n parts of a rank's source, and the n - 1 that it receives, are in order of
// distance: part i goes to, and comes from, the rank at these positions of the group. So all ranks
// of a class have one program. A source's last part is the rank's own and is not sent.
constexpr int AllToAllReceiver(int position, int part, int ranks) {
  return (position + part + 1) % ranks;
}
constexpr int AllToAllSender(int position, int part, int ranks) {
  return (position + ranks - part - 1) % ranks;
}

// What a program's operations do to the values that training is about: parameters, gradients and
// optimizer states, element by element. The simulator needs none of it; the runtime follows it, so
// that an executed program trains and does not merely keep the hardware busy for as long. What no
// effect names is an activation: its values are the runtime's affair.
//
// Model elements are numbered through: all elements of the first tensor (registration order), then
// of the second, and so on. A data flow belongs to one rank; offsets are that rank's own.

using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

// Elements of one type, one after the other, in a buffer.
struct Elements {
  Index buffer = kNone;
  Bytes offset{};
  DataType type = DataType::kFp32;
};

enum class EffectKind : std::uint8_t {
  // target = (or +=, if `add`) scale x this rank's contribution to the gradient of the model
  // elements [first_element, first_element + elements), which the kernel computes from the
  // parameters as it reads them in `source`. What is made of a micro-batch is told by rank, step
  // and
  // micro-batch, or, where `states` is a place, by the 32 bits there (kMix). The scale divides a
  // micro-batch's loss by the number
  // of micro-batches.
  kGradient,
  // target = (or +=, if `add`) scale x source, converted to the target's type. In blocks: block b
  // covers elements [b block, min((b + 1) block, elements)) of the effect and starts at element
  // b target_stride of the target and b source_stride of the source. One block: contiguous.
  kMove,
  // The optimizer: target are the parameters, source their gradients, `states` arrays one behind
  // the other, each `state_stride` elements after the last: the first and, for AdamW, the second
  // moment, of the parameters' type; or, where parameters have 16 bits, FP32 arrays, of which the
  // first is the master copy.
  kUpdate,
  // target, one FP32 number, = (or +=, if `add`) scale x the sum of the squares of `elements`
  // elements of the source; zero of none.
  kSquares,
  // target = what it is, times the factor that brings a norm down to `scale`; source is one FP32
  // number, the square of the norm.
  kClip,
  // target, 32 bits as one FP32 number = a mixture of the 32 bits in source, those in `states`, and
  // first_element; where there is no source, of step, micro-batch and batch_part, which says whose
  // samples of the batch the rank trains on. What passes of a micro-batch carry from stage to stage
  // and through collectives.
  kMix,
  // A collective over the instruction's communicator, sizes as NCCL counts them, with `elements` of
  // the collective's whole size:
  //   all-reduce       elements in source -> elements in target
  //   reduce-scatter   elements in source -> elements / ranks in target
  //   all-gather       elements / ranks in source -> elements in target
  //   broadcast        elements in source of the collective's root -> elements in target
  //   all-to-all       elements / ranks x (ranks - 1) in source -> as many in target, part by part
  //                    (data_flow.h); the rank's own part, the last of the source, stays
  // In place as NCCL has it: all-reduce and broadcast with source = target; the rank's own part of
  // the whole as target (reduce-scatter) or source (all-gather). The collective's own data type is
  // what is sent and added up in; where source or target have another one, their values are
  // converted on the way, in memory that the backend sets aside (only `framework: reference`, which
  // leaves copies out, has such collectives).
  kCollective,
};

struct Effect {
  EffectKind kind = EffectKind::kMove;
  bool add = false;
  Elements target{}, source{};
  Elements states{};              // kUpdate; kGradient, kMix: 32 bits, where it is a place
  std::int64_t state_stride = 0;  // kUpdate, elements
  std::int64_t elements = 0;
  std::int64_t first_element = 0;                     // kGradient, kMix
  std::int64_t batch_part = 0;                        // kMix without a source
  double scale = 1;                                   // kGradient, kMove, kSquares, kClip
  std::int64_t block = 0;                             // kMove; `elements` when it is contiguous
  std::int64_t target_stride = 0, source_stride = 0;  // kMove, elements, between blocks
};

// Whether the first of an update's arrays is a master copy: they are of a longer type than what is
// updated.
constexpr bool HasMasterCopy(const Effect& update) {
  return SizeOf(update.target.type) < SizeOf(update.states.type);
}
// The arrays behind one another in the states of an update.
constexpr std::int64_t StateArrays(bool adamw, const Effect& update) {
  return (adamw ? 2 : 1) + (HasMasterCopy(update) ? 1 : 0);
}

enum class StateRole : std::uint8_t { kParameter, kMaster, kMoment };

// A part of the state that this rank keeps from step to step, allocated by the prologue. Parameters
// and master copies start as the model's initial values, moments as zeros.
struct StatePart {
  StateRole role = StateRole::kParameter;
  Elements place{};
  std::int64_t first_element = 0;
  std::int64_t elements = 0;
};

struct DataFlow {
  bool adamw = true;  // kUpdate; else SGD with momentum
  std::vector<StatePart> state{};
  std::vector<Effect> effects{};
  // The effects of step[i] are effects[first[i], first[i + 1]); empty: the program carries none.
  std::vector<Index> first{};

  bool empty() const { return first.empty(); }
};

}  // namespace stepcast::program
