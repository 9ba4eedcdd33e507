#include "src/calibrate/calibrate.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/calibrate/benchmark_programs.h"
#include "src/calibrate/fits.h"
#include "src/calibrate/groups.h"
#include "src/calibrate/profile_values.h"
#include "src/calibration/plausible.h"

namespace stepcast::calibrate {
namespace {

using calibration::Calibration;
using runtime::Attempt;
using runtime::Failure;
using Results = std::vector<std::pair<std::int64_t, Summary>>;

// How thorough a calibration is.
struct Effort {
  Repetition kernels;
  Repetition collectives;
  Time longest_kernel;
  Time kernel_budget;  // of one curve
  Time longest_collective;
  std::int64_t largest_bytes;    // of curves over bytes
  std::int64_t largest_product;  // of m, n and k
};

Effort QuickEffort() {
  return {.kernels = {.least = 5, .most = 30, .uncertainty = 0.02, .limit = Milliseconds(100)},
          .collectives = {.least = 7, .most = 60, .uncertainty = 0.02, .limit = Milliseconds(600)},
          .longest_kernel = Milliseconds(30),
          .kernel_budget = Seconds(2),
          .longest_collective = Seconds(10),
          .largest_bytes = std::int64_t{64} << 20,
          .largest_product = 4096};
}

Effort ThoroughEffort() {
  return {.kernels = {.least = 10, .most = 300, .uncertainty = 0.005, .limit = Seconds(1)},
          .collectives = {.least = 15, .most = 300, .uncertainty = 0.01, .limit = Seconds(3)},
          .longest_kernel = Milliseconds(500),
          .kernel_budget = Seconds(20),
          .longest_collective = Seconds(20),
          .largest_bytes = std::int64_t{512} << 20,
          .largest_product = 8192};
}

constexpr Time kQuickTime = Seconds(90);
constexpr Time kThoroughTime = Seconds(20 * 60);

Time TimeOf(const Options& options) {
  if (options.time > Time()) return options.time;
  return options.quick ? kQuickTime : kThoroughTime;
}

bool IsCoarse(const Options& options) {
  return options.quick || TimeOf(options) < Seconds(10 * 60);
}

std::string ShowBytes(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }
std::string ShowParameters(std::int64_t count) { return fmt::format("{} parameters", count); }
std::string ShowSequence(std::int64_t length) { return fmt::format("sequence of {}", length); }

constexpr int kChain = 4;  // samples of a kernel in one step

Bytes RoundedTo(Bytes unit, double bytes) {
  const auto units = std::llround(bytes / static_cast<double>(unit.count()));
  return unit * std::max<std::int64_t>(units, 1);
}

std::vector<std::int64_t> PowersOfTwo(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = from; value <= to; value *= 2) values.push_back(value);
  return values;
}

class Calibrator {
 public:
  Calibrator(Session& session, const Options& options, std::vector<int> node_of_rank)
      : session_(session),
        options_(options),
        node_of_rank_(std::move(node_of_rank)),
        effort_(IsCoarse(options) ? QuickEffort() : ThoroughEffort()) {}

  Attempt<Outcome> Run();

 private:
  bool Wants(Part part) const {
    return options_.parts.empty() ||
           std::find(options_.parts.begin(), options_.parts.end(), part) != options_.parts.end();
  }
  bool WantsKernels() const {
    return Wants(Part::kLaunch) || Wants(Part::kMemory) || Wants(Part::kGemm) ||
           Wants(Part::kAttention) || Wants(Part::kOptimizer);
  }
  int rank() const { return session_.job().place().rank; }
  int ranks() const { return static_cast<int>(node_of_rank_.size()); }
  std::vector<int> AllRanks() const {
    std::vector<int> all;
    for (int rank = 0; rank < ranks(); ++rank) all.push_back(rank);
    return all;
  }
  calibration::KernelCosts& kernels() {
    if (!outcome_.profile.kernels) outcome_.profile.kernels.emplace();
    return *outcome_.profile.kernels;
  }
  std::vector<DataType> Types() const {
    if (!options_.types.empty()) return options_.types;
    return {DataType::kFp32, DataType::kBf16};
  }

