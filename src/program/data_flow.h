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
// (EffectKind::kCollective says where they are stored).
struct CollectiveParts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  friend bool operator==(const CollectiveParts&, const CollectiveParts&) = default;
};

// Returns the numbers of elements for one rank. `elements`: the number in the whole collective.
// `kind`: one of kProgramCollectiveKinds.
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
      STEPCAST_CHECK(false, "step programs contain no other collective");
  }
  return {};
}

// Whether the whole consists of one equal part per rank. The number of ranks must then divide the
// number of elements.
constexpr bool HasPartForEachRank(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kAllToAll;
}

// In an all-to-all, the n parts of a rank's source and the n - 1 received parts are ordered by
// distance: part i is sent to, and received from, the rank at these positions of the group. All
// ranks of a class therefore have the same program. The last part of a source is for the rank
// itself and is not sent.
constexpr int AllToAllReceiver(int position, int part, int ranks) {
  return (position + part + 1) % ranks;
}
constexpr int AllToAllSender(int position, int part, int ranks) {
  return (position + ranks - part - 1) % ranks;
}

// The effects of a program's operations on the values of training: parameters, gradients and
// optimizer states, element by element. The simulator does not use them. The runtime applies them,
// so that an executed program really trains. Values in no effect are activations; the runtime
// chooses them.
//
// Model elements are numbered consecutively: all elements of the first tensor (registration order),
// then those of the second tensor, and so on. A data flow belongs to one rank, and its offsets are
// that rank's.

using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

// A position in a buffer from which consecutive elements of one type are stored.
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
  // arrays that start `state_stride` elements apart: the first and, for AdamW, the second moment,
  // in the parameters' type. If parameters have 16 bits, the arrays may instead be FP32, and then
  // the first one is the master copy.
  kUpdate,
  // target, one FP32 number, = (or +=, if `add`) scale x the sum of the squares of `elements`
  // elements of the source; zero if there are no elements.
  kSquares,
  // target is multiplied by the factor that reduces a norm to `scale`; source is one FP32 number,
  // the square of the norm.
  kClip,
  // target, 32 bits stored as one FP32 number, = a mixture of the 32 bits in source, the 32 bits in
  // `states`, and first_element. Without a source: a mixture of step, micro-batch and batch_part
  // (the part of the batch that the rank trains on). A micro-batch's passes carry this check word
  // from stage to stage and through collectives.
  kMix,
  // A collective over the instruction's communicator. Sizes are counted as in NCCL; `elements` is
  // the size of the whole collective:
  //  all-reduce       elements in source -> elements in target
  //  reduce-scatter   elements in source -> elements / ranks in target
  //  all-gather       elements / ranks in source -> elements in target
  //  broadcast        elements in source of the collective's root -> elements in target
  //  all-to-all       elements / ranks x (ranks - 1) in source -> as many in target, part by part
  //                   (AllToAllReceiver); the rank's own part, the last of the source, stays
  // In place as in NCCL: all-reduce and broadcast if source = target; reduce-scatter if target, and
  // all-gather if source, is the rank's own part of the whole. Data is sent and summed in the
  // collective's own data type. If source or target have another type, their values are converted
  // in memory that the backend allocates (only `framework: reference`, which omits copies, has such
  // collectives).
  kCollective,
};

struct Effect {
  EffectKind kind = EffectKind::kMove;
  bool add = false;
  Elements target{}, source{};
  Elements states{};              // kUpdate; kGradient, kMix: 32 bits, if set
  std::int64_t state_stride = 0;  // kUpdate, elements
  std::int64_t elements = 0;
  std::int64_t first_element = 0;                     // kGradient, kMix
  std::int64_t batch_part = 0;                        // kMix without a source
  double scale = 1;                                   // kGradient, kMove, kSquares, kClip
  std::int64_t block = 0;                             // kMove; `elements` when it is contiguous
  std::int64_t target_stride = 0, source_stride = 0;  // kMove, elements, between blocks
};

// Whether the first array of an update's states is a master copy: the arrays' type is longer than
// the parameters' type.
constexpr bool HasMasterCopy(const Effect& update) {
  return SizeOf(update.target.type) < SizeOf(update.states.type);
}
// Number of consecutive arrays in an update's states.
constexpr std::int64_t StateArrays(bool adamw, const Effect& update) {
  return (adamw ? 2 : 1) + (HasMasterCopy(update) ? 1 : 0);
}

enum class StateRole : std::uint8_t { kParameter, kMaster, kMoment };

// A part of the state that this rank keeps across steps. It is allocated in the prologue.
// Initially, parameters and master copies have the model's initial values, and moments are zero.
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
