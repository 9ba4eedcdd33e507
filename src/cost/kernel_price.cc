#include "src/cost/kernel_price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/cost/device_speed.h"
#include "src/cost/exact_time.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

// Smallest part of k: below this depth, pipeline fill dominates, and cuBLAS does not split further.
constexpr std::int64_t kLeastPart = 512;
constexpr std::int64_t kMostParts = 16;
// Splitting helps only if the device is not full, so it is not tried beyond this number of waves.
constexpr std::int64_t kFullWaves = 4;

double Ceiling(std::int64_t size, std::int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

}  // namespace

TiledProduct TiledArithmetic(const Kernel& product, const TileSetting& setting) {
  STEPCAST_CHECK(!setting.tiling.empty() && setting.peak > FlopRate(),
                 "a matrix multiplication must have tiles");
  const double multiprocessors = setting.multiprocessors;
  const double rate = static_cast<double>(setting.peak.flops_per_second()) * setting.rate *
                      (product.grouped ? setting.tiling.grouped : 1) / multiprocessors;
  const double outcome = static_cast<double>(product.batch) * static_cast<double>(product.m) *
                         static_cast<double>(product.n);
  const double fill = setting.tiling.fill + (product.adds_to_fp32 ? setting.tiling.add_fill : 0);
  double best = std::numeric_limits<double>::infinity();
  double wanted = 0;
  for (const calibration::GemmTile& shape : setting.tiling.tiles) {
    const std::array<std::pair<std::int64_t, std::int64_t>, 2> ways = {
        {{shape.m, shape.n}, {shape.n, shape.m}}};
    for (std::size_t way = 0; way < (shape.m == shape.n ? 1 : 2); ++way) {
      const auto [m, n] = ways[way];
      const double tiles =
          static_cast<double>(product.batch) * Ceiling(product.m, m) * Ceiling(product.n, n);
      const double tile = 2.0 * static_cast<double>(m) * static_cast<double>(n);
      for (std::int64_t parts = 1; parts <= (product.grouped ? 1 : kMostParts); parts *= 2) {
        if (parts > 1 && product.k / parts < kLeastPart) break;
        const double cut = static_cast<double>(parts);
        const double waves = std::ceil(tiles * cut / multiprocessors);
        // The part of multiprocessors that have no tile in the last of several waves.
        const double idle = waves > 1 ? waves - tiles * cut / multiprocessors : 0;
        const double depth = static_cast<double>(product.k) / cut + fill;
        double seconds = (waves - idle * (1 - setting.tiling.last_wave)) * tile * depth /
                         (rate * shape.efficiency);
        if (parts > 1) {
          seconds += setting.start_latency.seconds() +
                     8 * setting.tiling.split * outcome * cut /
                         static_cast<double>(setting.memory.bytes_per_second());
        }
        if (seconds < best) {
          best = seconds;
          wanted = std::ceil(tiles * cut / waves);
        }
        if (tiles * cut >= kFullWaves * multiprocessors) break;
      }
    }
  }
  // Rounding may make a whole number of picoseconds slightly too large; ignore this error.
  const double picoseconds = std::ceil(best * 1e12 * (1 - 1e-12));
  if (picoseconds >= static_cast<double>(kLongestTime.picoseconds())) return {kLongestTime, wanted};
  // No tile is faster than the data sheet allows, but rounding of the quotient may give slightly
  // less.
  return {std::max(Picoseconds(static_cast<std::int64_t>(picoseconds)),
                   TimeOf(product.flops, setting.peak)),
          wanted};
}

