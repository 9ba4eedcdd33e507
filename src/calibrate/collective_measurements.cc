#include "src/calibrate/collective_measurements.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/calibrate/benchmark_programs.h"
#include "src/calibrate/fits.h"
#include "src/calibrate/groups.h"
#include "src/calibrate/size_plan.h"

namespace stepcast::calibrate {
namespace {

using runtime::Attempt;

Bytes RoundedTo(Bytes unit, double bytes) {
  const auto units = std::llround(bytes / static_cast<double>(unit.count()));
  return unit * std::max<std::int64_t>(units, 1);
}

std::vector<CollectiveKind> Kinds(Campaign& campaign) {
  if (!campaign.options.collectives.empty()) return campaign.options.collectives;
  std::vector<CollectiveKind> kinds = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                       CollectiveKind::kAllGather, CollectiveKind::kAllToAll,
                                       CollectiveKind::kSendRecv};
  if (!campaign.options.quick) kinds.push_back(CollectiveKind::kBroadcast);
  return kinds;
}

// Powers of two, above 64 KiB also what lies half-way: times are read off linearly over the
// logarithm of the size. For a time that is proportional to the size the chord lies above it by at
// most 1.5 % between sizes that are sqrt(2) apart, and by 6 % between powers of two, where below
// 64 KiB start-up costs hide it.
std::vector<Bytes> CollectiveSizes(Campaign& campaign, int ranks) {
  const Bytes from = campaign.options.from > Bytes() ? campaign.options.from : KiB(1);
  const Bytes to = campaign.options.to > Bytes() ? campaign.options.to
                                                 : (campaign.options.quick ? MiB(64) : MiB(256));
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

Attempt<void> MeasureTable(Campaign& campaign, CollectiveKind kind, const GroupShape& shape,
                           Time budget, double& spent) {
  SizePlan plan;
  for (const Bytes size : CollectiveSizes(campaign, shape.ranks))
    plan.sizes.push_back(size.count());
  const auto small = static_cast<std::size_t>(
      std::upper_bound(plan.sizes.begin(), plan.sizes.end(), KiB(64).count()) - plan.sizes.begin());
  // Two tell what larger ones may take.
  plan.first = std::max<std::size_t>(small, 2);
  plan.longest = campaign.effort.longest_collective.seconds();
  // Buffers are made and filled, ranks meet.
  constexpr double kProgram = 0.1;
  plan.program = kProgram;
  const std::string what = fmt::format("{} over {} ranks on {} node{}", Name(kind), shape.ranks,
                                       shape.nodes, shape.nodes == 1 ? "" : "s");
  const auto results = campaign.session.Cover(
      what, plan, budget, campaign.effort.collectives,
      [&](const std::vector<std::int64_t>& counts) {
        std::vector<Bytes> chosen;
        for (const std::int64_t count : counts) chosen.emplace_back(count);
        return CollectiveBenchmark(kind, chosen, shape.groups, campaign.rank());
      },
      spent);
  if (!results) return tl::unexpected(results.error());
  calibration::CollectiveTable table;
  table.collective = kind;
  table.ranks = shape.ranks;
  table.nodes = shape.nodes;
  table.points = campaign.CurveOf("collectives", what, *results, Between::kLogarithmic);
  for (const auto& [size, summary] : *results) {
    table.quantiles.emplace_back(RoundedTime(summary.low), RoundedTime(summary.high));
  }
  campaign.outcome.profile.collectives.push_back(std::move(table));
  const std::int64_t largest = results->back().first;
  if (largest < plan.sizes.back()) {
    campaign.outcome.warnings.push_back(fmt::format(
        "{} was measured up to {}; larger ones take more time (--time, --groups, --collectives)",
        what, FormatBytes(Bytes(largest))));
  } else if (results->size() < plan.sizes.size()) {
    campaign.outcome.warnings.push_back(
        fmt::format("{} was measured at {} of {} sizes; all take more time (--time)", what,
                    results->size(), plan.sizes.size()));
  }
  return {};
}

// Of a size, the part that a rank sends.
double SentOf(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::kSendRecv) return 1;
  const double sent = static_cast<double>(ranks - 1) / ranks;
  return kind == CollectiveKind::kAllReduce ? 2 * sent : sent;
}

// What is left of the time. Rank 0's clock decides, once, and what it decided is kept with the
// measurements: an interrupted calibration goes on by the same plan.
Attempt<double> CollectiveBudget(Campaign& campaign) {
  const double whole = TimeOf(campaign.options).seconds();
  constexpr double kLeast = 0.25;
  // Collectives beside kernels come afterwards.
  const double reserved = campaign.Wants(Part::kInterference) ? 0.1 * whole : 0;
  return campaign.session.Settle(fmt::format("time for collectives, of {} s", whole), [&] {
    return std::max(whole - campaign.options.elapsed() - reserved, kLeast * whole);
  });
}

Attempt<void> MeasureInterferenceOf(Campaign& campaign, calibration::Neighbour neighbour,
                                    CollectiveKind kind) {
  const std::vector<int> all = campaign.AllRanks();
  const Bytes unit(4 * std::int64_t{campaign.ranks()});
  const Bytes size = RoundedTo(unit, static_cast<double>(MiB(1).count()));
  const bool product = neighbour == calibration::Neighbour::kGemm;
  const Kernel kernel =
      product ? Product(campaign.Types().front(), 512, 512, 512) : MemoryKernel(MiB(8));
  const std::string what = fmt::format("{} beside {}", Name(neighbour), Name(kind));
  const auto measure = [&](const std::vector<std::string>& keys, int kernels, int collectives) {
    return campaign.session.Measure(
        keys, campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>&) {
          // Both go on until both are known.
          return OverlapBenchmark(kernel, kernels, kind, size, collectives, all, campaign.rank());
        });
  };
  const auto alone = measure({what + ": kernel alone"}, 10, 0);
  if (!alone) return tl::unexpected(alone.error());
  const auto apart = measure({what + ": collective alone"}, 0, 5);
  if (!apart) return tl::unexpected(apart.error());
  const double kernel_time = alone->front().median;
  const double collective_time = apart->front().median;
  const Chains chains = ChainsBeside(kernel_time, collective_time);
  const auto beside = campaign.session.Measure(
      {what + ": kernel beside", what + ": collective beside"}, campaign.effort.kernels, Time(),
      [&](const std::vector<std::size_t>& wanted) {
        return Reordered(OverlapBenchmark(kernel, chains.kernels, kind, size, chains.collectives,
                                          all, campaign.rank()),
                         wanted);
      });
  if (!beside) return tl::unexpected(beside.error());
  campaign.outcome.profile.interference.push_back(
      {.kernel = neighbour,
       .collective = kind,
       .kernel_slowdown = SlowDown((*beside)[0].median, kernel_time),
       .collective_slowdown = SlowDown((*beside)[1].median, collective_time)});
  return {};
}

}  // namespace

