#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/diagnostic.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/collective_curves.h"

// A calibration profile: what a GPU type and its software were measured, or published, to achieve.
// Data, not code: calibration/*.yaml, every figure with its source. Format: docs/formats.md. How
// the figures become times: src/cost/kernel_price.h, collective_price.h, copy_price.h. What values
// are believable: plausible.h.
namespace stepcast::calibration {

// Achieved part of a peak for matrix products of one data type. Efficiency rises with the amount
// of work: a product of `flops` runs at max_efficiency * flops / (flops + half_flops) of the
// device's peak, where half_flops is the size at which half of the maximum is reached. Seen as a
// time, the product costs (flops + half_flops) / (max_efficiency * peak): half_flops is what a
// partly filled device wastes, and both follow from a straight line through measured times.
// All zero: the profile says nothing about the data type.
struct GemmEfficiency {
  double max_efficiency = 0;
  double half_flops = 0;
  friend bool operator==(const GemmEfficiency&, const GemmEfficiency&) = default;
};

// What a library's matrix products of one data type are made of: tiles in waves
// (cost/kernel_price.h). Fitted through measured products; counts instead of GemmEfficiency where
// it is there.
struct GemmTile {
  std::int64_t m = 0, n = 0;  // one thread block's part of the outcome; used either way round
  double efficiency = 0;      // of a multiprocessor's part of the peak, with k without end
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};
struct GemmTiling {
  std::vector<GemmTile> tiles;
  double fill = 0;      // k's worth of time to fill the pipeline and to store a tile
  double add_fill = 0;  // ... so much more where tiles are added to FP32 values
  // The part of a wave's time that multiprocessors without a tile cost in the last of several
  // waves. 1: the wave takes its time, however few its tiles are. Kernels that divide the last
  // tiles over k, or whose last tiles have memory and power to themselves, lose less.
  double last_wave = 1;
  Time start;  // what every product takes on the device besides; instead of start_latency
  bool empty() const { return tiles.empty(); }
  friend bool operator==(const GemmTiling&, const GemmTiling&) = default;
};

// What a device draws, in watts: at rest, and on top of it under matrix products at the clock of
// the profile's tiles, or of the largest product of its surface, if it were allowed to. Zero: not
// known, the clock holds (cost/kernel_time.h).
struct PowerDraw {
  double idle = 0;
  double products = 0;
  // The same by DataType of the operands. Zero: as `products`.
  std::array<double, kDataTypeCount> of_type{};
  double Of(DataType type) const {
    const double own = of_type[static_cast<std::size_t>(type)];
    return own == 0 ? products : own;
  }
  double memory = 0;  // in all, under kernels that memory bounds; zero: not known, the limit
  friend bool operator==(const PowerDraw&, const PowerDraw&) = default;
};

// How well a generation of fused attention runs, with heads of 128. A kernel of `flops` over
// sequences of n takes
//
//   max(flops + tail x longest, longest) (1 + half_length / n) / (efficiency x peak)
//
// half_length is the length at which half of the best rate is reached, because a block of queries
// has work that does not grow with the keys: tiles on the diagonal that the mask half covers, first
// loads and last stores. A thread block computes `rows` queries of one head (backward: keys), and
// one multiprocessor runs it: the kernel ends no sooner than its longest block, the one whose
// queries see all keys. `longest` is what all multiprocessors could compute meanwhile. The device
// is not full while the last blocks run: for `tail` of the longest one's time, and for all of it if
// blocks come in any order (Graham 1969, "Bounds on multiprocessing timing anomalies"). Nothing of
// this stays where sequences become short. Heads of 64 and 256 reach `head_64` and `head_256` of
// the rate. A window cuts a block's keys at a second edge: half_length then counts
// `forward_window_length` more. Zero efficiencies: nothing is known.
struct AttentionEfficiency {
  double forward = 0, backward = 0;
  double forward_half_length = 0, backward_half_length = 0;
  double forward_rows = 128, backward_rows = 128;
  double forward_tail = 0, backward_tail = 0;
  double head_64 = 1, head_256 = 1;
  double forward_window_length = 0;
  Time forward_start{};  // what every core takes on the device besides; zero: start_latency
  friend bool operator==(const AttentionEfficiency&, const AttentionEfficiency&) = default;
};

inline constexpr std::string_view kFusedNames[] = {"flash1", "flash2", "flash3", "cudnn", "flex"};

// Measured times by bytes, ascending: bytes that a kernel reads and writes, or that a copy moves.
using Curve = std::vector<std::pair<Bytes, Time>>;

// Measured times of causal attention cores of one data type and direction, with one number of heads
// (of all sequences together) of one size, by the length of the sequences, ascending. Keys and
// values have as many heads as queries.
struct AttentionCurve {
  std::int64_t head_size = 0;
  std::int64_t heads = 0;
  std::vector<std::pair<std::int64_t, Time>> points;
  friend bool operator==(const AttentionCurve&, const AttentionCurve&) = default;
};

// By head size, then heads, ascending. Curves may be of different lengths.
using AttentionSurface = std::vector<AttentionCurve>;

// Measured times of m x n x k matrix products of one data type: every combination of the values on
// the three axes, each ascending. All empty: nothing was measured.
struct GemmSurface {
  std::vector<std::int64_t> m, n, k;
  std::vector<Time> times;  // of (m[a], n[b], k[c]) at (a n.size() + b) k.size() + c
  bool empty() const { return times.empty(); }
  Time at(std::size_t a, std::size_t b, std::size_t c) const {
    return times[(a * n.size() + b) * k.size() + c];
  }
  friend bool operator==(const GemmSurface&, const GemmSurface&) = default;
};

// The part of their rate that batches of products keep, an attention core as separate kernels,
// wherever 16 bytes do not divide their rows, with the cuBLAS that a release of PyTorch brings.
struct UnalignedBatches {
  Version torch;                              // and later; {}: every release before the others
  std::array<double, kDataTypeCount> rate{};  // by DataType. Zero: not known, as single products
  friend bool operator==(const UnalignedBatches&, const UnalignedBatches&) = default;
};

// Efficiencies are parts of a data sheet's peak; surfaces and curves are measured times, and count
// instead where they exist. Each holds what an operation adds to its stream, start-up included. A
// measured section may leave efficiencies out; they are then zero (Complete() fills them).
struct KernelCosts {
  std::array<GemmEfficiency, kDataTypeCount> gemm;  // by DataType
  double attention_forward_efficiency = 0;          // of the peak of the data type
  double attention_backward_efficiency = 0;
  double memory_efficiency = 0;  // achieved part of the device memory bandwidth
  // The part of that which kernels of eager PyTorch reach, by Access. Zero: not known, all of it.
  // Kernels that were measured (memory_curve) are not PyTorch's.
  std::array<double, kAccessCount> traffic{};
  // What a thread block takes per token to add up 32 columns over tokens: it waits for the memory's
  // latency, not its bandwidth. Zero: not known, bandwidth rules.
  Time token_sum_time;
  std::array<GemmTiling, kDataTypeCount> gemm_tiling;  // by DataType
  // The part of their rate that matrix products keep whose operands have rows that 2 bytes alone
  // divide (cost/kernel_time.h). Zero: not known, nothing is lost.
  double gemm_unaligned = 0;
  // The same where 4 or 8 bytes divide the rows. Zero: as much less for each halving.
  double gemm_unaligned_even = 0;
  // The same where 2 bytes alone divide the rows of the result. Zero: nothing is lost.
  double gemm_unaligned_result = 0;
  // The same of batches of products. The newest first; empty: not known, as single products.
  std::vector<UnalignedBatches> batched_unaligned;
  std::array<AttentionEfficiency, std::size(kFusedNames)>
      attention;  // by kFusedNames, which Kernel::flash counts from 1
  PowerDraw power;
  // Devices of one type are not equally fast under arithmetic: standard deviation of their times
  // over the typical time. A step waits for the slowest (cost/device_speed.h).
  double variation = 0;
  // A kernel is not equally fast at every launch: standard deviation over its mean time on one
  // device, from launch to launch. Ranks that wait for one another wait for whichever was late
  // since they last did (cost/jitter.h).
  double jitter = 0;
  Time start_latency;      // shortest time any kernel takes on the device
  Time launch;             // host time to issue one kernel (eager)
  Time collective_launch;  // host time to issue one collective