namespace {

using calibration::AttentionEfficiency;

struct Roofline {
  Time arithmetic;
  Time traffic;
};

// `overlap`: as in GemmTiling.
Time WorkOf(const Roofline& roofline, double overlap) {
  const auto [less, more] = std::minmax(roofline.arithmetic, roofline.traffic);
  if (overlap == 0 || less == Time()) return more;
  return ScaledTime(more, std::pow(1 + std::pow(less / more, overlap), 1 / overlap));
}

Time TrafficTime(const Kernel& kernel, Bandwidth bandwidth) {
  return TimeOf({1, 1}, kernel.read + kernel.written, bandwidth);
}

Time VectorTime(const Kernel& kernel, const topology::Gpu& gpu) {
  const FlopRate peak = gpu.PeakOf(DataType::kFp32);
  if (peak == FlopRate()) return Time();
  return TimeOf(kernel.flops, peak);
}

double& ShareOf(Demand& demand, Resource resource) {
  return demand.share[static_cast<std::size_t>(resource)];
}

// The measured curve for this kind of kernel; null if there is no curve.
const calibration::Curve* MeasuredCurve(const Kernel& kernel,
                                        const calibration::KernelCosts& costs) {
  const bool optimizer = kernel.kind == KernelKind::kOptimizer && !costs.optimizer_curve.empty();
  const calibration::Curve& curve = optimizer ? costs.optimizer_curve : costs.memory_curve;
  return curve.empty() ? nullptr : &curve;
}

// The fraction of its clock that the device sustains in a long run of kernels at the fraction
// `part` of the best products' rate. Their power draw is lower in proportion: idle or otherwise
// occupied multiprocessors draw little.
double ClockAt(double part, DataType type, const KernelSetting& setting) {
  const calibration::PowerDraw& power = setting.costs.power;
  return SustainedClock({.idle = power.idle, .products = power.Of(type) * std::min(1.0, part)},
                        setting.limit_watts);
}

// Duration, in a long run, of a product or attention core that takes `short_run` at full clock.
Time LongRun(const Kernel& kernel, Time short_run, const KernelSetting& setting) {
  const double best = BestProductRate(kernel, setting);
  if (best == 0 || short_run == Time()) return short_run;
  const double rate = static_cast<double>(kernel.flops) / short_run.seconds();
  const double clock = ClockAt(rate / best, kernel.data_type, setting);
  return clock < 1 ? ScaledTime(short_run, 1 / clock) : short_run;
}

// PyTorch's FlexAttention: its rate relative to FlashAttention-2, "90 % of FlashAttention2's
// performance in the forward pass and 85 % in the backward pass" (PyTorch's blog of 2024-08-07,
// "FlexAttention: The Flexibility of PyTorch with the Performance of FlashAttention"). Its mask
// blocks are 128 queries by 128 keys, and blocks cut by a mask are computed whole. So are
// FlashAttention-2's tiles, which half_length models.
constexpr std::uint8_t kFlash2 = 2, kFlex = 5;
double PartOfFlash2(const Kernel& kernel) {
  return kernel.kind == KernelKind::kAttention ? 0.9 : 0.85;
}

std::optional<MeasuredTime> FindMeasured(const Kernel& kernel, const KernelSetting& setting) {
  const calibration::KernelCosts& costs = setting.costs;
  const auto type = static_cast<std::size_t>(kernel.data_type);
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      const calibration::GemmSurface& surface = costs.SurfaceOf(kernel.data_type, kernel.layout);
      if (surface.empty()) return std::nullopt;
      MeasuredTime measured = TimeFromSurface(surface, kernel.batch * kernel.m, kernel.n, kernel.k);
      measured.time = LongRun(kernel, measured.time, setting);
      return measured;
    }
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient: {
      const calibration::AttentionSurface& surface = kernel.kind == KernelKind::kAttention
                                                         ? costs.attention_forward_surface[type]
                                                         : costs.attention_backward_surface[type];
      if (surface.empty()) return std::nullopt;
      MeasuredTime measured = TimeOfAttention(surface, kernel, setting.gpu.multiprocessors);
      if (kernel.flash == kFlex)
        measured.time = ScaledTime(measured.time, 1 / PartOfFlash2(kernel));
      if (kernel.rate < 1) measured.time = ScaledTime(measured.time, 1 / kernel.rate);
      return measured;
    }
    case KernelKind::kMemoryBound:
    case KernelKind::kOptimizer: {
      const calibration::Curve* curve = MeasuredCurve(kernel, costs);
      if (curve == nullptr) return std::nullopt;
      const Bytes moved = kernel.read + kernel.written;
      MeasuredTime measured = TimeFromCurve(*curve, moved);
      // An extrapolated line must not become faster than the memory.
      if (moved > curve->back().first) {
        measured.time = std::max(measured.time, TrafficTime(kernel, setting.gpu.memory_bandwidth));
      }
      return measured;
    }
    case KernelKind::kGiven:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      break;
  }
  return std::nullopt;
}

