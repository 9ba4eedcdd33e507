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
// the compute stream or on a second stream (lane). Collectives of tensor parallelism run on a
// separate stream. As in PyTorch with NCCL, a collective begins after the kernels issued before it,
// and only operations that use its result wait for it.
namespace stepcast::model {

// One of `pieces` equal, contiguous parts of a value.
struct PieceRange {
  int piece = 0, pieces = 1;
  bool Overlaps(const PieceRange& other) const {
    return pieces != other.pieces || piece == other.piece;
  }
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

// How long a value of a layer lives. Temporaries are not values: LayerWork has only their peak.
enum class Lifetime : std::uint8_t {
  kSaved,       // lives from the layer's forward to the end of its backward
  kRecomputed,  // lives from the layer's recomputation to the end of its backward
  // The value lives from its first to its last use in a list of operations. Used for values that
  // collectives read or write and that backward does not keep.
  kCommunicated,
  kDeferred,  // lives from backward_input to the end of backward_weight
  // The gradient of the layer's output, if collectives read it. The gradient lives from the kernel
  // before the layer's backward, in the next layer or stage, to the end of this backward.
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

// How an operation uses a value that some collective reads or writes.
struct ValueUse {
  ValueId value{};
  bool write = false;
  PieceRange range{};
  // The number of equal parts of the range. For the gathered value of an all-gather, the input of a
  // reduce-scatter and the source of an all-to-all, this is the group's number of ranks. For the
  // target of an all-to-all, the number is one less. Otherwise, the number is 1.
  int parts = 1;
  DataType type = DataType::kBf16;  // type in which the value is communicated
  // How the value reaches another rank: summed, gathered, or unchanged.
  enum class Content : std::uint8_t { kSum, kGathered, kSent };
  Content content = Content::kSum;
  friend bool operator==(const ValueUse&, const ValueUse&) = default;
};

// A collective among the ranks along `axes` of the grid. With kSendRecv, each rank sends to the
// rank `distance` positions further in the group. With kAllToAll, each rank sends its i-th source
// part to the rank i + 1 positions further, and keeps its last part. Each rank receives its i-th
// target part from the rank i + 1 positions back.
struct GroupOperation {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axes;
  int distance = 0;
  // See program::Collective.
  std::optional<int> multiprocessors{};
  Bytes bytes{};  // size, as in program::Collective
  DataType type = DataType::kBf16;
  AllToAllLoads loads{};        // kAllToAll
  ValueUse source{}, target{};  // if equal, the collective runs in place
  friend bool operator==(const GroupOperation&, const GroupOperation&) = default;
};

// One operation of a layer. A list of operations is one pass of a layer over a micro-batch.
struct Operation {
  Kernel kernel;  // used only if `group` is not set
  std::optional<GroupOperation> group;
  // `begins`: the values that begin to live at the operation, in allocation order. `ends`: the
  // communicated values that end at the operation. All other values live until the end of a pass.
  std::vector<ValueId> begins{}, ends{};
  // The parameters of the operation's module, as positions in Layer::tensors. Empty if the
  // operation is outside modules with parameters.
  std::vector<int> parameters{};
  // For backward: the parameters, as positions in Layer::tensors, for which this layer's gradient
  // is complete after the operation.
  std::vector<int> gradients{};
  // For a kernel: the kernel's values that group operations of the same list also read or write.
  std::vector<ValueUse> uses{};
  // The earlier operations of the list for which this operation waits: group operations and kernels
  // of another lane.
  std::vector<int> waits{};
  // Before the host issues this operation, the host waits for an earlier operation that copies data
  // to the host. This is the index of the earlier operation. kNoWait: the host does not wait.
  static constexpr int kNoWait = -1;
  int host_waits_for = kNoWait;
  // Whether this is a weight-gradient GEMM that was delayed
  // (ExpertParallel::delays_weight_gradients).
  bool delayed = false;
  // For a kernel: the stream on which it runs. 0 is the compute stream, 1 a second stream
  // (LayerTape::BeginLane).
  std::uint8_t lane = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// Returns whether the operation is an all-to-all of experts' rows.
bool ExchangesRows(const Operation& operation);

// Divides the list into the turns of two passes that are issued alternately
// (parallel::OverlappedPair). Returns the index after each turn's last operation. A turn ends after
// consecutive all-to-alls of experts' rows and the delayed GEMMs after them, or at the list's end.
std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations);

// Returns the uses of communicated values that outlive the list in which they begin. These
// values are read and freed by the first kernel that follows the list. A use has the range, parts
// and type with which the collective wrote the value.
std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations);

}  // namespace stepcast::model