  Attempt<void> MeasurePart(Part part);
  Attempt<void> MeasureReference();
  Attempt<void> MeasureLaunch();
  Attempt<void> MeasureMemory();
  Attempt<void> MeasureGemm(DataType type, ProductLayout layout);
  Attempt<void> MeasureSustainedClock();
  Attempt<void> MeasureAttention(DataType type, KernelKind kind);
  Attempt<calibration::AttentionCurve> MeasureAttentionCurve(DataType type, KernelKind kind,
                                                             std::int64_t head_size,
                                                             std::int64_t heads);
  Attempt<void> MeasureOptimizer();
  Attempt<void> MeasureCopies(program::CopyDirection direction, calibration::Curve& curve);
  Attempt<void> MeasureBothWays();
  Attempt<void> MeasureCollectives();
  Attempt<double> CollectiveBudget();
  Attempt<void> MeasureTable(CollectiveKind kind, const GroupShape& shape, Time budget,
                             double& spent);
  Attempt<void> MeasureInterference();
  Attempt<void> MeasureInterferenceOf(calibration::Neighbour neighbour, CollectiveKind kind);

  // Results over bytes as a curve of the profile; also kept for residuals and fits.
  calibration::Curve CurveOf(const std::string& part, const std::string& what,
                             const Results& results, Between between);
  void Describe();
  void NoticeDrift();
  void NoteHealth(const char* when);

  std::vector<Bytes> CollectiveSizes(int ranks) const;
  std::vector<CollectiveKind> Kinds() const;

  Session& session_;
  const Options& options_;
  std::vector<int> node_of_rank_;
  Effort effort_;
  Outcome outcome_;
  ResidualNotes residuals_;
  std::vector<double> reference_;
};

calibration::Curve Calibrator::CurveOf(const std::string& part, const std::string& what,
                                       const Results& results, Between between) {
  residuals_.Add(part, results, between);
  if (results.size() > 1) outcome_.fits.push_back(FitOf(what, results));
  calibration::Curve curve;
  const std::vector<Time> times = TimesOf(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    curve.emplace_back(Bytes(results[i].first), times[i]);
  }
  return curve;
}

// The same work again and again through the calibration: what it takes should not change. A
// product, because clocks change its time, and that of memory traffic hardly.
Attempt<void> Calibrator::MeasureReference() {
  const std::string key = fmt::format("the reference kernel, time {}", reference_.size() + 1);
  Repetition repetition = effort_.kernels;
  repetition.uncertainty = 0.01;
  const auto summary =
      session_.Measure({key}, repetition, Time(), [&](const std::vector<std::size_t>&) {
        constexpr std::int64_t kSize = 512;  // what a host multiplies in milliseconds
        return KernelBenchmark({Product(Types().back(), kSize, kSize, kSize)}, 10);
      });
  if (!summary) return tl::unexpected(summary.error());
  reference_.push_back(summary->front().median);
  return {};
}

Attempt<void> Calibrator::MeasureLaunch() {
  const std::vector<int> all = AllRanks();
  std::vector<std::string> keys = {"kernel start", "kernel issue"};
  const bool communicates = ranks() > 1;
  if (communicates) keys.emplace_back("collective issue");
  const auto summaries =
      session_.Measure(keys, effort_.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
        return Reordered(LaunchBenchmark(all), wanted);
      });
  if (!summaries) return tl::unexpected(summaries.error());
  kernels().start_latency = RoundedTime((*summaries)[0].median);
  kernels().launch = RoundedTime((*summaries)[1].median);
  if (communicates) kernels().collective_launch = RoundedTime((*summaries)[2].median);
  return {};
}

Attempt<void> Calibrator::MeasureMemory() {
  const auto results = session_.Climb({.what = "memory-bound kernels",
                                       .sizes = PowersOfTwo(4096, effort_.largest_bytes),
                                       .show = ShowBytes,
                                       .first = 6,
                                       .next = 2,
                                       .longest = effort_.longest_kernel,
                                       .budget = effort_.kernel_budget},
                                      effort_.kernels, [](const std::vector<std::int64_t>& sizes) {
                                        std::vector<Kernel> kernels;
                                        for (const std::int64_t size : sizes)
                                          kernels.push_back(MemoryKernel(Bytes(size)));
                                        return KernelBenchmark(kernels, kChain);
                                      });
  if (!results) return tl::unexpected(results.error());
  kernels().memory_curve =
      CurveOf("memory_bound", "memory-bound kernels", *results, Between::kLinear);
  return {};
}