// The speed of a scan: the fraction of the products' peak when it fills the device, at most `most`
// FLOP/s; the time of one chunk of a sequence, which more parallelism cannot shorten; and its
// number of kernels.
struct ScanSpeed {
  double part = 0, most = 0;
  double step_seconds = 0;
  std::int64_t launches = 1;
};

// Measured on H200 (flash-linear-attention's Triton kernels, head sizes of 128): the delta rule
// reaches 100 TFLOP/s forward and 86 backward, and no more on GB200; 8 heads of one sequence take
// 1.8 us a chunk. By channel it reaches 52 on H200 and 70 on GB200, and backward takes 3.3 times as
// long as forward. Assumed: the steps of backward, which passes over the chunks twice; and all of
// Mamba-2, whose states pass on elementwise and of which no kernel was measured. Assumed, too:
// Mamba-1. Its kernel has one exponential for each 9 FLOPs, and the peak of FP32 is 16 times the
// rate of exponentials, so that at most 0.56 of the peak can be reached.
ScanSpeed SpeedOf(const Kernel& kernel) {
  const bool forward = kernel.kind == KernelKind::kScan;
  switch (kernel.scan) {
    case ScanKind::kDelta:
      return forward ? ScanSpeed{0.10, 100e12, 1.8e-6, 6} : ScanSpeed{0.087, 86e12, 4e-6, 10};
    case ScanKind::kDeltaByChannel:
      return forward ? ScanSpeed{0.053, 70e12, 1.8e-6, 8} : ScanSpeed{0.043, 57e12, 4e-6, 12};
    case ScanKind::kSelective:
      return forward ? ScanSpeed{0.25, 100e12, 10e-6, 1} : ScanSpeed{0.25, 100e12, 25e-6, 1};
    case ScanKind::kStateSpace:
      break;
  }
  return forward ? ScanSpeed{0.10, 100e12, 0.3e-6, 5} : ScanSpeed{0.087, 86e12, 0.6e-6, 9};
}

Time ScanTime(const Kernel& kernel, FlopRate peak) {
  const ScanSpeed speed = SpeedOf(kernel);
  const double rate =
      std::min(speed.part * static_cast<double>(peak.flops_per_second()), speed.most);
  const double seconds = std::max(static_cast<double>(kernel.flops) / rate,
                                  static_cast<double>(kernel.steps) * speed.step_seconds);
  const double picoseconds = std::ceil(seconds * 1e12);
  if (picoseconds >= static_cast<double>(kLongestTime.picoseconds())) return kLongestTime;
  return Picoseconds(static_cast<std::int64_t>(picoseconds));
}

// The rate for heads of this size relative to heads of 128; between known sizes, interpolated over
// the logarithm of the size.
double RateOfHeads(const AttentionEfficiency& attention, std::int64_t size) {
  if (size <= 0) return 1;
  const double doublings = std::clamp(std::log2(static_cast<double>(size) / 128), -1.0, 1.0);
  return doublings < 0 ? std::pow(attention.head_64, -doublings)
                       : std::pow(attention.head_256, doublings);
}

// Mean number of keys per query: all n; if the kernel is causal, half of the preceding keys, or a
// window of n.
double SeenKeys(const Kernel& kernel) {
  const auto keys = static_cast<double>(kernel.n);
  return kernel.causal ? keys - keys * keys / (2 * static_cast<double>(kernel.m)) : keys;
}