  // All by DataType.
  std::array<GemmSurface, kDataTypeCount> gemm_surface;                  // as in a forward
  std::array<GemmSurface, kDataTypeCount> gemm_input_gradient_surface;   // the gradients' products
  std::array<GemmSurface, kDataTypeCount> gemm_weight_gradient_surface;  // with FP32 results
  std::array<AttentionSurface, kDataTypeCount> attention_forward_surface;
  std::array<AttentionSurface, kDataTypeCount> attention_backward_surface;
  Curve memory_curve;     // memory-bound kernels
  Curve optimizer_curve;  // the optimizer's

  // Of products of a layout; the forward's, where that one was not measured.
  const GemmSurface& SurfaceOf(DataType type, ProductLayout layout) const;
  // Something was measured: efficiencies may then be missing.
  bool measured() const;
};

// Measured copies by the bytes that they move; empty: not measured.
struct CopyCurves {
  Curve host_to_device, device_to_host, device_to_device;
  // How much longer copies take while the other direction between host and device is busy, too;
  // zero: not measured. Kept with the profile, not used by the simulator.
  double both_ways = 0;
  friend bool operator==(const CopyCurves&, const CopyCurves&) = default;
};

// NCCL-like software over the links: constants of one protocol (Simple), by hop. A hop inside the
// node includes the wire's own latency; one over the network comes on top of it.
struct LinkCosts {
  double nvlink_efficiency = 0;  // achieved part of the wire bandwidth, one direction
  double pcie_efficiency = 0;
  double network_efficiency = 0;
  Time ring_base, tree_base;                              // once per collective
  Time ring_nvlink_hop, ring_pcie_hop, ring_network_hop;  // per step over such a hop
  Time tree_nvlink_hop, tree_pcie_hop, tree_network_hop;
  // Standard deviation of a collective's time over its mean, from call to call and from group to
  // group (cost/jitter.h).
  double jitter = 0;
};

// Device memory that the framework's allocator does not see, and library workspaces.
struct MemoryCosts {
  Bytes context;             // CUDA context and loaded kernels
  Bytes first_communicator;  // NCCL, the first communicator
  Bytes next_communicator;   // each further one
  Bytes gemm_workspace;      // cuBLAS workspace per stream that runs matrix products
};

// Measured times of one collective on one group shape, sizes by nccl-tests' convention, ascending.
struct CollectiveTable {
  Location location;  // where the table stands, for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::vector<std::pair<Bytes, Time>> points;
  // 10th and 90th percentile of what was measured at each point; empty, or one for each point.
  std::vector<std::pair<Time, Time>> quantiles{};
};

// What runs on a device beside a collective.
enum class Neighbour : std::uint8_t { kGemm, kMemoryBound };
inline constexpr Neighbour kNeighbours[] = {Neighbour::kGemm, Neighbour::kMemoryBound};
constexpr std::string_view Name(Neighbour neighbour) {  // the names of files
  return neighbour == Neighbour::kGemm ? "gemm" : "memory_bound";
}

// How much longer both take when kernels run beside a collective: 1.1 is a tenth longer. Kept with
// the profile; the simulator shares out resources by its own rule (engine/shared_resources.h),
// which slows both sides alike and cannot express two factors.
struct Interference {
  Neighbour kernel = Neighbour::kGemm;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  double kernel_slowdown = 1;
  double collective_slowdown = 1;
  friend bool operator==(const Interference&, const Interference&) = default;
};

// How well a part of the profile is known, in relative terms.
struct Residual {
  std::string of;     // "gemm", "memory_bound", "collectives"
  double spread = 0;  // median over points: median absolute deviation / median
  double interpolation =
      0;  // median over inner points: |value - what their neighbours say| / value
  friend bool operator==(const Residual&, const Residual&) = default;
};

// Host costs on the reference host (calibration/hosts): by the name of a framework, what its code
// takes the host for a kernel, beyond the launch. They are the framework's and the host's, not the
// GPU's: profiles of many GPU types share them, and NodeType::host_speed scales them.
struct FrameworkCosts {
  std::string name;
  std::string host;  // the reference host, in words
  std::map<std::string, Dispatch, std::less<>> dispatch;
};

// What takes the reference host this long takes one of another speed.
Time OnHost(Time time, double speed);
Dispatch OnHost(const Dispatch& dispatch, double speed);

// What kernels cost with the libraries that a release of PyTorch and later ones bring: all of it,
// what is no different included.
struct KernelRelease {
  Version torch;
  KernelCosts costs;
};

class LearnedRuns;

struct Calibration {
  std::string name;
  // The GPU types that its figures hold for (topology::Gpu::name); empty: it does not say.
  std::vector<std::string> gpus;
  Location location;                                            // of the file, for messages
  std::vector<std::pair<std::string, std::string>> provenance;  // as written, not empty
  std::optional<KernelCosts> kernels;                           // before the first of the releases
  std::vector<KernelRelease> kernel_releases;                   // ascending
  std::optional<LinkCosts> links;
  std::optional<MemoryCosts> memory;
  std::vector<CollectiveTable> collectives;
  // What is published for this GPU type, the most trusted first, and the law for what is not.
  std::vector<std::shared_ptr<const CurveFile>> curves;
  std::optional<CollectiveLaw> collective_law;
  CopyCurves copies;
  std::vector<Interference> interference;
  std::vector<Residual> residuals;
  // As FrameworkCosts, of this machine's own host: not scaled, and before `frameworks`.
  std::map<std::string, Dispatch, std::less<>> dispatch;
  std::shared_ptr<const FrameworkCosts> frameworks;  // null: not known
  // What measured runs say of forecasts with this profile (learned_runs.h); null: nothing.
  std::shared_ptr<const LearnedRuns> runs;

  // Whether its figures hold for a GPU type, or it does not say for which they do.
  bool MayHoldFor(std::string_view gpu) const;
  // Of the newest release that is not newer than `torch`. Requires `kernels`.
  const KernelCosts& KernelsOf(Version torch) const;
};

// Gives `kernels`, which were measured, what `defaults` know and they do not: efficiencies of
// matrix products of types that have no surface, of attention and of the memory. Returns the keys
// that were filled in; times of start and launch are never among them, but that of collectives
// where one rank alone was measured.
std::vector<std::string> Complete(const KernelCosts& defaults, KernelCosts& kernels);

}  // namespace stepcast::calibration
