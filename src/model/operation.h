#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/all_to_all_loads.h"
#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/parallel/axis.h"

// What a layer's passes are lists of, in host order: kernels, which run on the compute stream or on
// a lane beside it, and collectives among the ranks that share the layer (tensor parallelism),
// which run on a stream of their group. A collective begins when the kernels before it are done, as
// NCCL's do under PyTorch; whatever uses its result waits for it, and nothing else does.
namespace stepcast::model {

// One of `pieces` equal parts, behind one another, of a value.
struct PieceRange {
  int piece = 0, pieces = 1;
  bool Overlaps(const PieceRange& other) const {
    return pieces != other.pieces || piece == other.piece;
  }
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

// How long a value of a layer lives. Temporaries are no values: a pass states their height alone.
enum class Lifetime : std::uint8_t {
  kSaved,       // from the layer's forward to the end of its backward
  kRecomputed,  // from when the layer's forward runs again to the end of its backward
  // From the first operation of a list that uses it to the last: what group operations read or
  // write and backward does not keep.
  kCommunicated,
  kDeferred,  // from the part of backward for inputs to the end of the part for weights
  // The gradient of the layer's output, where group operations read it, as the next layer made it
  // or the next stage sent it: from the kernel before the layer's backward to its end.
  kHandedBack,
};
inline constexpr std::size_t kLifetimes = 5;

// Names a value of a layer: its place among those that live as long (LayerWork::Of).
struct ValueId {
  Lifetime lifetime = Lifetime::kSaved;
  int index = 0;
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// How an operation reads or writes a value that some group operation reads or writes.
struct ValueUse {
  ValueId value{};
  bool write = false;
  PieceRange range{};
  // The range is so many equal parts, one of each rank of a group: the whole that an all-gather
  // makes or a reduce-scatter takes; of an all-to-all the source's, and the target's, which are one
  // fewer. Otherwise 1.
  int parts = 1;
  DataType type = DataType::kBf16;  // as it is communicated
  // How it comes to be on another rank: added up, gathered, or as it was sent.
  enum class Content : std::uint8_t { kSum, kGathered, kSent };
  Content content = Content::kSum;
  friend bool operator==(const ValueUse&, const ValueUse&) = default;
};

// A collective over the ranks along `axes` of the grid. kSendRecv: each sends to the rank that is
// `distance` further on around the group. kAllToAll: of the source's parts each sends the i-th to
// the rank that is i + 1 further on, and keeps the last; what comes are the target's parts, the
// i-th from the rank that is i + 1 back.
struct GroupOperation {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axes;
  int distance = 0;
  // See program::Collective.
  std::optional<int> multiprocessors{};
  Bytes bytes{};  // as nccl-tests count: of an all-gather and a reduce-scatter the whole
  DataType type = DataType::kBf16;
  AllToAllLoads loads{};        // kAllToAll
  ValueUse source{}, target{};  // the same value: in place
  friend bool operator==(const GroupOperation&, const GroupOperation&) = default;
};

// A list of operations is one pass of a layer over a micro-batch.
struct Operation {
  Kernel kernel;  // where there is no `group`
  std::optional<GroupOperation> group;
  // Values that come to life with it, in the order in which their memory is taken, and values whose
  // life ends with it: communicated ones alone, for the others' lives end with a pass.
  std::vector<ValueId> begins{}, ends{};
  // Positions in Layer::tensors of the parameters of the module whose operation this is; none for
  // what runs outside of modules with parameters.
  std::vector<int> parameters{};
  // Backward: positions in Layer::tensors whose gradient contribution from this layer is complete
  // after it.
  std::vector<int> gradients{};
  // Of a kernel: what group operations of the list read or write.
  std::vector<ValueUse> uses{};
  // Operations before it in the list for whose end it waits: group operations, and kernels of
  // another lane.
  std::vector<int> waits{};
  // The host does not issue it before the operation at this place of the list is done, which has
  // copied to the host what it must know.
  static constexpr int kNoWait = -1;
  int host_waits_for = kNoWait;
  // A product of a weight's gradient that has been put behind what does not need it
  // (ExpertParallel::delays_weight_gradients).
  bool delayed = false;
  // Of a kernel: 0 is the compute stream, 1 a stream beside it (LayerTape::BeginLane).
  std::uint8_t lane = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// It is an all-to-all of experts' rows.
bool ExchangesRows(const Operation& operation);

// A list is cut into turns where two passes are issued in turns (parallel::OverlappedPair): each
// ends behind exchanges of experts' rows, all-to-alls without a kernel between them, and the
// products that were delayed until there. The end of each; the last one is the list's.
std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations);

// The communicated values that begin in the list and do not end there: the first kernel after the
// list reads and frees them. Each is described as the collective describes it that wrote it.
std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations);

}  // namespace stepcast::model
