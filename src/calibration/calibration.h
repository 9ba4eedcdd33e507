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
// Profiles are the files calibration/*.yaml (format: docs/formats.md), which state the source of
// every value. src/cost converts the values to times (kernel_price.h, collective_price.h,
// copy_price.h); plausible.h checks the values.
namespace stepcast::calibration {

// The fraction of the device's peak that matrix multiplications of one data type achieve. A
// multiplication of `flops` takes (flops + half_flops) / (max_efficiency x peak). A multiplication
// of half_flops reaches half of max_efficiency, because the device is partly filled. The parameters
// are fitted by a straight line to measured times. All zero: no data for this data type.
struct GemmEfficiency {
  double max_efficiency = 0;
  double half_flops = 0;
  friend bool operator==(const GemmEfficiency&, const GemmEfficiency&) = default;
};

// A tile shape of a library's matrix multiplications of one data type. The tiles of a
// multiplication run in waves (cost/kernel_price.h). The efficiencies are fitted to measured
// multiplications, and replace GemmEfficiency.
struct GemmTile {
  std::int64_t m = 0, n = 0;  // part of the result per thread block, in either orientation
  double efficiency = 0;      // fraction of a multiprocessor's peak, for infinite k
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};
struct GemmTiling {
  std::vector<GemmTile> tiles;
  double fill = 0;      // time to fill the pipeline and store a tile, in units of k
  double add_fill = 0;  // additional `fill` if tiles are added to FP32 values
  // The cost of idle multiprocessors in the last of several waves, as a fraction of a wave's time.
  // 1: the last wave takes as long as a full wave. Below 1: kernels divide the last tiles along k,
  // or the last tiles run faster because fewer tiles share memory bandwidth and power.
  double last_wave = 1;
  // The throughput of one kernel for the GEMMs of all experts (Kernel::grouped), divided by the
  // throughput that is predicted from its tiles.
  double grouped = 1;
  // How well tiles hide memory traffic: the exponent p of (arithmetic^p + traffic^p)^(1/p). 1: the
  // times add up. Zero: the shorter time is hidden completely.
  double overlap = 0;
  // Split-K: the memory traffic of adding the partial sums, divided by the traffic of writing and
  // reading each FP32 partial sum once. Below 1 if thread blocks add partial sums in the cache. A
  // large value means that the library does not use split-K.
  double split = 1;
  Time start;  // device time per multiplication without tiles; replaces start_latency
  bool empty() const { return tiles.empty(); }
  friend bool operator==(const GemmTiling&, const GemmTiling&) = default;
};

// A device's power draw in watts: the idle draw, and the additional draw of matrix multiplications
// at full clock. The multiplications run at the rate of the profile's tiles or, without tiles, of
// the largest multiplication of the profile's surface. Zero: unknown; the clock is then constant
// (cost/kernel_time.h).
struct PowerDraw {
  double idle = 0;
  double products = 0;
  // The additional draw in watts, by DataType of the operands. Zero: same as `products`.
  std::array<double, kDataTypeCount> of_type{};
  double Of(DataType type) const {
    const double own = of_type[static_cast<std::size_t>(type)];
    return own == 0 ? products : own;
  }
  double memory = 0;  // total draw of memory-bound kernels; zero: unknown, the limit applies
  friend bool operator==(const PowerDraw&, const PowerDraw&) = default;
};

// The performance of one generation of fused attention with heads of size 128. A kernel of `flops`
// over sequences of length n takes
//
//   max(flops + tail x longest, longest) (1 + half_length / n) / (efficiency x peak)
//
// Sequences of length half_length reach half of the best rate. half_length represents the fixed
// cost of each block of queries: half-masked tiles on the diagonal, first loads and last stores.
//
// A thread block computes `rows` queries of one head (backward: keys) on one multiprocessor. The
// kernel takes at least as long as its longest block, whose queries attend to all keys. `longest`
// is the work that all multiprocessors can do in the time of the longest block. While the last
// blocks run, the device is not full. This phase takes the fraction `tail` of the longest block's
// time. If blocks run in any order, `tail` is 1 (Graham 1969, "Bounds on multiprocessing timing
// anomalies").
//
// Heads of size 64 and 256 reach the fractions `head_64` and `head_256` of the rate. A sliding
// window adds `forward_window_length` to half_length, because a block's keys have a second edge.
// Kernels that process several query heads of a key head in one block load fewer keys per query:
// half_length also grows by `forward_unshared_length` x key heads / query heads. Zero efficiency:
// unknown.
struct AttentionEfficiency {
  double forward = 0, backward = 0;
  double forward_half_length = 0, backward_half_length = 0;
  double forward_rows = 128, backward_rows = 128;
  double forward_tail = 0, backward_tail = 0;
  double head_64 = 1, head_256 = 1;
  double forward_window_length = 0;
  double forward_unshared_length = 0;
  Time forward_start{};  // start latency in inference (KernelSetting::serving); zero: start_latency
  friend bool operator==(const AttentionEfficiency&, const AttentionEfficiency&) = default;
};

inline constexpr std::string_view kFusedNames[] = {"flash1", "flash2", "flash3", "cudnn", "flex"};

// Measured times of kernels or copies, ascending by bytes (read and written, or copied).
using Curve = std::vector<std::pair<Bytes, Time>>;

// Measured times of causal attention, ascending by sequence length, for one data type, direction,
// head size and number of heads (over all sequences). The numbers of query heads and key heads are
// equal.
struct AttentionCurve {
  std::int64_t head_size = 0;
  std::int64_t heads = 0;
  std::vector<std::pair<std::int64_t, Time>> points;
  friend bool operator==(const AttentionCurve&, const AttentionCurve&) = default;
};

// Attention curves, sorted by head size, then by number of heads. The curves may have different
// sequence lengths.
using AttentionSurface = std::vector<AttentionCurve>;

// Measured times of m x n x k matrix multiplications of one data type, for every combination of the
// values on three ascending axes. All empty: not measured.
struct GemmSurface {
  std::vector<std::int64_t> m, n, k;
  // The time of (m[a], n[b], k[c]) is at index (a x n.size() + b) x k.size() + c.
  std::vector<Time> times;
  bool empty() const { return times.empty(); }
  Time at(std::size_t a, std::size_t b, std::size_t c) const {
    return times[(a * n.size() + b) * k.size() + c];
  }
  friend bool operator==(const GemmSurface&, const GemmSurface&) = default;
};

// The rate of batched matrix multiplications whose rows are not a multiple of 16 bytes, as a
// fraction of the aligned rate. Depends on the cuBLAS release, and thus on the PyTorch release.
// Used for attention without fused kernels.
struct UnalignedBatches {
  Version torch;                              // first release with the rates; {}: any release
  std::array<double, kDataTypeCount> rate{};  // zero: as for single multiplications
  friend bool operator==(const UnalignedBatches&, const UnalignedBatches&) = default;
};

// The costs of kernels. Efficiencies are fractions of a data sheet's peak. Surfaces and curves are
// measured times, including the start, and replace efficiencies. In a measured section, missing
// efficiencies are zero until Complete() is called.
struct KernelCosts {
  std::array<GemmEfficiency, kDataTypeCount> gemm;  // indexed by DataType
  double attention_forward_efficiency = 0;          // fraction of the data type's peak
  double attention_backward_efficiency = 0;
  double memory_efficiency = 0;  // fraction of the device memory bandwidth that kernels achieve
  // The fraction of memory_efficiency that kernels of eager PyTorch reach, by Access. Zero:
  // unknown, treated as 1. Measured kernels (memory_curve) do not use the fraction.
  std::array<double, kAccessCount> traffic{};
  // The time per token of a thread block that sums 32 columns over tokens, limited by memory
  // latency. Zero: unknown; the time is then computed from memory bandwidth.
  Time token_sum_time;
  std::array<GemmTiling, kDataTypeCount> gemm_tiling;  // indexed by DataType
  // The rate of a matrix multiplication with operand rows aligned only to 2 bytes, as a fraction of
  // the full rate (cost/kernel_time.h). Zero: unknown, no loss.
  double gemm_unaligned = 0;
  // The rate for operand rows aligned to 4 or 8 bytes, as a fraction of the full rate. Zero: each
  // halving of the alignment reduces the rate by the same factor.
  double gemm_unaligned_even = 0;
  // The rate of a matrix multiplication with result rows aligned only to 2 bytes, as a fraction of
  // the full rate. Zero: no loss.
  double gemm_unaligned_result = 0;
  // The rates of unaligned batched matrix multiplications, newest release first. Empty: unknown;
  // the fractions for single multiplications apply.
  std::vector<UnalignedBatches> batched_unaligned;
  std::array<AttentionEfficiency, std::size(kFusedNames)>
      attention;  // indexed like kFusedNames, by Kernel::flash - 1
  PowerDraw power;
  // The standard deviation of kernel times among devices of one type, divided by the typical time.
  // A step waits for the slowest device (cost/device_speed.h).
  double variation = 0;
  // The standard deviation of a kernel's time among launches on one device, divided by the mean.
  // Ranks that synchronize wait for the slowest rank (cost/jitter.h).
  double jitter = 0;
  Time start_latency;      // shortest time of any kernel on the device
  Time launch;             // host time to issue one kernel in eager mode
  Time collective_launch;  // host time to issue one collective