Attempt<void> Calibrator::MeasureGemm(DataType type, ProductLayout layout) {
  const char* of = layout == ProductLayout::kInputGradient    ? " for inputs' gradients"
                   : layout == ProductLayout::kWeightGradient ? " for weights' gradients"
                                                              : "";
  const auto key = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return fmt::format("products in {}{}, {} x {} x {}", Name(type), of, m, n, k);
  };
  // How far the grid goes: cubes until one takes too long.
  constexpr std::int64_t kSmallest = 32;
  std::vector<std::int64_t> axis;
  double last = 0;
  for (const std::int64_t size : PowersOfTwo(kSmallest, effort_.largest_product)) {
    if (8 * last > effort_.longest_kernel.seconds()) break;  // eight times the flops
    const auto summary = session_.Measure(
        {key(size, size, size)}, effort_.kernels, Time(), [&](const std::vector<std::size_t>&) {
          return KernelBenchmark({Product(type, size, size, size, layout)}, kChain);
        });
    if (!summary) return tl::unexpected(summary.error());
    axis.push_back(size);
    last = summary->front().median;
  }

  struct Shape {
    std::int64_t m, n, k;
  };
  std::vector<Shape> shapes;
  for (const std::int64_t m : axis) {
    for (const std::int64_t n : axis) {
      for (const std::int64_t k : axis) shapes.push_back({m, n, k});
    }
  }
  std::vector<Summary> summaries;
  constexpr std::size_t kTogether = 32;
  for (std::size_t begin = 0; begin < shapes.size(); begin += kTogether) {
    const std::size_t end = std::min(begin + kTogether, shapes.size());
    std::vector<std::string> keys;
    for (std::size_t i = begin; i < end; ++i) {
      keys.push_back(key(shapes[i].m, shapes[i].n, shapes[i].k));
    }
    const auto batch = session_.Measure(
        keys, effort_.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
          std::vector<Kernel> kernels;
          for (const std::size_t i : wanted) {
            const Shape& shape = shapes[begin + i];
            kernels.push_back(Product(type, shape.m, shape.n, shape.k, layout));
          }
          return KernelBenchmark(kernels, kChain);
        });
    if (!batch) return tl::unexpected(batch.error());
    summaries.insert(summaries.end(), batch->begin(), batch->end());
  }
  auto& surfaces = layout == ProductLayout::kInputGradient ? kernels().gemm_input_gradient_surface
                   : layout == ProductLayout::kWeightGradient
                       ? kernels().gemm_weight_gradient_surface
                       : kernels().gemm_surface;
  calibration::GemmSurface& surface = surfaces[static_cast<std::size_t>(type)];
  surface = {.m = axis, .n = axis, .k = axis, .times = {}};
  for (const Summary& summary : summaries) surface.times.push_back(RoundedTime(summary.median));
  residuals_.AddSurface("gemm", surface, summaries);
  return {};
}

