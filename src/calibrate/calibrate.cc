#include "src/calibrate/calibrate.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/calibrate/campaign.h"
#include "src/calibrate/kernel_measurements.h"
#include "src/calibrate/statistics.h"
#include "src/calibration/plausible.h"
#include "src/program/program.h"

namespace stepcast::calibrate {
// Measure collectives, uncontended and concurrently with kernels. All ranks call these together.

// Each kind over each shape of group, as far as time allows.
runtime::Attempt<void> MeasureCollectives(Campaign& campaign);
// The slowdown of kernels and collectives that run concurrently.
runtime::Attempt<void> MeasureInterference(Campaign& campaign);

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

// Powers of two, and above 64 KiB also the sizes half-way between, since times are interpolated
// linearly over the logarithm of the size. For a time proportional to size, the interpolation is
// too high by at most 1.5 % between sizes sqrt(2) apart. Between powers of two it is 6 %, which
// start-up costs hide below 64 KiB.
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
  // Two sizes predict the times of larger ones.
  plan.first = std::max<std::size_t>(small, 2);
  plan.longest = campaign.effort.longest_collective.seconds();
  // Time to make and fill buffers and synchronize ranks.
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
    campaign.outcome.warnings.push_back(
        fmt::format("{} was measured only up to {}; to measure larger sizes, increase --time, or "
                    "reduce --groups and --collectives",
                    what, FormatBytes(Bytes(largest))));
  } else if (results->size() < plan.sizes.size()) {
    campaign.outcome.warnings.push_back(
        fmt::format("{} was measured at {} of {} sizes; to measure all sizes, increase --time",
                    what, results->size(), plan.sizes.size()));
  }
  return {};
}

// The fraction of the size that a rank sends.
double SentOf(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::kSendRecv) return 1;
  const double sent = static_cast<double>(ranks - 1) / ranks;
  return kind == CollectiveKind::kAllReduce ? 2 * sent : sent;
}

