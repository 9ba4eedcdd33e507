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

// The operations of a layer's passes, in the order in which the host issues them. Kernels run on
// the compute stream or on a second lane. Collectives among the ranks that share the layer (tensor
// parallelism) run on a separate stream. A collective begins when the kernels issued before it are
// done, as NCCL's collectives do under PyTorch. Only operations that use the collective's result
// wait for the collective.
namespace stepcast::model {

// One of `pieces` equal, contiguous parts of a value.
struct PieceRange {
  int piece = 0, pieces = 1;
  bool Overlaps(const PieceRange& other) const {
    return pieces != other.pieces || piece == other.piece;
  }
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

// How long a value of a layer lives. Temporaries are not values; a pass only states their peak.
enum class Lifetime : std::uint8_t {
  kSaved,       // from the layer's forward to the end of its backward
  kRecomputed,  // from when the layer's forward runs again to the end of its backward
  // The value lives from its first use in a list of operations to its last use. For values that
  // group operations read or write and that backward does not keep.
  kCommunicated,
  kDeferred,  // from the part of backward for inputs to the end of the part for weights
  // The value is the gradient of the layer's output, which comes from the next layer or stage, and
  // group operations read it. It lives from the kernel before the layer's backward to the end of
  // the layer's backward.
  kHandedBack,
};
inline constexpr std::size_t kLifetimes = 5;

// Identifies a value of a layer by its index among the values with the same lifetime
// (LayerWork::Of).
struct ValueId {
  Lifetime lifetime = Lifetime::kSaved;
  int index = 0;
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// Describes how an operation uses a value that some group operation reads or writes.
struct ValueUse {
  ValueId value{};
  bool write = false;
  PieceRange range{};
  // The number of equal parts of the range. For the whole of an all-gather or reduce-scatter, and
  // for the source of an all-to-all, it is the number of ranks of the group. The target of an
  // all-to-all has one part fewer. In all other cases, the number is 1.
  int parts = 1;
  DataType type = DataType::kBf16;  // as communicated
  // How the value reaches another rank: summed, gathered, or unchanged.
  enum class Content : std::uint8_t { kSum, kGathered, kSent };
  Content content = Content::kSum;
  friend bool operator==(const ValueUse&, const ValueUse&) = default;
};

// A collective among the ranks along `axes` of the grid. With kSendRecv, each rank sends to the
// rank that is `distance` positions further around the group. With kAllToAll, each rank sends its
// i-th source part to the rank i + 1 positions further, and keeps its last part. The i-th target
// part comes from the rank i + 1 positions back.
struct GroupOperation {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axes;
  int distance = 0;
  // See program::Collective.
  std::optional<int> multiprocessors{};
  Bytes bytes{};  // as nccl-tests counts; the whole of an all-gather or reduce-scatter
  DataType type = DataType::kBf16;
  AllToAllLoads loads{};        // kAllToAll
  ValueUse source{}, target{};  // equal values: in place
  friend bool operator==(const GroupOperation&, const GroupOperation&) = default;
};

// One operation of a layer. A list of operations is one pass of a layer over a micro-batch.
struct Operation {
  Kernel kernel;  // if there is no `group`
  std::optional<GroupOperation> group;
  // `begins`: the values whose life begins with the operation, in allocation order. `ends`: the
  // communicated values whose life ends with the operation. All other values live until the end of
  // a pass.
  std::vector<ValueId> begins{}, ends{};
  // The positions in Layer::tensors of the parameters of the operation's module. Empty if the
  // operation is outside modules with parameters.
  std::vector<int> parameters{};
  // For backward: parameters, given as positions in Layer::tensors. After the operation, this
  // layer's contribution to the gradients of these parameters is complete.
  std::vector<int> gradients{};
  // For a kernel: the values that it uses and that group operations of the same list also read or
  // write.
  std::vector<ValueUse> uses{};
  // The earlier operations of the list for which this operation waits: group operations, and
  // kernels of another lane.
  std::vector<int> waits{};
  // The index of an operation that copies data to the host. The host issues the present operation
  // only after that copy is done. kNoWait: the host does not wait.
  static constexpr int kNoWait = -1;
  int host_waits_for = kNoWait;
  // Whether this is a weight-gradient product that was moved after operations that do not need it
  // (ExpertParallel::delays_weight_gradients).
  bool delayed = false;
  // For a kernel: the stream on which it runs. 0 is the compute stream, 1 a second stream
  // (LayerTape::BeginLane).
  std::uint8_t lane = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// Returns whether the operation is an all-to-all of experts' rows.
bool ExchangesRows(const Operation& operation);

// Two passes can be issued alternately, in turns (parallel::OverlappedPair). Returns, for each turn
// of this list, the index after its last operation. A turn ends after consecutive all-to-alls of
// experts' rows and the delayed products that follow them. The last turn ends with the list.
std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations);

// Returns the communicated values that begin in the list and do not end there. The first kernel
// after the list reads and frees them. Each value's use has the form in which the collective wrote
// the value.
std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations);

}  // namespace stepcast::model
