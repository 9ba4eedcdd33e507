#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"

namespace stepcast::program {

// The numbers of elements that one rank of a group reads and writes in a collective
// (EffectKind::kCollective describes their places).
struct CollectiveParts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  friend bool operator==(const CollectiveParts&, const CollectiveParts&) = default;
};

// `elements`: the collective's whole size. `kind`: one of kProgramCollectiveKinds.
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

// Whether the whole consists of one equal part per rank, so that its elements must divide by the
// ranks.
constexpr bool HasPartForEachRank(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kAllToAll;
}

// In an all-to-all, the n parts of a rank's source and its n - 1 received parts are ordered by
// distance: part i goes to, and comes from, the rank at these positions of the group. All ranks of
// a class thus have the same program. A source's last part is the rank's own and is not sent.
constexpr int AllToAllReceiver(int position, int part, int ranks) {
  return (position + part + 1) % ranks;
}
constexpr int AllToAllSender(int position, int part, int ranks) {
  return (position + ranks - part - 1) % ranks;
}

// The effects of a program's operations on the values of training: parameters, gradients and
// optimizer states, element by element. The simulator does not use them. The runtime applies them,
// so that an executed program really trains. Values that no effect names are activations and are up
// to the runtime.
//
// Model elements are numbered consecutively: all elements of the first tensor (registration order),
// then those of the second, and so on. A data flow belongs to one rank; offsets are that rank's
// own.

using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

// Consecutive elements of one type in a buffer.
struct Elements {
  Index buffer = kNone;
  Bytes offset{};
  DataType type = DataType::kFp32;
};

enum class EffectKind : std::uint8_t {
  // target = (or +=, if `add`) scale x this rank's contribution to the gradient of the model
  // elements [first_element, first_element + elements). The kernel computes it from the parameters
  // that it reads in `source`. The micro-batch's data is determined by rank, step and micro-batch,
  // or, if `states` is a place, by the 32 bits there (kMix). The scale divides a micro-batch's loss
  // by the number of micro-batches.
  kGradient,
  // target = (or +=, if `add`) scale x source, converted to the target's type. In blocks: block b
  // covers elements [b block, min((b + 1) block, elements)) of the effect and starts at element b
  // target_stride of the target and b source_stride of the source. One block: contiguous.
  kMove,
  // The optimizer update. `target` are the parameters, `source` their gradients. `states` are
  // arrays, `state_stride` elements apart: the first and, for AdamW, the second moment, in the
  // parameters' type. If parameters have 16 bits, they may be FP32 arrays, of which the first is
  // the master copy.
  kUpdate,
  // target, one FP32 number, = (or +=, if `add`) scale x the sum of the squares of `elements`
  // elements of the source; zero if there are none.
  kSquares,
  // target is multiplied by the factor that reduces a norm to `scale`; source is one FP32 number,
  // the square of the norm.
  kClip,
  // target, 32 bits as one FP32 number, = a mixture of the 32 bits in source, those in `states`,
  // and first_element. Without a source: of step, micro-batch and batch_part, the part of the batch
  // that the rank trains on. A micro-batch's passes carry the word from stage to stage and through
  // collectives.
  kMix,
  // A collective over the instruction's communicator. Sizes are as NCCL counts them, with
  // `elements` of the collective's whole size:
  //  all-reduce       elements in source -> elements in target
  //  reduce-scatter   elements in source -> elements / ranks in target
  //  all-gather       elements / ranks in source -> elements in target
  //  broadcast        elements in source of the collective's root -> elements in target
  //  all-to-all       elements / ranks x (ranks - 1) in source -> as many in target, part by part
  //                   (AllToAllReceiver); the rank's own part, the last of the source, stays
  // In place as in NCCL: all-reduce and broadcast with source = target; the rank's own part of the
  // whole as target (reduce-scatter) or source (all-gather). Data is sent and summed in the
  // collective's own data type. If source or target have another type, their values are converted
  // in memory that the backend allocates (only `framework: reference`, which omits copies, has such
  // collectives).
  kCollective,
};

struct Effect {
  EffectKind kind = EffectKind::kMove;
  bool add = false;
  Elements target{}, source{};
  Elements states{};              // kUpdate; kGradient, kMix: 32 bits, if it is a place
  std::int64_t state_stride = 0;  // kUpdate, elements
  std::int64_t elements = 0;
  std::int64_t first_element = 0;                     // kGradient, kMix
  std::int64_t batch_part = 0;                        // kMix without a source
  double scale = 1;                                   // kGradient, kMove, kSquares, kClip
  std::int64_t block = 0;                             // kMove; `elements` when it is contiguous
  std::int64_t target_stride = 0, source_stride = 0;  // kMove, elements, between blocks
};

// Whether the first of an update's arrays is a master copy: its type is longer than that of the
// parameters.
constexpr bool HasMasterCopy(const Effect& update) {
  return SizeOf(update.target.type) < SizeOf(update.states.type);
}
// Number of consecutive arrays in the states of an update.
constexpr std::int64_t StateArrays(bool adamw, const Effect& update) {
  return (adamw ? 2 : 1) + (HasMasterCopy(update) ? 1 : 0);
}

enum class StateRole : std::uint8_t { kParameter, kMaster, kMoment };

// A part of the state that this rank keeps from step to step, allocated in the prologue. Parameters
// and master copies start with the model's initial values, moments with zeros.
struct StatePart {
  StateRole role = StateRole::kParameter;
  Elements place{};
  std::int64_t first_element = 0;
  std::int64_t elements = 0;
};

struct DataFlow {
  bool adamw = true;  // kUpdate; false: SGD with momentum
  std::vector<StatePart> state{};
  std::vector<Effect> effects{};
  // The effects of step[i] are effects[first[i], first[i + 1]). Empty: the program has no data
  // flow.
  std::vector<Index> first{};

  bool empty() const { return first.empty(); }
};

}  // namespace stepcast::program
