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
// parallelism) run on a separate stream. As with NCCL under PyTorch, a collective begins when the
// kernels issued before it are done. Only operations that use the collective's result wait for it.
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
  // The value lives from its first use in a list of operations to its last use. For values that
  // group operations read or write and that backward does not keep.
  kCommunicated,
  kDeferred,  // lives from backward_input to the end of backward_weight
  // The gradient of the layer's output, if group operations read it. The next layer or stage
  // computes it. The value lives from the kernel before the layer's backward to the end of this
  // backward.
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
  // The number of equal parts of the range. It is the number of ranks of the group for the gathered
  // value of an all-gather, the input of a reduce-scatter and the source of an all-to-all. The
  // target of an all-to-all has one part fewer. In all other cases, it is 1.
  int parts = 1;
  DataType type = DataType::kBf16;  // type in which the value is communicated
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
  Bytes bytes{};  // size, as in program::Collective
  DataType type = DataType::kBf16;
  AllToAllLoads loads{};        // kAllToAll
  ValueUse source{}, target{};  // equal: the collective runs in place
  friend bool operator==(const GroupOperation&, const GroupOperation&) = default;
};

// One operation of a layer. A list of operations is one pass of a layer over a micro-batch.
struct Operation {
  Kernel kernel;  // used only if `group` is not set
  std::optional<GroupOperation> group;
  // `begins`: the values whose life begins with the operation, in allocation order. `ends`: the
  // communicated values whose life ends with the operation. All other values live until the end of
  // a pass.
  std::vector<ValueId> begins{}, ends{};
  // The positions in Layer::tensors of the parameters of the operation's module. Empty if the
  // operation is outside modules with parameters.
  std::vector<int> parameters{};
  // For backward: parameters, as positions in Layer::tensors. After the operation, this layer's
  // contribution to the gradients of these parameters is complete.
  std::vector<int> gradients{};
  // For a kernel: the values that it uses and that group operations of the same list also read or
  // write.
  std::vector<ValueUse> uses{};
  // The earlier operations of the list for which this operation waits: group operations and kernels
  // of another lane.
  std::vector<int> waits{};
  // The index of an operation that copies data to the host. The host issues this operation only
  // after the copy is done. kNoWait: the host does not wait.
  static constexpr int kNoWait = -1;
  int host_waits_for = kNoWait;
  // Whether this is a weight-gradient GEMM that was moved after operations that do not need it
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
// (parallel::OverlappedPair). Returns the index after the last operation of each turn. A turn ends
// after consecutive all-to-alls of experts' rows and the delayed GEMMs that follow them. The last
// turn ends with the list.
std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations);

// Returns the uses of communicated values that begin to live in the list and outlive it. The first
// kernel after the list reads and frees these values. Each use has the form in which the collective
// wrote the value.
std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations);

}  // namespace stepcast::model