// One direction of a generation of fused attention (calibration.h, AttentionEfficiency).
struct AttentionDirection {
  double efficiency = 0;  // for heads of the kernel's size; zero: not known
  double half_length = 0;
  double rows = 128;
  double tail = 0;
  double window_length = 0;
  double unshared_length = 0;
  Time serving_start{};  // zero: as every kernel
};

AttentionDirection DirectionOf(const Kernel& kernel, const calibration::KernelCosts& costs) {
  const bool forward = kernel.kind == KernelKind::kAttention;
  constexpr std::uint8_t kCudnn = 4;
  const bool unknown = (kernel.flash == kCudnn || kernel.flash == kFlex) &&
                       costs.attention[kernel.flash - 1].forward == 0;
  const std::uint8_t flash = unknown ? kFlash2 : kernel.flash;
  const double part = unknown && kernel.flash == kFlex ? PartOfFlash2(kernel) : 1;
  const AttentionEfficiency& own = costs.attention[flash - 1];
  if (own.forward != 0) {
    const double rate = part * kernel.rate * RateOfHeads(own, kernel.k);
    return forward ? AttentionDirection{own.forward * rate,        own.forward_half_length,
                                        own.forward_rows,          own.forward_tail,
                                        own.forward_window_length, own.forward_unshared_length,
                                        own.forward_start}
                   : AttentionDirection{own.backward * rate, own.backward_half_length,
                                        own.backward_rows, own.backward_tail};
  }
  if (flash != kFlash2) return {};
  return {.efficiency =
              part * kernel.rate *
              (forward ? costs.attention_forward_efficiency : costs.attention_backward_efficiency)};
}

// The kernel's time, expressed as flops at the rate of a full device and long sequences.
double AttentionFlops(const Kernel& kernel, const AttentionDirection& direction,
                      int multiprocessors) {
  const auto flops = static_cast<double>(kernel.flops);
  if (kernel.m == 0) return flops;
  const double seen = SeenKeys(kernel);
  const auto queries = static_cast<double>(kernel.m);
  // The longest block exceeds the mean by as much as its queries see more keys than average.
  const double longest = flops * multiprocessors * std::min(direction.rows, queries) /
                         (static_cast<double>(kernel.batch) * queries) *
                         (static_cast<double>(kernel.n) / seen);
  const bool window = kernel.causal && kernel.n < kernel.m;
  const double unshared = kernel.key_heads == 0 ? 1
                                                : static_cast<double>(kernel.key_heads) /
                                                      static_cast<double>(kernel.batch);
  const double half_length = direction.half_length + direction.unshared_length * unshared +
                             (window ? direction.window_length : 0);
  return std::max(flops + direction.tail * longest, longest) * (1 + half_length / (2 * seen));
}

// A lower bound for the time of sums over tokens.
Time TokenSums(const Kernel& kernel, const KernelSetting& setting) {
  if (kernel.summed_tokens == 0) return Time();
  constexpr std::int64_t kColumns = 32;
  const std::int64_t blocks = (kernel.summed_columns + kColumns - 1) / kColumns;
  const std::int64_t width = std::max<std::int64_t>(1, setting.gpu.multiprocessors);
  return ScaledTime(setting.costs.token_sum_time, kernel.summed_tokens * std::max(blocks, width),
                    width);
}

// The time of kernels whose multiprocessors are slower than the memory.
Time AccessTime(const Kernel& kernel, Bandwidth achieved, const KernelSetting& setting) {
  const double part = setting.costs.traffic[static_cast<std::size_t>(kernel.access)];
  return part == 0 ? Time() : TrafficTime(kernel, Achieved(achieved, part));
}