// Products in a short measurement run at a clock that the board's power does not allow for long.
// What a long run holds, as the draw at full clock that would lead to it (cost::SustainedClock):
// clock = cube root of (limit - idle) / products.
Attempt<void> Calibrator::MeasureSustainedClock() {
  if (!options_.health) return {};
  const auto told = [&](int runtime::DeviceHealth::*figure) {
    const std::optional<runtime::DeviceHealth> health = options_.health();
    return health ? std::max(1.0, static_cast<double>((*health).*figure)) : 1.0;
  };
  const auto limit = session_.Settle("watts that the board may draw",
                                     [&] { return told(&runtime::DeviceHealth::limit_watts); });
  if (!limit) return tl::unexpected(limit.error());
  const auto idle = session_.Settle("watts that the board draws between measurements", [&] {
    return std::min(told(&runtime::DeviceHealth::watts), 0.5 * *limit);
  });
  if (!idle) return tl::unexpected(idle.error());
  constexpr double kNotTold = 1;
  if (*limit <= kNotTold) return {};

  constexpr std::int64_t kSize = 8192;
  constexpr double kSeconds = 12;
  const DataType type = Types().back();
  const auto measure = [&](const char* what, int repetitions) {
    const Repetition once{.least = 1, .most = 1, .uncertainty = 1, .limit = Seconds(30)};
    return session_.Measure({what}, once, Time(), [&](const std::vector<std::size_t>&) {
      return KernelBenchmark({Product(type, kSize, kSize, kSize)}, repetitions);
    });
  };
  const auto burst = measure("a few large products", kChain);
  if (!burst) return tl::unexpected(burst.error());
  const double each = burst->front().median;
  const auto sustained =
      measure("large products for a while",
              static_cast<int>(std::clamp(kSeconds / each, double{kChain}, 50'000.0)));
  if (!sustained) return tl::unexpected(sustained.error());
  const double clock = std::min(1.0, each / sustained->front().median);
  kernels().power = {.idle = std::round(*idle),
                     .products = std::round((*limit - *idle) / std::pow(clock, 3))};
  outcome_.profile.provenance.emplace_back(
      "sustained_clock",
      fmt::format("{:.3f} of that of a few products, after {:.0f} s at up to {} W", clock, kSeconds,
                  *limit));
  return {};
}

// Heads of all sequences of a micro-batch together: from what leaves a GPU's multiprocessors idle
// to what keeps them busy, with the sizes of heads that models have.
constexpr std::int64_t kHeadSizes[] = {64, 128};
constexpr std::int64_t kHeads[] = {2, 16, 128};

Attempt<void> Calibrator::MeasureAttention(DataType type, KernelKind kind) {
  auto& surfaces = kind == KernelKind::kAttention ? kernels().attention_forward_surface
                                                  : kernels().attention_backward_surface;
  for (const std::int64_t head_size : kHeadSizes) {
    for (const std::int64_t heads : kHeads) {
      auto curve = MeasureAttentionCurve(type, kind, head_size, heads);
      if (!curve) return tl::unexpected(curve.error());
      surfaces[static_cast<std::size_t>(type)].push_back(std::move(*curve));
    }
  }
  return {};
}

Attempt<calibration::AttentionCurve> Calibrator::MeasureAttentionCurve(DataType type,
                                                                       KernelKind kind,
                                                                       std::int64_t head_size,
                                                                       std::int64_t heads) {
  const auto results = session_.Climb(
      {.what = fmt::format("attention {} in {}, {} heads of {}",
                           kind == KernelKind::kAttention ? "forward" : "backward", Name(type),
                           heads, head_size),
       .sizes = PowersOfTwo(64, 16384),
       .show = ShowSequence,
       .first = 1,
       .next = 1,
       .power = 2,
       .longest = effort_.longest_kernel,
       .budget = Picoseconds(effort_.kernel_budget.picoseconds() / std::ssize(kHeads))},
      effort_.kernels, [&](const std::vector<std::int64_t>& sequences) {
        std::vector<Kernel> kernels;
        for (const std::int64_t sequence : sequences) {
          kernels.push_back(AttentionKernel(kind, type, heads, sequence, head_size));
        }
        return KernelBenchmark(kernels, kChain);
      });
  if (!results) return tl::unexpected(results.error());
  residuals_.Add("attention", *results, Between::kPowerLaw);
  calibration::AttentionCurve curve{.head_size = head_size, .heads = heads, .points = {}};
  const std::vector<Time> times = TimesOf(*results);
  for (std::size_t i = 0; i < times.size(); ++i) {
    curve.points.emplace_back((*results)[i].first, times[i]);
  }
  return curve;
}

Attempt<void> Calibrator::MeasureOptimizer() {
  const auto results =
      session_.Climb({.what = "AdamW",
                      .sizes = PowersOfTwo(256, effort_.largest_bytes / OptimizerBytes(1).count()),
                      .show = ShowParameters,
                      .first = 6,
                      .next = 2,
                      .longest = effort_.longest_kernel,
                      .budget = effort_.kernel_budget},
                     effort_.kernels, [&](const std::vector<std::int64_t>& elements) {
                       return OptimizerBenchmark(elements, options_.cache, kChain);
                     });
  if (!results) return tl::unexpected(results.error());
  Results by_bytes;
  for (const auto& [elements, summary] : *results) {
    by_bytes.emplace_back(OptimizerBytes(elements).count(), summary);
  }
  kernels().optimizer_curve = CurveOf("optimizer", "AdamW", by_bytes, Between::kLinear);
  return {};
}

Attempt<void> Calibrator::MeasureCopies(program::CopyDirection direction,
                                        calibration::Curve& curve) {
  const std::string what = fmt::format("copies {}", program::Name(direction));
  const auto results =
      session_.Climb({.what = what,
                      .sizes = PowersOfTwo(4096, effort_.largest_bytes),
                      .show = ShowBytes,
                      .first = 6,
                      .next = 2,
                      .longest = effort_.longest_kernel,
                      .budget = effort_.kernel_budget},
                     effort_.kernels, [&](const std::vector<std::int64_t>& counts) {
                       std::vector<Bytes> sizes;
                       for (const std::int64_t count : counts) sizes.emplace_back(count);
                       return CopyBenchmark(direction, sizes, kChain);
                     });
  if (!results) return tl::unexpected(results.error());
  curve = CurveOf("copies", what, *results, Between::kLinear);
  return {};
}

// Both directions at once, against each alone.
Attempt<void> Calibrator::MeasureBothWays() {
  using program::CopyDirection;
  constexpr Bytes kSize = MiB(8);
  constexpr int kCopies = 10;
  const auto beside = session_.Measure(
      {"copies host-to-device beside the other way", "copies device-to-host beside the other way"},
      effort_.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
        return Reordered(TwoWayCopyBenchmark(kSize, kCopies), wanted);
      });
  if (!beside) return tl::unexpected(beside.error());
  double slowdown = 1;
  const CopyDirection directions[] = {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost};
  for (std::size_t i = 0; i < 2; ++i) {
    // Mostly known from the curve.
    const auto alone = session_.Measure(
        {fmt::format("copies {}, {}", program::Name(directions[i]), ShowBytes(kSize.count()))},
        effort_.kernels, Time(), [&](const std::vector<std::size_t>&) {
          return CopyBenchmark(directions[i], {kSize}, kChain);
        });
    if (!alone) return tl::unexpected(alone.error());
    slowdown = std::max(slowdown, SlowDown((*beside)[i].median, alone->front().median));
  }
  outcome_.profile.copies.both_ways = slowdown;
  return {};
}

std::vector<CollectiveKind> Calibrator::Kinds() const {
  if (!options_.collectives.empty()) return options_.collectives;
  std::vector<CollectiveKind> kinds = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                       CollectiveKind::kAllGather};
  if (!options_.quick) kinds.push_back(CollectiveKind::kBroadcast);
  return kinds;
}

// Powers of two, above 64 KiB also what lies half-way: times are read off linearly over the
// logarithm of the size. For a time that is proportional to the size the chord lies above it by at
// most 1.5 % between sizes that are sqrt(2) apart, and by 6 % between powers of two, where below
// 64 KiB start-up costs hide it.
std::vector<Bytes> Calibrator::CollectiveSizes(int ranks) const {
  const Bytes from = options_.from > Bytes() ? options_.from : KiB(1);
  const Bytes to = options_.to > Bytes() ? options_.to : (options_.quick ? MiB(64) : MiB(256));
  const Bytes unit(4 * std::int64_t{ranks});
  std::vector<Bytes> sizes;
  const auto add = [&](double bytes) {
    const Bytes size = RoundedTo(unit, bytes);
    if (sizes.empty() || size > sizes.back()) sizes.push_back(size);
  };
  auto size = static_cast<double>(from.count());
  const auto last = static_cast<double>(to.count());
  constexpr double kFine = 65536;
  while (size < last * 0.999) {
    add(size);
    size *= size >= kFine ? std::sqrt(2.0) : 2;
  }
  add(last);
  return sizes;
}

Attempt<void> Calibrator::MeasureTable(CollectiveKind kind, const GroupShape& shape, Time budget,
                                       double& spent) {
  SizePlan plan;
  for (const Bytes size : CollectiveSizes(shape.ranks)) plan.sizes.push_back(size.count());
  const auto small = static_cast<std::size_t>(
      std::upper_bound(plan.sizes.begin(), plan.sizes.end(), KiB(64).count()) - plan.sizes.begin());
  // Two tell what larger ones may take.
  plan.first = std::max<std::size_t>(small, 2);
  plan.longest = effort_.longest_collective.seconds();
  // Buffers are made and filled, ranks meet.
  constexpr double kProgram = 0.1;
  plan.program = kProgram;
  const std::string what = fmt::format("{} over {} ranks on {} node{}", Name(kind), shape.ranks,
                                       shape.nodes, shape.nodes == 1 ? "" : "s");
  const auto results = session_.Cover(
      what, plan, budget, effort_.collectives,
      [&](const std::vector<std::int64_t>& counts) {
        std::vector<Bytes> chosen;
        for (const std::int64_t count : counts) chosen.emplace_back(count);
        return CollectiveBenchmark(kind, chosen, shape.groups, rank());
      },
      spent);
  if (!results) return tl::unexpected(results.error());
  calibration::CollectiveTable table;
  table.collective = kind;
  table.ranks = shape.ranks;
  table.nodes = shape.nodes;
  table.points = CurveOf("collectives", what, *results, Between::kLogarithmic);
  for (const auto& [size, summary] : *results) {
    table.quantiles.emplace_back(RoundedTime(summary.low), RoundedTime(summary.high));
  }
  outcome_.profile.collectives.push_back(std::move(table));
  const std::int64_t largest = results->back().first;
  if (largest < plan.sizes.back()) {
    outcome_.warnings.push_back(fmt::format(
        "{} was measured up to {}; larger ones take more time (--time, --groups, --collectives)",
        what, FormatBytes(Bytes(largest))));
  } else if (results->size() < plan.sizes.size()) {
    outcome_.warnings.push_back(
        fmt::format("{} was measured at {} of {} sizes; all take more time (--time)", what,
                    results->size(), plan.sizes.size()));
  }
  return {};
}

// What is left of the time. Rank 0's clock decides, once, and what it decided is kept with the
// measurements: an interrupted calibration goes on by the same plan.
Attempt<double> Calibrator::CollectiveBudget() {
  const double whole = TimeOf(options_).seconds();
  constexpr double kLeast = 0.25;
  // Collectives beside kernels come afterwards.
  const double reserved = Wants(Part::kInterference) ? 0.1 * whole : 0;
  return session_.Settle(fmt::format("time for collectives, of {} s", whole), [&] {
    return std::max(whole - options_.elapsed() - reserved, kLeast * whole);
  });
}

Attempt<void> Calibrator::MeasureCollectives() {
  std::vector<GroupShape> shapes = ShapesOf(node_of_rank_);
  if (shapes.empty()) {
    outcome_.warnings.emplace_back("one rank has no peers to communicate with: no collectives");
    return {};
  }
  std::erase_if(shapes, [&](const GroupShape& shape) {
    const auto& wanted = options_.group_sizes;
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), shape.ranks) == wanted.end();
  });
  struct TablePlan {
    CollectiveKind kind;
    const GroupShape* shape;
    double weight;  // how long the same size takes, about
  };
  std::vector<TablePlan> plans;
  double weights = 0;
  for (const GroupShape& shape : shapes) {
    for (const CollectiveKind kind : Kinds()) {
      const double sent = static_cast<double>(shape.ranks - 1) / shape.ranks;
      plans.push_back({kind, &shape, kind == CollectiveKind::kAllReduce ? 2 * sent : sent});
      weights += plans.back().weight;
    }
  }
  const auto budget = CollectiveBudget();
  if (!budget) return tl::unexpected(budget.error());
  // What one table does not need, those after it have.
  double left = *budget;
  for (const TablePlan& plan : plans) {
    const double share = std::max(left, 0.0) * plan.weight / weights;
    weights -= plan.weight;
    double spent = 0;
    if (auto measured = MeasureTable(plan.kind, *plan.shape,
                                     Picoseconds(static_cast<std::int64_t>(share * 1e12)), spent);
        !measured) {
      return measured;
    }
    left -= spent;
  }
  return {};
}

