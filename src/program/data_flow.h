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
// (EffectKind::kCollective describes where they are stored).
struct CollectiveParts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  friend bool operator==(const CollectiveParts&, const CollectiveParts&) = default;
};

// Returns the numbers of elements that one rank reads and writes. `elements` is the number of
// elements of the full collective. `kind` is one of kProgramCollectiveKinds.
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

// Returns whether the full data of a collective consists of one equal part per rank. The number of
// ranks must then divide the number of elements.
constexpr bool HasPartForEachRank(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kAllToAll;
}

// Return the ranks, as positions in the group, to which part i of an all-to-all is sent and from
// which it is received. The n parts of a rank's source and the n - 1 received parts are ordered by
// distance, so all ranks of a class have the same program. The last part of a source stays on the
// rank.
constexpr int AllToAllReceiver(int position, int part, int ranks) {
  return (position + part + 1) % ranks;
}
constexpr int AllToAllSender(int position, int part, int ranks) {
  return (position + ranks - part - 1) % ranks;
}

// The effects of a program's operations on the values of training: parameters, gradients and
// optimizer states, element by element. The simulator does not use the effects. The runtime applies
// the effects, so that an executed program trains the model. Values without an effect are
// activations; the runtime chooses these values.
//
// Model elements are numbered consecutively, tensor by tensor in registration order. A data flow,
// with its offsets, belongs to one rank.

using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

// A position in a buffer, at which consecutive elements of one type start.
struct Elements {
  Index buffer = kNone;
  Bytes offset{};
  DataType type = DataType::kFp32;
};

enum class EffectKind : std::uint8_t {
  // Computes target = contribution x scale or, if `add`, target += contribution x scale. The
  // contribution is this rank's part of the gradient of the model elements [first_element,
  // first_element + elements). The kernel computes the contribution from the parameters in `source`
  // and from the micro-batch's data. The data depends on rank, step and micro-batch. If `states` is
  // set, the data depends instead on the 32 bits in `states` (kMix). The scale divides a
  // micro-batch's loss by the number of micro-batches.
  kGradient,
  // Computes target = source x scale or, if `add`, target += source x scale, converted to the
  // target's type. The effect copies blocks. Block b covers elements [b x block, min((b + 1) x
  // block, elements)) of the effect. Block b starts at element b x target_stride of the target and
  // at element b x source_stride of the source. If there is one block, the copy is contiguous.
  kMove,
  // Updates parameters. `target` are the parameters, `source` their gradients, `states` the
  // optimizer states. The states are arrays that start `state_stride` elements apart: the first
  // moment and, for AdamW, the second moment, in the parameters' type. If parameters have 16 bits,
  // the arrays may instead be FP32, and the first array is then the master copy.
  kUpdate,
  // Computes the scaled sum of the squares of `elements` elements of the source; zero if there are
  // no elements. The target is one FP32 number: the number is set to the sum or, if `add`,
  // increased by the sum.
  kSquares,
  // Multiplies the target by the factor that reduces a norm to at most `scale`. The source is one
  // FP32 number: the square of the norm.
  kClip,
  // Sets the target to a hash of three values: the check words in `source` and in `states`, and
  // first_element. A check word has 32 bits and is stored as one FP32 number. Without a source, the
  // hash is of step, micro-batch and batch_part (the part of the batch on which the rank trains). A
  // micro-batch's check word is sent from stage to stage and through collectives.
  kMix,
  // A collective over the instruction's communicator. Sizes are counted as in NCCL; `elements` is
  // the size of the full collective:
  //   all-reduce: reads elements, writes elements
  //   reduce-scatter: reads elements, writes elements / ranks
  //   all-gather: reads elements / ranks, writes elements
  //   broadcast: reads elements in the source of the collective's root, writes elements
  //   all-to-all: reads elements / ranks x (ranks - 1) and writes as many, part by part
  //     (AllToAllReceiver); the rank's own part, the last part of the source, is not sent
  // NCCL's rules apply to in-place collectives. All-reduce and broadcast are in place if source and
  // target are equal. Reduce-scatter is in place if the target is the rank's own part of the full
  // data. All-gather is in place if the source is the rank's own part.
  //
  // Data is sent and summed in the collective's data type. If source or target have another type,
  // their values are converted in memory that the backend allocates. Only `framework: reference`,
  // which omits copies, has collectives that convert.
  kCollective,
};

struct Effect {
  EffectKind kind = EffectKind::kMove;
  bool add = false;
  Elements target{}, source{};
  Elements states{};              // kUpdate; kGradient and kMix: a check word, if set
  std::int64_t state_stride = 0;  // kUpdate, elements
  std::int64_t elements = 0;
  std::int64_t first_element = 0;                     // kGradient, kMix
  std::int64_t batch_part = 0;                        // kMix without a source
  double scale = 1;                                   // kGradient, kMove, kSquares, kClip
  std::int64_t block = 0;                             // kMove; equals `elements` if the copy is
                                                      // contiguous
  std::int64_t target_stride = 0, source_stride = 0;  // kMove, elements, between blocks
};

// Returns whether the first array of an update's states is a master copy: the arrays' type has more
// bits than the parameters' type.
constexpr bool HasMasterCopy(const Effect& update) {
  return SizeOf(update.target.type) < SizeOf(update.states.type);
}
// Returns the number of consecutive arrays in an update's states.
constexpr std::int64_t StateArrays(bool adamw, const Effect& update) {
  return (adamw ? 2 : 1) + (HasMasterCopy(update) ? 1 : 0);
}

enum class StateRole : std::uint8_t { kParameter, kMaster, kMoment };

// A part of the state that this rank keeps across steps. The prologue allocates its buffer.
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
  // Indices into the list of effects: the effects of step[i] are effects[first[i], first[i + 1]).
  // Empty: the program has no data flow.
  std::vector<Index> first{};

  bool empty() const { return first.empty(); }
};

}  // namespace stepcast::program