// The time of the kernel's memory traffic, if the profile has it.
Time AchievedTraffic(const Kernel& kernel, const KernelSetting& setting) {
  const calibration::KernelCosts& costs = setting.costs;
  if (const calibration::Curve* curve = MeasuredCurve(kernel, costs)) {
    const Time time = TimeFromCurve(*curve, kernel.read + kernel.written).time;
    return time - std::min(time, costs.start_latency);
  }
  if (costs.memory_efficiency == 0) return Time();
  return TrafficTime(kernel, Achieved(setting.gpu.memory_bandwidth, costs.memory_efficiency));
}

// Whether the library's products have one persistent thread block per multiprocessor rather than
// one block per tile. cuBLAS's for Hopper do.
bool HasPersistentProducts(const topology::Gpu& gpu) { return gpu.compute_capability / 10 == 9; }

// Multiprocessors of a product without known tiles, counted as by TiledArithmetic with tiles of 256
// x 128, the largest of Hopper's profiles.
double MultiprocessorsOf(const Kernel& product, const topology::Gpu& gpu) {
  const auto multiprocessors = static_cast<double>(gpu.multiprocessors);
  if (product.m == 0 || product.n == 0) return multiprocessors;
  const auto [n, m] = std::minmax(product.m, product.n);
  const double tiles = static_cast<double>(product.batch) *
                       std::ceil(static_cast<double>(m) / 256) *
                       std::ceil(static_cast<double>(n) / 128);
  return std::ceil(tiles / std::ceil(tiles / multiprocessors));
}

// Whether kernels for all experts read their weights at `kStreamedWeights`: the tensor memory
// accelerator of Hopper and Blackwell with HBM copies whole tiles ahead of the arithmetic.
bool StreamsWeights(const topology::Gpu& gpu) {
  constexpr int kHopper = 9, kBlackwell = 10;
  const int major = gpu.compute_capability / 10;
  return major == kHopper || major == kBlackwell;
}

// The fraction of the memory's bandwidth that these kernels reach, if elementwise kernels do not
// reach more. One figure for all types and sizes, fitted to the layers of experts of six GPU types
// (docs/accuracy/kernels.md). The best fractions of single GPU and data types are 0.85 and 0.86 on
// Hopper, and 0.82 to 0.95 on Blackwell.
constexpr double kStreamedWeights = 0.85;

void MakePersistent(Demand& product, double wanted, const topology::Gpu& gpu) {
  product.occupancy = Occupancy::kPersistent;
  ShareOf(product, Resource::kCompute) = wanted / gpu.multiprocessors;
}

Demand PriceMeasured(const Kernel& kernel, const MeasuredTime& measured,
                     const KernelSetting& setting) {
  Demand demand = DemandOf(measured, setting.costs.start_latency, setting.start_latency);
  if (demand.work == Time()) return demand;
  const bool arithmetic = IsArithmetic(kernel.kind);
  const Time other =
      arithmetic ? AchievedTraffic(kernel, setting) : VectorTime(kernel, setting.gpu);
  const double part = std::min(1.0, other / demand.work);
  ShareOf(demand, Resource::kCompute) = arithmetic ? 1 : part;
  ShareOf(demand, Resource::kMemory) = arithmetic ? part : 1;
  if (kernel.kind == KernelKind::kGemm && HasPersistentProducts(setting.gpu)) {
    MakePersistent(demand, MultiprocessorsOf(kernel, setting.gpu), setting.gpu);
  }
  return demand;
}

}  // namespace

bool IsArithmetic(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kAttention ||
         kind == KernelKind::kAttentionGradient;
}

double BestProductRate(const Kernel& kernel, const KernelSetting& setting) {
  const calibration::KernelCosts& costs = setting.costs;
  const auto type = static_cast<std::size_t>(kernel.data_type);
  const calibration::GemmSurface& surface = costs.SurfaceOf(
      kernel.data_type, kernel.kind == KernelKind::kGemm ? kernel.layout : ProductLayout::kForward);
  if (!surface.empty()) {
    return 2.0 * static_cast<double>(surface.m.back()) * static_cast<double>(surface.n.back()) *
           static_cast<double>(surface.k.back()) / surface.times.back().seconds();
  }
  double best = costs.gemm[type].max_efficiency;
  for (const calibration::GemmTile& tile : costs.gemm_tiling[type].tiles) {
    best = std::max(best, tile.efficiency);
  }
  return best * static_cast<double>(setting.gpu.PeakOf(kernel.data_type).flops_per_second());
}