Attempt<void> Calibrator::MeasureInterferenceOf(calibration::Neighbour neighbour,
                                                CollectiveKind kind) {
  const std::vector<int> all = AllRanks();
  const Bytes unit(4 * std::int64_t{ranks()});
  const Bytes size = RoundedTo(unit, static_cast<double>(MiB(1).count()));
  const bool product = neighbour == calibration::Neighbour::kGemm;
  const Kernel kernel = product ? Product(Types().front(), 512, 512, 512) : MemoryKernel(MiB(8));
  const std::string what = fmt::format("{} beside {}", Name(neighbour), Name(kind));
  const auto measure = [&](const std::vector<std::string>& keys, int kernels, int collectives) {
    return session_.Measure(keys, effort_.kernels, Time(), [&](const std::vector<std::size_t>&) {
      // Both go on until both are known.
      return OverlapBenchmark(kernel, kernels, kind, size, collectives, all, rank());
    });
  };
  const auto alone = measure({what + ": kernel alone"}, 10, 0);
  if (!alone) return tl::unexpected(alone.error());
  const auto apart = measure({what + ": collective alone"}, 0, 5);
  if (!apart) return tl::unexpected(apart.error());
  const double kernel_time = alone->front().median;
  const double collective_time = apart->front().median;
  const Chains chains = ChainsBeside(kernel_time, collective_time);
  const auto beside = session_.Measure(
      {what + ": kernel beside", what + ": collective beside"}, effort_.kernels, Time(),
      [&](const std::vector<std::size_t>& wanted) {
        return Reordered(
            OverlapBenchmark(kernel, chains.kernels, kind, size, chains.collectives, all, rank()),
            wanted);
      });
  if (!beside) return tl::unexpected(beside.error());
  outcome_.profile.interference.push_back(
      {.kernel = neighbour,
       .collective = kind,
       .kernel_slowdown = SlowDown((*beside)[0].median, kernel_time),
       .collective_slowdown = SlowDown((*beside)[1].median, collective_time)});
  return {};
}