  // Surfaces of measured matrix multiplications, by DataType.
  std::array<GemmSurface, kDataTypeCount> gemm_surface;                 // for the forward layout
  std::array<GemmSurface, kDataTypeCount> gemm_input_gradient_surface;  // for input gradients
  // Weight gradients have FP32 results.
  std::array<GemmSurface, kDataTypeCount> gemm_weight_gradient_surface;
  std::array<AttentionSurface, kDataTypeCount> attention_forward_surface;
  std::array<AttentionSurface, kDataTypeCount> attention_backward_surface;
  Curve memory_curve;     // times of memory-bound kernels
  Curve optimizer_curve;  // times of optimizer kernels

  // Returns the surface of `layout`, or the forward surface if `layout` was not measured.
  const GemmSurface& SurfaceOf(DataType type, ProductLayout layout) const;
  // Returns whether there is a measured surface or curve. If true, efficiencies may be missing.
  bool measured() const;
};

// Measured times of copies, by bytes. Empty: not measured.
struct CopyCurves {
  Curve host_to_device, device_to_host, device_to_device;
  // The factor by which copies slow down while the opposite direction between host and device is
  // busy. Zero: not measured. The simulator does not use the factor.
  double both_ways = 0;
  friend bool operator==(const CopyCurves&, const CopyCurves&) = default;
};

// Constants of a library like NCCL with the protocol Simple, by kind of hop. The time of a hop
// inside a node includes the link's latency; the time of a network hop does not.
struct LinkCosts {
  double nvlink_efficiency = 0;  // achieved fraction of the link bandwidth in one direction
  double pcie_efficiency = 0;
  double network_efficiency = 0;
  Time ring_base, tree_base;                              // time once per collective
  Time ring_nvlink_hop, ring_pcie_hop, ring_network_hop;  // time per step over a hop
  Time tree_nvlink_hop, tree_pcie_hop, tree_network_hop;
  // The standard deviation of a collective's time among calls and groups, divided by the mean
  // (cost/jitter.h).
  double jitter = 0;
};

// Device memory outside the framework's allocator, and workspaces of libraries.
struct MemoryCosts {
  Bytes context;             // CUDA context and loaded kernels
  Bytes first_communicator;  // NCCL's first communicator
  Bytes next_communicator;   // each additional communicator
  Bytes gemm_workspace;      // cuBLAS workspace of each stream that runs matrix multiplications
};

// Measured times of one collective on one shape of group, ascending by size. Sizes are defined as
// in nccl-tests.
struct CollectiveTable {
  Location location;  // position of the table, for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::vector<std::pair<Bytes, Time>> points;
  // The 10th and 90th percentiles of the measurements, by point. May be empty.
  std::vector<std::pair<Time, Time>> quantiles{};
};

// The kind of kernel that runs concurrently with a collective.
enum class Neighbour : std::uint8_t { kGemm, kMemoryBound };
inline constexpr Neighbour kNeighbours[] = {Neighbour::kGemm, Neighbour::kMemoryBound};
constexpr std::string_view Name(Neighbour neighbour) {  // the names in files
  return neighbour == Neighbour::kGemm ? "gemm" : "memory_bound";
}

// The measured slowdowns of a kernel and a collective that run concurrently (1.1: 10 % longer). Not
// used by the simulator, whose rule (engine/shared_resources.h) slows both equally.
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
  double spread = 0;         // median over points of (median absolute deviation / median)
  double interpolation = 0;  // median over inner points of |value - interpolation| / value
  friend bool operator==(const Residual&, const Residual&) = default;
};