Attempt<void> MeasureCollectives(Campaign& campaign) {
  std::vector<GroupShape> shapes = ShapesOf(campaign.node_of_rank);
  if (shapes.empty()) {
    campaign.outcome.warnings.emplace_back(
        "one rank has no peers to communicate with: no collectives");
    return {};
  }
  // Messages go from one rank to another, whatever groups there are.
  const auto measures = [&](CollectiveKind kind, const GroupShape& shape) {
    if (kind == CollectiveKind::kSendRecv) return shape.ranks == 2;
    const auto& wanted = campaign.options.group_sizes;
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), shape.ranks) != wanted.end();
  };
  struct TablePlan {
    CollectiveKind kind;
    const GroupShape* shape;
    double weight;  // how long the same size takes, about: SentOf
  };
  std::vector<TablePlan> plans;
  double weights = 0;
  for (const GroupShape& shape : shapes) {
    for (const CollectiveKind kind : Kinds(campaign)) {
      if (!measures(kind, shape)) continue;
      plans.push_back({kind, &shape, SentOf(kind, shape.ranks)});
      weights += plans.back().weight;
    }
  }
  const auto budget = CollectiveBudget(campaign);
  if (!budget) return tl::unexpected(budget.error());
  // What one table does not need, those after it have.
  double left = *budget;
  for (const TablePlan& plan : plans) {
    const double share = std::max(left, 0.0) * plan.weight / weights;
    weights -= plan.weight;
    double spent = 0;
    if (auto measured = MeasureTable(campaign, plan.kind, *plan.shape,
                                     Picoseconds(static_cast<std::int64_t>(share * 1e12)), spent);
        !measured) {
      return measured;
    }
    left -= spent;
  }
  return {};
}

Attempt<void> MeasureInterference(Campaign& campaign) {
  if (campaign.ranks() < 2) return {};
  std::vector<CollectiveKind> kinds = Kinds(campaign);
  std::erase(kinds, CollectiveKind::kSendRecv);
  if (campaign.options.quick) kinds.resize(std::min<std::size_t>(kinds.size(), 1));
  for (const calibration::Neighbour neighbour : calibration::kNeighbours) {
    for (const CollectiveKind kind : kinds) {
      if (auto measured = MeasureInterferenceOf(campaign, neighbour, kind); !measured)
        return measured;
    }
  }
  return {};
}

}  // namespace stepcast::calibrate