Attempt<void> Calibrator::MeasureInterference() {
  if (ranks() < 2) return {};
  std::vector<CollectiveKind> kinds = Kinds();
  if (options_.quick) kinds.resize(1);
  for (const calibration::Neighbour neighbour : calibration::kNeighbours) {
    for (const CollectiveKind kind : kinds) {
      if (auto measured = MeasureInterferenceOf(neighbour, kind); !measured) return measured;
    }
  }
  return {};
}

Attempt<void> Calibrator::MeasurePart(Part part) {
  using program::CopyDirection;
  calibration::CopyCurves& copies = outcome_.profile.copies;
  Attempt<void> done;
  switch (part) {
    case Part::kLaunch:
      return MeasureLaunch();
    case Part::kMemory:
      return MeasureMemory();
    case Part::kGemm:
      for (const DataType type : Types()) {
        for (const ProductLayout layout : options_.layouts) {
          // Tensor cores multiply fp8 in the forward's layout alone.
          if (type == DataType::kFp8 && layout != ProductLayout::kForward) continue;
          if (done) done = MeasureGemm(type, layout);
        }
      }
      if (done) done = MeasureSustainedClock();
      return done;
    case Part::kAttention:
      for (const DataType type : Types()) {
        for (const KernelKind kind : {KernelKind::kAttention, KernelKind::kAttentionGradient}) {
          if (done) done = MeasureAttention(type, kind);
        }
      }
      return done;
    case Part::kOptimizer:
      return MeasureOptimizer();
    case Part::kCopies:
      done = MeasureCopies(CopyDirection::kHostToDevice, copies.host_to_device);
      if (done) done = MeasureCopies(CopyDirection::kDeviceToHost, copies.device_to_host);
      if (done) done = MeasureCopies(CopyDirection::kDeviceToDevice, copies.device_to_device);
      if (done) done = MeasureBothWays();
      return done;
    case Part::kCollectives:
      return MeasureCollectives();
    case Part::kInterference:
      return MeasureInterference();
  }
  return done;
}