Demand PriceGivenKernel(const Kernel& kernel) {
  STEPCAST_CHECK(kernel.kind == KernelKind::kGiven,
                 "only a kernel of kind kGiven has a fixed duration");
  Demand demand;
  demand.work = kernel.given;
  demand.provenance = Provenance::kGiven;
  if (!kernel.on_host) ShareOf(demand, Resource::kCompute) = 1;
  return demand;
}

namespace {

// `rate`: remaining fraction of the arithmetic's rate (kernel_time.h).
tl::expected<Demand, KernelFault> PriceAtRate(const Kernel& kernel, const KernelSetting& setting,
                                              double rate) {
  const topology::Gpu& gpu = setting.gpu;
  const calibration::KernelCosts& costs = setting.costs;
  const FlopRate peak = gpu.PeakOf(kernel.data_type);
  if (auto measured = FindMeasured(kernel, setting)) {
    if (rate < 1) measured->time = ScaledTime(measured->time, 1 / rate);
    return PriceMeasured(kernel, *measured, setting);
  }

  const double memory_efficiency = costs.memory_efficiency;
  if (memory_efficiency == 0 && !IsArithmetic(kernel.kind)) {
    return tl::unexpected(KernelFault::kNoEfficiency);
  }
  const Bandwidth bandwidth = memory_efficiency == 0
                                  ? gpu.memory_bandwidth  // the arithmetic rules
                                  : Achieved(gpu.memory_bandwidth, memory_efficiency);
  Roofline roofline;
  Time start_latency = costs.start_latency;
  double wanted = 0;   // multiprocessors of a product
  double overlap = 0;  // of its arithmetic and traffic
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      const auto& tiling = costs.gemm_tiling[static_cast<std::size_t>(kernel.data_type)];
      if (peak != FlopRate() && !tiling.empty()) {
        const TiledProduct tiled = TiledArithmetic(kernel, {.tiling = tiling,
                                                            .peak = peak,
                                                            .multiprocessors = gpu.multiprocessors,
                                                            .memory = bandwidth,
                                                            .start_latency = costs.start_latency,
                                                            .rate = rate});
        roofline.arithmetic = LongRun(kernel, tiled.time, setting);
        wanted = tiled.multiprocessors;
        start_latency = tiling.start;
        overlap = tiling.overlap;
        break;
      }
      const auto& gemm = costs.gemm[static_cast<std::size_t>(kernel.data_type)];
      if (peak == FlopRate()) return tl::unexpected(KernelFault::kNoPeak);
      if (gemm.max_efficiency == 0) return tl::unexpected(KernelFault::kNoEfficiency);
      const Time short_run =
          TimeOf(kernel.flops + static_cast<std::int64_t>(std::llround(gemm.half_flops)),
                 Achieved(peak, gemm.max_efficiency * rate));
      roofline.arithmetic = LongRun(kernel, short_run, setting);
      wanted = MultiprocessorsOf(kernel, gpu);
      break;
    }
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      if (peak == FlopRate()) return tl::unexpected(KernelFault::kNoPeak);
      {
        const AttentionDirection direction = DirectionOf(kernel, costs);
        if (direction.efficiency == 0) return tl::unexpected(KernelFault::kNoEfficiency);
        const double flops = AttentionFlops(kernel, direction, gpu.multiprocessors);
        const Time short_run =
            TimeFor(static_cast<std::int64_t>(std::ceil(flops)), peak.Scaled(direction.efficiency));
        roofline.arithmetic = LongRun(kernel, short_run, setting);
        if (setting.serving && direction.serving_start > Time()) {
          start_latency = direction.serving_start;
        }
        break;
      }
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      if (peak == FlopRate()) return tl::unexpected(KernelFault::kNoPeak);
      roofline.arithmetic = ScanTime(kernel, peak);
      start_latency = SpeedOf(kernel).launches * costs.start_latency;
      break;
    case KernelKind::kMemoryBound:
    case KernelKind::kOptimizer:
    case KernelKind::kGiven:
      roofline.arithmetic = std::max({VectorTime(kernel, gpu), TokenSums(kernel, setting),
                                      AccessTime(kernel, bandwidth, setting)});
      break;
  }
  roofline.traffic = TrafficTime(
      kernel, kernel.grouped && StreamsWeights(gpu)
                  ? Achieved(gpu.memory_bandwidth, std::max(memory_efficiency, kStreamedWeights))
                  : bandwidth);

  Demand demand;
  demand.latency = setting.start_latency ? start_latency : Time();
  demand.work = WorkOf(roofline, overlap);
  if (demand.work > Time()) {
    ShareOf(demand, Resource::kCompute) = roofline.arithmetic / demand.work;
    ShareOf(demand, Resource::kMemory) = roofline.traffic / demand.work;
    if (kernel.kind == KernelKind::kGemm && HasPersistentProducts(gpu)) {
      MakePersistent(demand, wanted, gpu);
    }
  }
  STEPCAST_CHECK(demand.work >= TrafficTime(kernel, gpu.memory_bandwidth),
                 "a kernel must not be faster than the device's memory");
  STEPCAST_CHECK(peak == FlopRate() || demand.work >= TimeOf(kernel.flops, peak) ||
                     kernel.kind == KernelKind::kMemoryBound ||
                     kernel.kind == KernelKind::kOptimizer,
                 "a kernel must not be faster than the device's peak");
  return demand;
}

