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

// Elements of a layer's passes, in host order: kernels, which run on the compute stream or on a
// second lane, and collectives among the ranks that share the layer (tensor parallelism), which run
// on a stream of their group. A collective begins when the kernels before it are done, as NCCL's do
// under PyTorch. Only operations that use its result wait for it.
namespace stepcast::model {

// One of `pieces` equal, contiguous parts of a value.
struct PieceRange {
  int piece = 0, pieces = 1;
  bool Overlaps(const PieceRange& other) const {
    return pieces != other.pieces || piece == other.piece;
  }
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

// How long a value of a layer lives. Temporaries are not values; passes only state their peak.
enum class Lifetime : std::uint8_t {
  kSaved,       // from the layer's forward to the end of its backward
  kRecomputed,  // from when the layer's forward runs again to the end of its backward
  // From the first operation of a list that uses it to the last: values that group operations read
  // or write and backward does not keep.
  kCommunicated,
  kDeferred,  // from the part of backward for inputs to the end of the part for weights
  // The gradient of the layer's output, from the next layer or stage, if group operations read it.
  // It lives from the kernel before the layer's backward to the end of that backward.
  kHandedBack,
};
inline constexpr std::size_t kLifetimes = 5;

// Names a value of a layer: its index among those with the same lifetime (LayerWork::Of).
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
  // Number of equal parts of the range, one for each rank of a group: the whole of an all-gather or
  // reduce-scatter; of an all-to-all the source's, and the target's, which are one fewer. Otherwise
  // 1.
  int parts = 1;
  DataType type = DataType::kBf16;  // as communicated
  // How the value reaches another rank: summed, gathered, or unchanged.
  enum class Content : std::uint8_t { kSum, kGathered, kSent };
  Content content = Content::kSum;
  friend bool operator==(const ValueUse&, const ValueUse&) = default;
};

// A collective over the ranks along `axes` of the grid. kSendRecv: each rank sends to the rank that
// is `distance` further around the group. kAllToAll: each rank sends its i-th source part to the
// rank i + 1 further and keeps the last. The i-th target part comes from the rank i + 1 back.
struct GroupOperation {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axes;
  int distance = 0;
  // See program::Collective.
  std::optional<int> multiprocessors{};
  Bytes bytes{};  // as nccl-tests counts: for an all-gather and a reduce-scatter the whole
  DataType type = DataType::kBf16;
  AllToAllLoads loads{};        // kAllToAll
  ValueUse source{}, target{};  // equal values: in place
  friend bool operator==(const GroupOperation&, const GroupOperation&) = default;
};

// A list of operations is one pass of a layer over a micro-batch.
struct Operation {
  Kernel kernel;  // if there is no `group`
  std::optional<GroupOperation> group;
  // Values whose life begins with the operation, in allocation order, and communicated values whose
  // life ends with it. Other lives end with a pass.
  std::vector<ValueId> begins{}, ends{};
  // Positions in Layer::tensors of the parameters of the operation's module; empty outside modules
  // with parameters.
  std::vector<int> parameters{};
  // Backward: positions in Layer::tensors whose gradient contribution from this layer is complete
  // after the operation.
  std::vector<int> gradients{};
  // For a kernel: its uses of values that the list's group operations read or write.
  std::vector<ValueUse> uses{};
  // Earlier operations in the list that it waits for: group operations, and kernels of another
  // lane.
  std::vector<int> waits{};
  // The host issues the operation only when the operation at this index is done, which copied to
  // the host what it must know.
  static constexpr int kNoWait = -1;
  int host_waits_for = kNoWait;
  // A weight-gradient product that was moved after operations that do not need it
  // (ExpertParallel::delays_weight_gradients).
  bool delayed = false;
  // For a kernel: 0 is the compute stream, 1 a stream beside it (LayerTape::BeginLane).
  std::uint8_t lane = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// Whether it is an all-to-all of experts' rows.
bool ExchangesRows(const Operation& operation);

// The ends of a list's turns, for two passes that are issued in turns (parallel::OverlappedPair). A
// turn ends after exchanges of experts' rows (consecutive all-to-alls) and the products that were
// delayed until there. The last end is the list's.
std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations);

// The communicated values that begin in the list and do not end there. The first kernel after the
// list reads and frees them. Each is described as by the collective that wrote it.
std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations);

}  // namespace stepcast::model