void Calibrator::NoteHealth(const char* when) {
  if (!options_.health) return;
  const std::optional<runtime::DeviceHealth> health = options_.health();
  if (!health) return;
  std::string text = fmt::format("{} MHz, {} of {} W, {} C", health->clock_mhz, health->watts,
                                 health->limit_watts, health->celsius);
  if (!health->slowed_by.empty()) {
    text += fmt::format(", slowed by: {}", fmt::join(health->slowed_by, ", "));
  }
  outcome_.profile.provenance.emplace_back(when, std::move(text));
}

void Calibrator::NoticeDrift() {
  constexpr double kAllowed = 0.05;
  const auto [least, most] = std::minmax_element(reference_.begin(), reference_.end());
  const double drift = *most / *least - 1;
  auto& provenance = outcome_.profile.provenance;
  provenance.emplace_back("drift",
                          fmt::format("the same kernel took up to {:.1f} % longer in the course of "
                                      "the calibration",
                                      100 * drift));
  if (drift > kAllowed) {
    outcome_.warnings.push_back(fmt::format(
        "the same kernel took up to {:.0f} % longer in the course of the calibration: the machine "
        "lowers its clocks, or does something else; measure again when it is quiet",
        100 * drift));
  }
}

void Calibrator::Describe() {
  Calibration& profile = outcome_.profile;
  profile.name = options_.name;
  profile.provenance = options_.machine;
  const int nodes = 1 + *std::max_element(node_of_rank_.begin(), node_of_rank_.end());
  profile.provenance.emplace_back(
      "ranks", fmt::format("{} on {} node{}", ranks(), nodes, nodes == 1 ? "" : "s"));
  profile.provenance.insert(profile.provenance.end(), options_.run.begin(), options_.run.end());
  profile.provenance.emplace_back(
      "method", fmt::format("{} medians of repeated operations, each timed by the runtime in step "
                            "programs; collectives in fp32, averaged",
                            IsCoarse(options_) ? "quick:" : "thorough:"));
}

