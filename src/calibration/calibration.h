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

// A calibration profile: the measured or published performance of a GPU type and its software.
// Profiles are the data files calibration/*.yaml, which state the source of every value;
// docs/formats.md documents the format. src/cost/kernel_price.h, collective_price.h and
// copy_price.h convert the values to times; plausible.h checks them.
namespace stepcast::calibration {

// The achieved fraction of the peak for matrix products of one data type. Efficiency rises with the
// work: a product of `flops` runs at max_efficiency * flops / (flops + half_flops) of the device's
// peak. Half of the maximum is reached at half_flops. The time of a product is therefore (flops +
// half_flops) / (max_efficiency * peak), where half_flops stands for the waste of a partly filled
// device. Both parameters follow from a straight line through measured times. All zero: there is no
// data for the data type.
struct GemmEfficiency {
  double max_efficiency = 0;
  double half_flops = 0;
  friend bool operator==(const GemmEfficiency&, const GemmEfficiency&) = default;
};

// A tile of a library's matrix products of one data type, which run in waves of tiles
// (cost/kernel_price.h). Tiles are fitted to measured products, and replace GemmEfficiency if
// present.
struct GemmTile {
  std::int64_t m = 0, n = 0;  // the part of the result that one thread block computes, or its
                              // transpose
  double efficiency = 0;      // fraction of a multiprocessor's peak, for infinite k
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};
struct GemmTiling {
  std::vector<GemmTile> tiles;
  double fill = 0;      // time to fill the pipeline and store a tile, in units of k
  double add_fill = 0;  // additional `fill` if tiles are added to FP32 values
  // The cost of multiprocessors that have no tile in the last of several waves, as a fraction of a
  // wave's time. 1: the last wave takes as long as a full wave, for any number of tiles. Less than
  // 1: kernels divide the last tiles over k, or the last tiles run faster because fewer share
  // memory bandwidth and power.
  double last_wave = 1;
  // The fraction of the tiles' rate that remains in one kernel for all experts (Kernel::grouped).
  double grouped = 1;
  // How well tiles hide memory traffic: the exponent p of (arithmetic^p + traffic^p)^(1/p). 1: the
  // two times add up. Zero: the shorter time is hidden completely, so only the longer time counts.
  double overlap = 0;
  // The memory traffic of the sum over parts of k, as a fraction of the traffic if FP32 parts are
  // stored and read again. Below 1: thread blocks add the parts in the cache. A large value means
  // that the library does not divide k.
  double split = 1;
  Time start;  // device time of every product in addition to tiles; replaces start_latency
  bool empty() const { return tiles.empty(); }
  friend bool operator==(const GemmTiling&, const GemmTiling&) = default;
};

// A device's power draw in watts: at rest, and the additional draw of matrix products. The
// additional draw is for the unlimited clock of the profile's tiles or of its surface's largest
// product. Zero means unknown; the clock is then constant (cost/kernel_time.h).
struct PowerDraw {
  double idle = 0;
  double products = 0;
  // The additional draw in watts, indexed by DataType of the operands. Zero: `products` is used.
  std::array<double, kDataTypeCount> of_type{};
  double Of(DataType type) const {
    const double own = of_type[static_cast<std::size_t>(type)];
    return own == 0 ? products : own;
  }
  double memory = 0;  // total draw of memory-bound kernels; zero: unknown, use the limit
  friend bool operator==(const PowerDraw&, const PowerDraw&) = default;
};

// The performance of one generation of fused attention with heads of size 128. A kernel of `flops`
// over sequences of length n takes
//
//   max(flops + tail x longest, longest) (1 + half_length / n) / (efficiency x peak)
//
// half_length is the sequence length at which half of the best rate is reached, because a block of
// queries has work that does not grow with the keys: tiles on the diagonal that the mask covers by
// half, first loads and last stores. A thread block computes `rows` queries of one head (backward:
// keys) on one multiprocessor. The kernel therefore ends no earlier than its longest block, whose
// queries attend to all keys; `longest` is the work of all multiprocessors in that time. The device
// is not full while the last blocks run: for `tail` of the longest block's time, and for all of it
// if blocks are processed in any order (Graham 1969, "Bounds on multiprocessing timing anomalies").
// For short sequences the term vanishes. Heads of size 64 and 256 reach `head_64` and `head_256` of
// the rate. A window adds a second edge at a block's keys, which adds `forward_window_length` to
// half_length. Kernels that pack the query heads of a key head into one block load fewer keys per
// query: half_length also grows by `forward_unshared_length` x key heads / query heads. Zero
// efficiencies: unknown.
struct AttentionEfficiency {
  double forward = 0, backward = 0;
  double forward_half_length = 0, backward_half_length = 0;
  double forward_rows = 128, backward_rows = 128;
  double forward_tail = 0, backward_tail = 0;
  double head_64 = 1, head_256 = 1;
  double forward_window_length = 0;
  double forward_unshared_length = 0;
  Time forward_start{};  // start of serving's kernels; zero: start_latency (KernelSetting::serving)
  friend bool operator==(const AttentionEfficiency&, const AttentionEfficiency&) = default;
};

inline constexpr std::string_view kFusedNames[] = {"flash1", "flash2", "flash3", "cudnn", "flex"};

// Measured times, in ascending order of bytes. The bytes are those that a kernel reads and writes,
// or that a copy moves.
using Curve = std::vector<std::pair<Bytes, Time>>;

// Measured times of causal attention, in ascending order of sequence length. They are for one data
// type, direction, head size and number of heads (of all sequences together). There are as many
// heads of keys and values as of queries.
struct AttentionCurve {
  std::int64_t head_size = 0;
  std::int64_t heads = 0;
  std::vector<std::pair<std::int64_t, Time>> points;
  friend bool operator==(const AttentionCurve&, const AttentionCurve&) = default;
};

// A list of attention curves, sorted by head size, then by number of heads. Curves may have
// different lengths.
using AttentionSurface = std::vector<AttentionCurve>;

// Measured times of m x n x k matrix products of one data type. There is a time for every
// combination of the values on three ascending axes. All empty: not measured.
struct GemmSurface {
  std::vector<std::int64_t> m, n, k;
  std::vector<Time> times;  // of (m[a], n[b], k[c]) at (a n.size() + b) k.size() + c
  bool empty() const { return times.empty(); }
  Time at(std::size_t a, std::size_t b, std::size_t c) const {
    return times[(a * n.size() + b) * k.size() + c];
  }
  friend bool operator==(const GemmSurface&, const GemmSurface&) = default;
};

// The rate of unaligned batched products (attention as separate kernels). It is the fraction of the
// products' rate that remains if the products' rows are not divisible by 16 bytes, with the cuBLAS
// of a PyTorch release.
struct UnalignedBatches {
  Version torch;                              // first release; {}: every release before the others
  std::array<double, kDataTypeCount> rate{};  // by DataType; zero: unknown, use the value for
                                              // single products
  friend bool operator==(const UnalignedBatches&, const UnalignedBatches&) = default;
};

// The costs of kernels. Efficiencies are fractions of a data sheet's peak. Surfaces and curves are
// measured times and replace efficiencies; they include the whole time of an operation on its
// stream, with the start. A measured section may lack efficiencies, which are then zero (Complete()
// fills them).
struct KernelCosts {
  std::array<GemmEfficiency, kDataTypeCount> gemm;  // by DataType
  double attention_forward_efficiency = 0;          // fraction of the data type's peak
  double attention_backward_efficiency = 0;
  double memory_efficiency = 0;  // achieved fraction of the device memory bandwidth
  // The fraction of memory_efficiency that kernels of eager PyTorch reach, indexed by Access. Zero:
  // unknown, counts as 1. Measured kernels (memory_curve) ignore this fraction.
  std::array<double, kAccessCount> traffic{};
  // The time per token of a thread block that sums 32 columns over tokens. Memory latency
  // determines this time. Zero: unknown; memory bandwidth then determines the time.
  Time token_sum_time;
  std::array<GemmTiling, kDataTypeCount> gemm_tiling;  // by DataType
  // The fraction of their rate that remains for matrix products if the rows of their operands are
  // divisible only by 2 bytes (cost/kernel_time.h). Zero: unknown, no loss.
  double gemm_unaligned = 0;
  // The fraction of their rate that remains for matrix products if rows are divisible by 4 or 8
  // bytes. Zero: each halving of the divisor costs the same factor.
  double gemm_unaligned_even = 0;
  // The fraction of their rate that remains for matrix products if the rows of the result are
  // divisible only by 2 bytes. Zero: no loss.
  double gemm_unaligned_result = 0;
  // The fractions of their rate that remain for batched products. The newest release comes first.
  // Empty: unknown; the values above are used.
  std::vector<UnalignedBatches> batched_unaligned;
  std::array<AttentionEfficiency, std::size(kFusedNames)>
      attention;  // index of kFusedNames; Kernel::flash counts from 1
  PowerDraw power;
  // The standard deviation of times among devices of one type, divided by the typical time. Devices
  // differ in arithmetic speed, and a step waits for the slowest one (cost/device_speed.h).
  double variation = 0;
  // The standard deviation of a kernel's time among launches on one device, divided by the mean.
  // Ranks that wait for one another wait for the last one (cost/jitter.h).
  double jitter = 0;
  Time start_latency;      // shortest time of any kernel on the device
  Time launch;             // host time to issue one kernel (eager)
  Time collective_launch;  // host time to issue one collective