// Host time per kernel in addition to the launch, by framework, on the reference host
// (calibration/hosts). All profiles share these costs, which do not depend on the GPU.
// NodeType::host_speed scales the costs.
struct FrameworkCosts {
  std::string name;
  std::string host;  // description of the reference host
  std::map<std::string, Dispatch, std::less<>> dispatch;
};

// Converts a time on the reference host to a time on a host with relative speed `speed`.
Time OnHost(Time time, double speed);
Dispatch OnHost(const Dispatch& dispatch, double speed);

// The kernel costs since a PyTorch release, including values that did not change in this release.
struct KernelRelease {
  Version torch;
  KernelCosts costs;
};

class LearnedRuns;

struct Calibration {
  std::string name;
  // The GPU types for which the values are valid (topology::Gpu::name). Empty: not stated.
  std::vector<std::string> gpus;
  Location location;                                            // the profile's file, for messages
  std::vector<std::pair<std::string, std::string>> provenance;  // as in the file; not empty
  std::optional<KernelCosts> kernels;          // for releases before `kernel_releases`
  std::vector<KernelRelease> kernel_releases;  // sorted by release, ascending
  std::optional<LinkCosts> links;
  std::optional<MemoryCosts> memory;
  std::vector<CollectiveTable> collectives;
  // The published curves for this GPU type, most trusted first. Collectives without a curve use
  // `collective_law`.
  std::vector<std::shared_ptr<const CurveFile>> curves;
  std::optional<CollectiveLaw> collective_law;
  CopyCurves copies;
  std::vector<Interference> interference;
  std::vector<Residual> residuals;
  // Host costs like FrameworkCosts, but measured on this machine. These costs are not scaled, and
  // have priority over `frameworks`.
  std::map<std::string, Dispatch, std::less<>> dispatch;
  std::shared_ptr<const FrameworkCosts> frameworks;  // null: unknown costs
  // Corrections learned from measured runs (learned_runs.h). Null: no corrections.
  std::shared_ptr<const LearnedRuns> runs;

  // Returns whether the values may be valid for the GPU type `gpu`: `gpus` contains `gpu` or is
  // empty.
  bool MayHoldFor(std::string_view gpu) const;
  // Returns the costs of the newest release up to `torch`. Requires `kernels`.
  const KernelCosts& KernelsOf(Version torch) const;
};

// Fills missing values of the measured `kernels` from `defaults`: the efficiencies of attention, of
// memory, and of matrix multiplications for types without a surface. Returns the keys of the filled
// values. Start and launch times are not filled, except the launch time of collectives if only one
// rank was measured.
std::vector<std::string> Complete(const KernelCosts& defaults, KernelCosts& kernels);

}  // namespace stepcast::calibration