Attempt<Outcome> Calibrator::Run() {
  Describe();
  NoteHealth("device_before");
  if (auto measured = MeasureReference(); !measured) return tl::unexpected(measured.error());
  for (const Part part : kParts) {
    // Kernels cannot be priced without the cost of starting them, and hardly without memory.
    const bool needed = part == Part::kLaunch || part == Part::kMemory;
    if (!Wants(part) && !(needed && WantsKernels())) continue;
    if (auto measured = MeasurePart(part); !measured) return tl::unexpected(measured.error());
    if (auto measured = MeasureReference(); !measured) return tl::unexpected(measured.error());
  }
  outcome_.profile.residuals = residuals_.Take();
  NoteHealth("device_after");
  NoticeDrift();
  const std::vector<calibration::Fault> faults = calibration::Check(outcome_.profile);
  if (!faults.empty()) {
    return tl::unexpected(Failure{fmt::format("what was measured cannot be: {}: {}",
                                              faults.front().field, faults.front().message),
                                  false});
  }
  return std::move(outcome_);
}

std::string Binding(const Options& options, const std::vector<std::string>& places) {
  std::string binding = IsCoarse(options) ? "quick" : "thorough";
  for (const auto& [key, value] : options.machine) binding += fmt::format("; {}: {}", key, value);
  for (const DataType type : options.types) binding += fmt::format("; {}", Name(type));
  return fmt::format("{}; ranks on {}", binding, fmt::join(places, ", "));
}

}  // namespace

std::string_view Name(Part part) {
  switch (part) {
    case Part::kLaunch:
      return "launch";
    case Part::kMemory:
      return "memory";
    case Part::kGemm:
      return "gemm";
    case Part::kAttention:
      return "attention";
    case Part::kOptimizer:
      return "optimizer";
    case Part::kCopies:
      return "copies";
    case Part::kCollectives:
      return "collectives";
    case Part::kInterference:
      return "interference";
  }
  return "";
}

std::optional<Part> PartFromName(std::string_view name) {
  for (const Part part : kParts) {
    if (Name(part) == name) return part;
  }
  return std::nullopt;
}

Attempt<Outcome> Calibrate(runtime::Job& job, const Runner& runner, const Options& given) {
  Options options = given;
  if (!options.elapsed) {
    options.elapsed = [begin = std::chrono::steady_clock::now()] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
  }
  // Where all ranks are.
  const runtime::Place& place = job.place();
  const auto gathered = job.Gather(fmt::format("{} {}", place.node, place.host));
  if (!gathered) return tl::unexpected(gathered.error());
  MeasurementState state("");
  std::string told;  // "refused <why>", or the nodes of all ranks
  if (place.rank == 0) {
    std::vector<std::string> nodes;
    for (const std::string& text : *gathered) nodes.push_back(text.substr(0, text.find(' ')));
    told = fmt::format("{}", fmt::join(nodes, " "));
    const std::string binding = Binding(options, *gathered);
    state = MeasurementState(binding);
    if (!options.state.empty()) {
      auto before = MeasurementState::Parse(options.state);
      if (!before) {
        told = "refused it is not the state of a calibration, or is damaged";
      } else if (before->binding() != state.binding()) {
        told = fmt::format("refused it was made elsewhere, or with other options: {}",
                           before->binding());
      } else {
        state = *std::move(before);
      }
    }
  }
  const auto heard = job.Broadcast(told);
  if (!heard) return tl::unexpected(heard.error());
  constexpr std::string_view kRefused = "refused ";
  if (heard->starts_with(kRefused)) {
    Outcome outcome;
    outcome.refused = heard->substr(kRefused.size());
    return outcome;
  }
  std::vector<int> node_of_rank;
  for (const char* at = heard->data(); at < heard->data() + heard->size();) {
    int node = 0;
    at = std::from_chars(at, heard->data() + heard->size(), node).ptr + 1;
    node_of_rank.push_back(node);
  }
  for (const int size : options.group_sizes) {
    Outcome outcome;
    for (const GroupShape& shape : ShapesOf(node_of_rank)) outcome.groups_of.push_back(shape.ranks);
    std::vector<int>& sizes = outcome.groups_of;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) continue;
    outcome.no_group_of = size;
    return outcome;
  }
  Session session(job, runner, std::move(state), options.observer);
  return Calibrator(session, options, std::move(node_of_rank)).Run();
}

}  // namespace stepcast::calibrate