// Concurrent matrix multiplications: each has an equal part of the total time.
tl::expected<Demand, KernelFault> PriceTogether(const Kernel& kernel,
                                                const KernelSetting& setting) {
  const std::int64_t count = kernel.together;
  Kernel all = kernel;
  all.together = 1;
  all.batch *= count;
  all.flops *= count;
  all.read = count * all.read;
  all.written = count * all.written;
  auto demand = PriceKernel(all, setting);
  if (!demand) return demand;
  demand->latency = ScaledTime(demand->latency, 1, count);
  demand->work = ScaledTime(demand->work, 1, count);
  return demand;
}

}  // namespace

tl::expected<Demand, KernelFault> PriceKernel(const Kernel& kernel, const KernelSetting& setting) {
  if (kernel.kind == KernelKind::kGiven) return PriceGivenKernel(kernel);
  if (kernel.together > 1) return PriceTogether(kernel, setting);
  const double rate =
      kernel.kind == KernelKind::kGemm ? UnalignedRate(kernel, setting.costs, setting.torch) : 1;
  auto own = PriceAtRate(kernel, setting, rate);
  if (rate == 1 || !own || kernel.issuer != Issuer::kFramework) return own;
  // A compiled graph pads rows if padding is faster.
  const PaddedProduct filled = Padded(kernel);
  auto padded = PriceAtRate(filled.product, setting, 1);
  if (!padded) return own;
  const Kernel copies{.kind = KernelKind::kMemoryBound, .read = filled.copied};
  const auto copied = PriceAtRate(copies, setting, 1);
  if (!copied) return own;
  const Time whole = padded->work + copied->latency + copied->work;
  if (padded->latency + whole >= own->latency + own->work) return own;
  for (double& share : padded->share) share *= padded->work / whole;
  double& memory = ShareOf(*padded, Resource::kMemory);
  memory = std::min(1.0, memory + copied->work / whole);
  padded->work = whole;
  return padded;
}

}  // namespace stepcast::cost
