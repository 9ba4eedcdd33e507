#include "src/calibrate/kernel_measurements.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/calibrate/benchmark.h"
#include "src/parallel/group_layout.h"

namespace stepcast::calibrate {
namespace {

using runtime::Attempt;

std::string ShowBytes(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }
std::string ShowParameters(std::int64_t count) { return fmt::format("{} parameters", count); }
std::string ShowSequence(std::int64_t length) { return fmt::format("sequence of {}", length); }

constexpr int kChain = 4;  // samples of a kernel in one step

// Numbers of heads of all sequences in a micro-batch, from too few for a GPU's multiprocessors to
// enough, with the head sizes of real models.
constexpr std::int64_t kHeadSizes[] = {64, 128};
constexpr std::int64_t kHeads[] = {2, 16, 128};

Attempt<calibration::AttentionCurve> MeasureAttentionCurve(Campaign& campaign, DataType type,
                                                           KernelKind kind, std::int64_t head_size,
                                                           std::int64_t heads) {
  const auto results = campaign.session.Climb(
      {.what = fmt::format("attention {} in {}, {} heads of {}",
                           kind == KernelKind::kAttention ? "forward" : "backward", Name(type),
                           heads, head_size),
       .sizes = PowersOfTwo(64, 16384),
       .show = ShowSequence,
       .first = 1,
       .next = 1,
       .power = 2,
       .longest = campaign.effort.longest_kernel,
       .budget = Picoseconds(campaign.effort.kernel_budget.picoseconds() / std::ssize(kHeads))},
      campaign.effort.kernels, [&](const std::vector<std::int64_t>& sequences) {
        std::vector<Kernel> kernels;
        for (const std::int64_t sequence : sequences) {
          kernels.push_back(AttentionKernel(kind, type, heads, sequence, head_size));
        }
        return KernelBenchmark(kernels, kChain);
      });
  if (!results) return tl::unexpected(results.error());
  campaign.residuals.Add("attention", *results, Between::kPowerLaw);
  calibration::AttentionCurve curve{.head_size = head_size, .heads = heads, .points = {}};
  const std::vector<Time> times = TimesOf(*results);
  for (std::size_t i = 0; i < times.size(); ++i) {
    curve.points.emplace_back((*results)[i].first, times[i]);
  }
  return curve;
}

}  // namespace

Attempt<void> MeasureReference(Campaign& campaign) {
  const std::string key =
      fmt::format("the reference kernel, time {}", campaign.reference.size() + 1);
  Repetition repetition = campaign.effort.kernels;
  repetition.uncertainty = 0.01;
  const auto summary =
      campaign.session.Measure({key}, repetition, Time(), [&](const std::vector<std::size_t>&) {
        constexpr std::int64_t kSize = 512;  // multiplied by a host in milliseconds
        return KernelBenchmark({Product(campaign.Types().back(), kSize, kSize, kSize)}, 10);
      });
  if (!summary) return tl::unexpected(summary.error());
  campaign.reference.push_back(summary->front().median);
  return {};
}

Attempt<void> MeasureLaunch(Campaign& campaign) {
  const std::vector<int> all = campaign.AllRanks();
  std::vector<std::string> keys = {"kernel start", "kernel issue"};
  const bool communicates = campaign.ranks() > 1;
  if (communicates) keys.emplace_back("collective issue");
  const auto summaries = campaign.session.Measure(keys, campaign.effort.kernels, Time(),
                                                  [&](const std::vector<std::size_t>& wanted) {
                                                    return Reordered(LaunchBenchmark(all), wanted);
                                                  });
  if (!summaries) return tl::unexpected(summaries.error());
  campaign.kernels().start_latency = RoundedTime((*summaries)[0].median);
  campaign.kernels().launch = RoundedTime((*summaries)[1].median);
  if (communicates) campaign.kernels().collective_launch = RoundedTime((*summaries)[2].median);
  return {};
}

Attempt<void> MeasureMemory(Campaign& campaign) {
  const auto results =
      campaign.session.Climb({.what = "memory-bound kernels",
                              .sizes = PowersOfTwo(4096, campaign.effort.largest_bytes),
                              .show = ShowBytes,
                              .first = 6,
                              .next = 2,
                              .longest = campaign.effort.longest_kernel,
                              .budget = campaign.effort.kernel_budget},
                             campaign.effort.kernels, [](const std::vector<std::int64_t>& sizes) {
                               std::vector<Kernel> kernels;
                               for (const std::int64_t size : sizes)
                                 kernels.push_back(MemoryKernel(Bytes(size)));
                               return KernelBenchmark(kernels, kChain);
                             });
  if (!results) return tl::unexpected(results.error());
  campaign.kernels().memory_curve =
      campaign.CurveOf("memory_bound", "memory-bound kernels", *results, Between::kLinear);
  return {};
}

Attempt<void> MeasureGemm(Campaign& campaign, DataType type, ProductLayout layout) {
  const char* of = layout == ProductLayout::kInputGradient    ? " for inputs' gradients"
                   : layout == ProductLayout::kWeightGradient ? " for weights' gradients"
                                                              : "";
  const auto key = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return fmt::format("products in {}{}, {} x {} x {}", Name(type), of, m, n, k);
  };
  // Finds the extent of the grid: cubes until one is too slow.
  constexpr std::int64_t kSmallest = 32;
  std::vector<std::int64_t> axis;
  double last = 0;
  for (const std::int64_t size : PowersOfTwo(kSmallest, campaign.effort.largest_product)) {
    if (8 * last > campaign.effort.longest_kernel.seconds()) break;  // eight times the flops
    const auto summary = campaign.session.Measure(
        {key(size, size, size)}, campaign.effort.kernels, Time(),
        [&](const std::vector<std::size_t>&) {
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
    const auto batch = campaign.session.Measure(
        keys, campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
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
  auto& surfaces =
      layout == ProductLayout::kInputGradient    ? campaign.kernels().gemm_input_gradient_surface
      : layout == ProductLayout::kWeightGradient ? campaign.kernels().gemm_weight_gradient_surface
                                                 : campaign.kernels().gemm_surface;
  calibration::GemmSurface& surface = surfaces[static_cast<std::size_t>(type)];
  surface = {.m = axis, .n = axis, .k = axis, .times = {}};
  for (const Summary& summary : summaries) surface.times.push_back(RoundedTime(summary.median));
  campaign.residuals.AddSurface("gemm", surface, summaries);
  return {};
}

Attempt<void> MeasureSustainedClock(Campaign& campaign) {
  if (!campaign.options.health) return {};
  const auto told = [&](int runtime::DeviceHealth::*figure) {
    const std::optional<runtime::DeviceHealth> health = campaign.options.health();
    return health ? std::max(1.0, static_cast<double>((*health).*figure)) : 1.0;
  };
  const auto limit = campaign.session.Settle("the power limit of the board, in watts", [&] {
    return told(&runtime::DeviceHealth::limit_watts);
  });
  if (!limit) return tl::unexpected(limit.error());
  const auto idle = campaign.session.Settle(
      "the power of the idle board between measurements, in watts",
      [&] { return std::min(told(&runtime::DeviceHealth::watts), 0.5 * *limit); });
  if (!idle) return tl::unexpected(idle.error());
  constexpr double kNotTold = 1;
  if (*limit <= kNotTold) return {};

  constexpr std::int64_t kSize = 8192;
  constexpr double kSeconds = 12;
  const DataType type = campaign.Types().back();
  const auto measure = [&](const char* what, int repetitions) {
    const Repetition once{.least = 1, .most = 1, .uncertainty = 1, .limit = Seconds(30)};
    return campaign.session.Measure({what}, once, Time(), [&](const std::vector<std::size_t>&) {
      return KernelBenchmark({Product(type, kSize, kSize, kSize)}, repetitions);
    });
  };
  const auto burst = measure("a few large matrix multiplications", kChain);
  if (!burst) return tl::unexpected(burst.error());
  const double each = burst->front().median;
  const auto sustained =
      measure("large matrix multiplications for several seconds",
              static_cast<int>(std::clamp(kSeconds / each, double{kChain}, 50'000.0)));
  if (!sustained) return tl::unexpected(sustained.error());
  const double clock = std::min(1.0, each / sustained->front().median);
  campaign.kernels().power = {.idle = std::round(*idle),
                              .products = std::round((*limit - *idle) / std::pow(clock, 3))};
  campaign.outcome.profile.provenance.emplace_back(
      "sustained_clock", fmt::format("the clock is {:.3f} times the initial clock after {:.0f} s "
                                     "of matrix multiplications at up to {} W",
                                     clock, kSeconds, *limit));
  return {};
}

Attempt<void> MeasureAttention(Campaign& campaign, DataType type, KernelKind kind) {
  auto& surfaces = kind == KernelKind::kAttention ? campaign.kernels().attention_forward_surface
                                                  : campaign.kernels().attention_backward_surface;
  for (const std::int64_t head_size : kHeadSizes) {
    for (const std::int64_t heads : kHeads) {
      auto curve = MeasureAttentionCurve(campaign, type, kind, head_size, heads);
      if (!curve) return tl::unexpected(curve.error());
      surfaces[static_cast<std::size_t>(type)].push_back(std::move(*curve));
    }
  }
  return {};
}

Attempt<void> MeasureOptimizer(Campaign& campaign) {
  const auto results = campaign.session.Climb(
      {.what = "AdamW",
       .sizes = PowersOfTwo(256, campaign.effort.largest_bytes / OptimizerBytes(1).count()),
       .show = ShowParameters,
       .first = 6,
       .next = 2,
       .longest = campaign.effort.longest_kernel,
       .budget = campaign.effort.kernel_budget},
      campaign.effort.kernels, [&](const std::vector<std::int64_t>& elements) {
        return OptimizerBenchmark(elements, campaign.options.cache, kChain);
      });
  if (!results) return tl::unexpected(results.error());
  Results by_bytes;
  for (const auto& [elements, summary] : *results) {
    by_bytes.emplace_back(OptimizerBytes(elements).count(), summary);
  }
  campaign.kernels().optimizer_curve =
      campaign.CurveOf("optimizer", "AdamW", by_bytes, Between::kLinear);
  return {};
}

namespace {

using parallel::GroupLayout;

int NodesOf(const std::vector<int>& group, const std::vector<int>& node_of_rank) {
  std::set<int> nodes;
  for (const int rank : group) nodes.insert(node_of_rank[static_cast<std::size_t>(rank)]);
  return static_cast<int>(nodes.size());
}

// Adds the groups if they have equal shapes, and the shape is new.
void AddShape(std::vector<std::vector<int>> groups, const std::vector<int>& node_of_rank,
              std::vector<GroupShape>& shapes) {
  if (groups.empty() || groups.front().size() < 2) return;
  GroupShape shape;
  shape.ranks = static_cast<int>(groups.front().size());
  shape.nodes = NodesOf(groups.front(), node_of_rank);
  for (const std::vector<int>& group : groups) {
    if (static_cast<int>(group.size()) != shape.ranks) return;
    if (NodesOf(group, node_of_rank) != shape.nodes) return;
  }
  const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const GroupShape& other) {
    return other.ranks == shape.ranks && other.nodes == shape.nodes;
  });
  if (known) return;
  shape.groups = std::move(groups);
  shapes.push_back(std::move(shape));
}

}  // namespace

std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank) {
  const int ranks = static_cast<int>(node_of_rank.size());
  std::vector<GroupShape> shapes;
  std::vector<int> all;
  std::map<int, std::vector<int>> by_node;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(rank);
    by_node[node_of_rank[static_cast<std::size_t>(rank)]].push_back(rank);
  }
  AddShape({all}, node_of_rank, shapes);

  std::vector<std::vector<int>> nodes;
  std::vector<std::vector<int>> across;
  for (const auto& [node, members] : by_node) {
    nodes.push_back(members);
    across.resize(std::max(across.size(), members.size()));
    for (std::size_t i = 0; i < members.size(); ++i) across[i].push_back(members[i]);
  }
  AddShape(std::move(nodes), node_of_rank, shapes);
  AddShape(std::move(across), node_of_rank, shapes);

  for (int size = 2; size < ranks; ++size) {
    if (ranks % size != 0) continue;
    const GroupLayout neighbours(ranks, {{.stride = 1, .degree = size}});
    const GroupLayout apart(ranks, {{.stride = size, .degree = ranks / size}});
    AddShape(neighbours.Groups(), node_of_rank, shapes);
    AddShape(apart.Groups(), node_of_rank, shapes);
  }
  return shapes;
}

}  // namespace stepcast::calibrate