// The remaining time. Rank 0's clock decides once, and the decision is stored with the
// measurements, so that an interrupted calibration continues with the same plan.
Attempt<double> CollectiveBudget(Campaign& campaign) {
  const double whole = TimeOf(campaign.options).seconds();
  constexpr double kLeast = 0.25;
  // Reserved for collectives concurrent with kernels, which come later.
  const double reserved = campaign.Wants(Part::kInterference) ? 0.1 * whole : 0;
  return campaign.session.Settle(fmt::format("time available for collectives: {} s", whole), [&] {
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
          // Both chains run until both are measured.
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
        "no collectives are measured, because there is only one rank");
    return {};
  }
  // Messages are between two ranks in any group.
  const auto measures = [&](CollectiveKind kind, const GroupShape& shape) {
    if (kind == CollectiveKind::kSendRecv) return shape.ranks == 2;
    const auto& wanted = campaign.options.group_sizes;
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), shape.ranks) != wanted.end();
  };
  struct TablePlan {
    CollectiveKind kind;
    const GroupShape* shape;
    double weight;  // approximate time relative to other kinds of this size: SentOf
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
  // Later tables get the time that one table does not need.
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

// Measure copies between host and device. All ranks call these together.

runtime::Attempt<void> MeasureCopies(Campaign& campaign, program::CopyDirection direction,
                                     calibration::Curve& curve);
// Both directions at once, compared with each alone.
runtime::Attempt<void> MeasureBothWays(Campaign& campaign);

namespace {

using runtime::Attempt;

std::string ShowSize(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

constexpr int kCopies = 4;  // samples of a kernel in one step

}  // namespace

Attempt<void> MeasureCopies(Campaign& campaign, program::CopyDirection direction,
                            calibration::Curve& curve) {
  const std::string what = fmt::format("copies {}", program::Name(direction));
  const auto results =
      campaign.session.Climb({.what = what,
                              .sizes = PowersOfTwo(4096, campaign.effort.largest_bytes),
                              .show = ShowSize,
                              .first = 6,
                              .next = 2,
                              .longest = campaign.effort.longest_kernel,
                              .budget = campaign.effort.kernel_budget},
                             campaign.effort.kernels, [&](const std::vector<std::int64_t>& counts) {
                               std::vector<Bytes> sizes;
                               for (const std::int64_t count : counts) sizes.emplace_back(count);
                               return CopyBenchmark(direction, sizes, kCopies);
                             });
  if (!results) return tl::unexpected(results.error());
  curve = campaign.CurveOf("copies", what, *results, Between::kLinear);
  return {};
}

Attempt<void> MeasureBothWays(Campaign& campaign) {
  using program::CopyDirection;
  constexpr Bytes kSize = MiB(8);
  constexpr int kCopies = 10;
  const auto beside = campaign.session.Measure(
      {"copies from host to device, concurrent with copies from device to host",
       "copies from device to host, concurrent with copies from host to device"},
      campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>& wanted) {
        return Reordered(TwoWayCopyBenchmark(kSize, kCopies), wanted);
      });
  if (!beside) return tl::unexpected(beside.error());
  double slowdown = 1;
  const CopyDirection directions[] = {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost};
  for (std::size_t i = 0; i < 2; ++i) {
    // Usually known from the curve.
    const auto alone = campaign.session.Measure(
        {fmt::format("copies {}, {}", program::Name(directions[i]), ShowSize(kSize.count()))},
        campaign.effort.kernels, Time(), [&](const std::vector<std::size_t>&) {
          return CopyBenchmark(directions[i], {kSize}, kCopies);
        });
    if (!alone) return tl::unexpected(alone.error());
    slowdown = std::max(slowdown, SlowDown((*beside)[i].median, alone->front().median));
  }
  campaign.outcome.profile.copies.both_ways = slowdown;
  return {};
}

namespace {

using calibration::Calibration;
using runtime::Attempt;
using runtime::Failure;

Attempt<void> MeasurePart(Campaign& campaign, Part part) {
  using program::CopyDirection;
  calibration::CopyCurves& copies = campaign.outcome.profile.copies;
  Attempt<void> done;
  switch (part) {
    case Part::kLaunch:
      return MeasureLaunch(campaign);
    case Part::kMemory:
      return MeasureMemory(campaign);
    case Part::kGemm:
      for (const DataType type : campaign.Types()) {
        for (const ProductLayout layout : campaign.options.layouts) {
          // Tensor cores multiply fp8 only in the forward layout.
          if (type == DataType::kFp8 && layout != ProductLayout::kForward) continue;
          if (done) done = MeasureGemm(campaign, type, layout);
        }
      }
      if (done) done = MeasureSustainedClock(campaign);
      return done;
    case Part::kAttention:
      for (const DataType type : campaign.Types()) {
        for (const KernelKind kind : {KernelKind::kAttention, KernelKind::kAttentionGradient}) {
          if (done) done = MeasureAttention(campaign, type, kind);
        }
      }
      return done;
    case Part::kOptimizer:
      return MeasureOptimizer(campaign);
    case Part::kCopies:
      done = MeasureCopies(campaign, CopyDirection::kHostToDevice, copies.host_to_device);
      if (done) done = MeasureCopies(campaign, CopyDirection::kDeviceToHost, copies.device_to_host);
      if (done)
        done = MeasureCopies(campaign, CopyDirection::kDeviceToDevice, copies.device_to_device);
      if (done) done = MeasureBothWays(campaign);
      return done;
    case Part::kCollectives:
      return MeasureCollectives(campaign);
    case Part::kInterference:
      return MeasureInterference(campaign);
  }
  return done;
}

void NoteHealth(Campaign& campaign, const char* when) {
  if (!campaign.options.health) return;
  const std::optional<runtime::DeviceHealth> health = campaign.options.health();
  if (!health) return;
  std::string text = fmt::format("{} MHz, {} of {} W, {} C", health->clock_mhz, health->watts,
                                 health->limit_watts, health->celsius);
  if (!health->slowed_by.empty()) {
    text += fmt::format(", slowed by: {}", fmt::join(health->slowed_by, ", "));
  }
  campaign.outcome.profile.provenance.emplace_back(when, std::move(text));
}

void NoticeDrift(Campaign& campaign) {
  constexpr double kAllowed = 0.05;
  const auto [least, most] =
      std::minmax_element(campaign.reference.begin(), campaign.reference.end());
  const double drift = *most / *least - 1;
  auto& provenance = campaign.outcome.profile.provenance;
  provenance.emplace_back(
      "drift",
      fmt::format("the time of the reference kernel changed by up to {:.1f} %", 100 * drift));
  if (drift > kAllowed) {
    campaign.outcome.warnings.push_back(fmt::format(
        "during the calibration, the time of the reference kernel rose by up to {:.0f} %, because "
        "the "
        "machine lowered its clocks or ran other work. Repeat the calibration on an idle machine",
        100 * drift));
  }
}

void Describe(Campaign& campaign) {
  Calibration& profile = campaign.outcome.profile;
  profile.name = campaign.options.name;
  if (!campaign.options.gpu.empty()) profile.gpus = {campaign.options.gpu};
  profile.provenance = campaign.options.machine;
  const int nodes =
      1 + *std::max_element(campaign.node_of_rank.begin(), campaign.node_of_rank.end());
  profile.provenance.emplace_back(
      "ranks", fmt::format("{} on {} node{}", campaign.ranks(), nodes, nodes == 1 ? "" : "s"));
  profile.provenance.insert(profile.provenance.end(), campaign.options.run.begin(),
                            campaign.options.run.end());
  profile.provenance.emplace_back(
      "method", fmt::format("{} medians of the times of repeated operations in step programs; "
                            "collectives run in fp32, and the times of the ranks are averaged",
                            IsCoarse(campaign.options) ? "quick:" : "thorough:"));
}

Attempt<Outcome> Run(Campaign& campaign) {
  Describe(campaign);
  NoteHealth(campaign, "device_before");
  if (auto measured = MeasureReference(campaign); !measured)
    return tl::unexpected(measured.error());
  for (const Part part : kParts) {
    // Prices of kernels need the start latency, and usually memory.
    const bool needed = part == Part::kLaunch || part == Part::kMemory;
    if (!campaign.Wants(part) && !(needed && campaign.WantsKernels())) continue;
    if (auto measured = MeasurePart(campaign, part); !measured)
      return tl::unexpected(measured.error());
    if (auto measured = MeasureReference(campaign); !measured)
      return tl::unexpected(measured.error());
  }
  campaign.outcome.profile.residuals = campaign.residuals.Take();
  NoteHealth(campaign, "device_after");
  NoticeDrift(campaign);
  const std::vector<calibration::Fault> faults = calibration::Check(campaign.outcome.profile);
  if (!faults.empty()) {
    return tl::unexpected(Failure{fmt::format("a measured value is impossible, {}: {}",
                                              faults.front().field, faults.front().message),
                                  false});
  }
  return std::move(campaign.outcome);
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
  // Gathers the nodes of all ranks.
  const runtime::Place& place = job.place();
  const auto gathered = job.Gather(fmt::format("{} {}", place.node, place.host));
  if (!gathered) return tl::unexpected(gathered.error());
  MeasurementState state("");
  std::string told;  // "refused: <why>", or the nodes of all ranks
  if (place.rank == 0) {
    std::vector<std::string> nodes;
    for (const std::string& text : *gathered) nodes.push_back(text.substr(0, text.find(' ')));
    told = fmt::format("{}", fmt::join(nodes, " "));
    const std::string binding = Binding(options, *gathered);
    state = MeasurementState(binding);
    if (!options.state.empty()) {
      auto before = MeasurementState::Parse(options.state);
      if (!before) {
        told = "refused: the file is damaged, or it does not contain the state of a calibration";
      } else if (before->binding() != state.binding()) {
        told = fmt::format(
            "refused: the machine or the options differ from the machine and the "
            "options of the file ({})",
            before->binding());
      } else {
        state = *std::move(before);
      }
    }
  }
  const auto heard = job.Broadcast(told);
  if (!heard) return tl::unexpected(heard.error());
  constexpr std::string_view kRefused = "refused: ";
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
  Campaign campaign(session, options, std::move(node_of_rank));
  return Run(campaign);
}

}  // namespace stepcast::calibrate