  // Surfaces of measured products, indexed by DataType.
  std::array<GemmSurface, kDataTypeCount> gemm_surface;                  // forward layout
  std::array<GemmSurface, kDataTypeCount> gemm_input_gradient_surface;   // input gradients
  std::array<GemmSurface, kDataTypeCount> gemm_weight_gradient_surface;  // with FP32 results
  std::array<AttentionSurface, kDataTypeCount> attention_forward_surface;
  std::array<AttentionSurface, kDataTypeCount> attention_backward_surface;
  Curve memory_curve;     // memory-bound kernels
  Curve optimizer_curve;  // kernels of the optimizer

  // Returns the surface of a layout. If the layout was not measured, returns the surface of the
  // forward layout.
  const GemmSurface& SurfaceOf(DataType type, ProductLayout layout) const;
  // Returns whether any surface or curve was measured. If so, efficiencies may be missing.
  bool measured() const;
};

// Measured times of copies, by bytes. Empty: not measured.
struct CopyCurves {
  Curve host_to_device, device_to_host, device_to_device;
  // The factor by which copies slow down if the other direction between host and device is also
  // busy. Zero: not measured. The profile stores the factor, but the simulator does not use it.
  double both_ways = 0;
  friend bool operator==(const CopyCurves&, const CopyCurves&) = default;
};

// Constants of software like NCCL with one protocol (Simple), by kind of hop. The time of a hop
// within the node includes the link's latency. The time of a network hop does not.
struct LinkCosts {
  double nvlink_efficiency = 0;  // achieved fraction of link bandwidth in one direction
  double pcie_efficiency = 0;
  double network_efficiency = 0;
  Time ring_base, tree_base;                              // once per collective
  Time ring_nvlink_hop, ring_pcie_hop, ring_network_hop;  // per step over such a hop
  Time tree_nvlink_hop, tree_pcie_hop, tree_network_hop;
  // The standard deviation of a collective's time, divided by its mean, between calls and between
  // groups (cost/jitter.h).
  double jitter = 0;
};

// Device memory outside the framework's allocator, and the workspaces of libraries.
struct MemoryCosts {
  Bytes context;             // CUDA context and loaded kernels
  Bytes first_communicator;  // NCCL's first communicator
  Bytes next_communicator;   // each further communicator
  Bytes gemm_workspace;      // cuBLAS workspace per stream that runs matrix products
};

// Measured times of one collective on one shape of group, in ascending order of size. Sizes are as
// nccl-tests counts them.
struct CollectiveTable {
  Location location;  // of the table, for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::vector<std::pair<Bytes, Time>> points;
  // The 10th and the 90th percentile of the measurements at each point. Empty, or one pair for each
  // point.
  std::vector<std::pair<Time, Time>> quantiles{};
};

// The kind of kernel that runs concurrently with a collective.
enum class Neighbour : std::uint8_t { kGemm, kMemoryBound };
inline constexpr Neighbour kNeighbours[] = {Neighbour::kGemm, Neighbour::kMemoryBound};
constexpr std::string_view Name(Neighbour neighbour) {  // the names of files
  return neighbour == Neighbour::kGemm ? "gemm" : "memory_bound";
}

// The slowdowns of kernels and of a collective that run concurrently. 1.1 means 10 % longer. The
// profile stores them. The simulator instead uses its own rule (engine/shared_resources.h), which
// slows both sides equally and cannot express two factors.
struct Interference {
  Neighbour kernel = Neighbour::kGemm;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  double kernel_slowdown = 1;
  double collective_slowdown = 1;
  friend bool operator==(const Interference&, const Interference&) = default;
};

// The relative uncertainty of one part of the profile.
struct Residual {
  std::string of;            // "gemm", "memory_bound", "collectives"
  double spread = 0;         // median over points: median absolute deviation / median
  double interpolation = 0;  // median over inner points: |value - interpolation| / value
  friend bool operator==(const Residual&, const Residual&) = default;
};

// Host costs on the reference host (calibration/hosts): for each framework, the host time per
// kernel in addition to the launch. They depend on the framework and the host, but not on the GPU.
// Profiles of many GPU types therefore share them, and NodeType::host_speed scales them.
struct FrameworkCosts {
  std::string name;
  std::string host;  // description of the reference host
  std::map<std::string, Dispatch, std::less<>> dispatch;
};

// Converts a time on the reference host to a time on a host of another speed.
Time OnHost(Time time, double speed);
Dispatch OnHost(const Dispatch& dispatch, double speed);

// The kernel costs with the libraries of a PyTorch release and of later releases. Values that did
// not change are included.
struct KernelRelease {
  Version torch;
  KernelCosts costs;
};

class LearnedRuns;

struct Calibration {
  std::string name;
  // The GPU types for which the values are valid (topology::Gpu::name). Empty: not stated.
  std::vector<std::string> gpus;
  Location location;                                            // of the file, for messages
  std::vector<std::pair<std::string, std::string>> provenance;  // as written, not empty
  std::optional<KernelCosts> kernels;          // for releases before the first one below
  std::vector<KernelRelease> kernel_releases;  // ascending
  std::optional<LinkCosts> links;
  std::optional<MemoryCosts> memory;
  std::vector<CollectiveTable> collectives;
  // The published curves for this GPU type. The most trusted one comes first. `collective_law` is
  // the model for all other cases.
  std::vector<std::shared_ptr<const CurveFile>> curves;
  std::optional<CollectiveLaw> collective_law;
  CopyCurves copies;
  std::vector<Interference> interference;
  std::vector<Residual> residuals;
  // Host costs like FrameworkCosts, but measured on this machine. They are not scaled, and they
  // take precedence over `frameworks`.
  std::map<std::string, Dispatch, std::less<>> dispatch;
  std::shared_ptr<const FrameworkCosts> frameworks;  // null: unknown
  // Corrections that were learned from measured runs with this profile (learned_runs.h). Null:
  // nothing was learned.
  std::shared_ptr<const LearnedRuns> runs;

  // Returns whether the values may be valid for a GPU type. They may if the profile states this
  // type or states none.
  bool MayHoldFor(std::string_view gpu) const;
  // Returns the costs with the newest release that is not newer than `torch`. Requires `kernels`.
  const KernelCosts& KernelsOf(Version torch) const;
};

// Fills values that the measured `kernels` lack from `defaults`: the efficiencies of attention, of
// memory, and of matrix products for types without a surface. Returns the keys that were filled.
// Start and launch times are never filled, except the launch time of collectives if only one rank
// was measured.
std::vector<std::string> Complete(const KernelCosts& defaults, KernelCosts& kernels);

}  // namespace stepcast::calibration
