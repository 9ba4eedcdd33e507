#include "src/forecast/collective_forecast.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/base/nccl_tests_convention.h"
#include "src/cost/collective_flows.h"
#include "src/cost/nccl_price.h"
#include "src/cost/nccl_setting.h"
#include "src/cost/price.h"
#include "src/cost/prices.h"
#include "src/forecast/simulated_ranks.h"
#include "src/lowering/step_parts.h"
#include "src/network/collective_traffic.h"
#include "src/network/group_steps.h"
#include "src/network/message.h"
#include "src/parallel/group_layout.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/scenario/job_devices.h"
#include "src/simulate/simulate.h"
#include "src/topology/cluster.h"
#include "src/topology/routes.h"

namespace stepcast::forecast {
namespace {

using parallel::GroupLayout;
using scenario::Scenario;

// In lower case, like other words in the output.
std::string ProtocolOf(const cost::CollectivePrice& price) {
  std::string name = price.protocol;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

tl::unexpected<Diagnostics> BadGroup(std::string option, std::string message, std::string hint) {
  return tl::unexpected(Diagnostics{
      {"command.bad-group", {std::move(option), 0, 0}, std::move(message), std::move(hint)}});
}

Result<program::ProcessGroup> GroupByName(const Scenario& scenario, const std::string& name) {
  const lowering::ProcessGroups groups = lowering::ProcessGroupsOf(plan::GridsOf(scenario.plan), 0);
  const GroupLayout* layout = name == "data"      ? &groups.data
                              : name == "shard"   ? &groups.shard
                              : name == "replica" ? &groups.replica
                                                  : nullptr;
  const std::string option = "--group " + name;
  if (layout == nullptr) {
    return BadGroup(
        option, fmt::format("the plan has no group of ranks with this name: {}", Quoted(name)),
        "write --group data, --group shard or --group replica, or use --ranks and --nodes instead");
  }
  if (layout->size() < 2) {
    return BadGroup(
        option, fmt::format("the group has only one rank in this plan: {}", Quoted(name)),
        "choose a group of several ranks with --group, or use --ranks and --nodes instead");
  }
  return program::ProcessGroup{.name = name, .ranks = layout->Ranks(0), .layout = *layout};
}

Result<program::ProcessGroup> GroupByNumber(const Scenario& scenario,
                                            const CollectiveGroup& group) {
  const topology::Cluster& cluster = *scenario.cluster;
  const int per_node = cluster.gpus_per_node();
  const int nodes = group.nodes   ? *group.nodes
                    : group.ranks ? (*group.ranks - 1) / per_node + 1
                                  : cluster.nodes();
  const std::string of_nodes = fmt::format("--nodes {}", nodes);
  if (nodes < 1 || nodes > cluster.nodes()) {
    return BadGroup(
        group.nodes ? of_nodes : fmt::format("--ranks {}", *group.ranks),
        fmt::format("the cluster consists of {} of {} GPUs, but the group needs {} nodes",
                    cluster.nodes() == 1 ? "1 node" : fmt::format("{} nodes", cluster.nodes()),
                    per_node, nodes),
        "reduce --ranks or --nodes, or set a larger cluster: --set cluster.nodes=N");
  }
  const int ranks = group.ranks ? *group.ranks : nodes * per_node;
  const std::string of_ranks = fmt::format("--ranks {}", ranks);
  if (ranks < 2) {
    return BadGroup(group.ranks || !group.nodes ? of_ranks : of_nodes,
                    fmt::format("a collective needs at least two ranks, not {}", ranks),
                    "increase --ranks, or set a larger cluster: --set cluster.nodes=N");
  }
  if (ranks % nodes != 0 || ranks / nodes > per_node) {
    return BadGroup(
        of_ranks,
        fmt::format("a group of {} ranks cannot have the same number of GPUs on each of {} nodes "
                    "of {} GPUs: {}",
                    ranks, nodes, per_node, ranks),
        "set --ranks to a multiple of --nodes, and to at most the number of GPUs of these nodes");
  }
  const int local = ranks / nodes;
  if (group.siblings && (per_node % local != 0 || cluster.nodes() % nodes != 0)) {
    return BadGroup(
        "--siblings",
        fmt::format(
            "a cluster of {} nodes of {} GPUs cannot be divided into groups of {} ranks on {}: {}",
            cluster.nodes(), per_node, ranks,
            nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes), ranks),
        "set --ranks and --nodes so that each GPU is in one group, or omit --siblings");
  }
  program::ProcessGroup own{.name = ranks == cluster.devices() ? "all" : "part"};
  for (int node = 0; node < nodes; ++node) {
    for (int gpu = 0; gpu < local; ++gpu) own.ranks.push_back(node * per_node + gpu);
  }
  if (group.siblings) {
    own.layout = GroupLayout(
        cluster.devices(), {{.stride = 1, .degree = local}, {.stride = per_node, .degree = nodes}});
  }
  return own;
}

Result<program::ProcessGroup> GroupOf(const Scenario& scenario, const CollectiveGroup& group) {
  return group.name.empty() ? GroupByNumber(scenario, group) : GroupByName(scenario, group.name);
}

int NodesOf(const topology::Cluster& cluster, const std::vector<int>& ranks) {
  std::set<int> nodes;
  for (const int rank : ranks) nodes.insert(rank / cluster.gpus_per_node());
  return static_cast<int>(nodes.size());
}

// The time of each of the program's collectives with no other operation.
Result<std::vector<Time>> TimesAlone(const Scenario& scenario, program::Program& program,
                                     const cost::Prices& prices) {
  std::vector<Time> times;
  if (scenario.network == scenario::Fidelity::kAnalytic) {
    for (const cost::CollectivePrice& price : prices.collectives) {
      times.push_back(price.demand.uncontended());
    }
    return times;
  }
  // Each is run once.
  for (program::Index i = 0; i < program.collectives.size(); ++i) {
    program.step.push_back({.opcode = program::Opcode::kCollective, .operand = i});
  }
  const cost::RankClass only{.program = &program, .prices = &prices, .groups = &program.groups};
  STEPCAST_TAKE(const auto traffic, cost::RouteCollectives(scenario, {&only, 1}, 1));
  for (const std::uint32_t number : traffic.numbers.front()) {
    const network::CollectiveTraffic::Collective& routed = traffic.collectives[number];
    times.push_back(traffic.messages
                        ? routed.delay + network::RunMessages(*routed.traffic).ends.front()
                        : routed.flow.latency + routed.flow.work);
  }
  return times;
}

// Runs the program in all groups of its layout at once; every rank is simulated.
struct AllRanks {
  AllRanks(const program::Program& program, const cost::Prices& prices) {
    for (const std::vector<int>& ranks : program.groups.front().layout.Groups()) {
      groups.push_back({{.name = program.groups.front().name, .ranks = ranks}});
    }
    for (const std::vector<program::ProcessGroup>& group : groups) {
      for (const int rank : group.front().ranks) {
        classes.push_back({.program = &program,
                           .prices = &prices,
                           .representative = rank,
                           .groups = &group,
                           .records = false});
      }
    }
  }
  std::vector<std::vector<program::ProcessGroup>> groups;
  std::vector<simulate::RankClass> classes;
};

Result<std::vector<program::Timeline>> RunAll(const Scenario& scenario,
                                              const program::Program& program,
                                              const cost::Prices& prices) {
  const auto simulated = [](std::span<const simulate::RankClass> classes,
                            const network::CollectiveTraffic& traffic) {
    auto timelines = simulate::Simulate(classes, {.traffic = &traffic});
    STEPCAST_CHECK(timelines.has_value(), "the simulation of one collective must not deadlock");
    return *std::move(timelines);
  };
  if (scenario.network == scenario::Fidelity::kFlow) {
    const GroupLayout& layout = program.groups.front().layout;
    const std::vector<std::int64_t> alike(static_cast<std::size_t>(layout.ranks()), 0);
    const cost::RankClass kind{&program, &prices};
    STEPCAST_TAKE(const auto ranks, FlowRanksOf(scenario, alike, {&kind, 1}, {layout}));
    return simulated(ranks.classes, *ranks.traffic);
  }
  const AllRanks all(program, prices);
  STEPCAST_TAKE(const auto traffic, cost::RouteCollectives(scenario, all.classes, 1));
  return simulated(all.classes, traffic);
}

// The time of each collective when all groups of the layout run it at the same time.
Result<std::vector<Time>> TimesOfAll(const Scenario& scenario, const program::Program& program,
                                     const cost::Prices& prices) {
  program::Program one = program;
  one.streams.push_back({.name = "nccl"});
  one.step.push_back({.opcode = program::Opcode::kCollective, .operand = 0});
  cost::Prices own = prices;
  own.issue_collective = Time();
  std::vector<Time> times;
  for (program::Index i = 0; i < program.collectives.size(); ++i) {
    one.collectives = {program.collectives[i]};
    own.collectives = {prices.collectives[i]};
    STEPCAST_TAKE(const auto timelines, RunAll(scenario, one, own));
    Time last;
    for (const program::Timeline& timeline : timelines) {
      last = std::max(last, timeline.step_ends.front());
    }
    times.push_back(last);
  }
  return times;
}

// The kinds of nodes with ranks of these groups.
std::vector<int> KindsOf(const program::ProcessGroup& own, const Scenario& scenario) {
  if (own.layout.groups() < 2) return scenario::KindsOf(scenario, own.ranks);
  std::vector<int> ranks;
  for (const std::vector<int>& group : own.layout.Groups()) {
    ranks.insert(ranks.end(), group.begin(), group.end());
  }
  return scenario::KindsOf(scenario, ranks);
}

struct SlowestPrices {
  cost::Prices prices;
  std::vector<int> kinds;  // [collective]: the kind of nodes on which it is slowest
};

// A collective across kinds of nodes takes as long as on the slowest kind.
Result<SlowestPrices> SlowestPricesOf(const program::Program& program, const Scenario& scenario) {
  std::optional<SlowestPrices> slowest;
  for (const int kind : KindsOf(program.groups.front(), scenario)) {
    STEPCAST_TAKE(auto own, cost::Price(program, scenario::OfKind(scenario, kind)));
    if (!slowest) slowest = {own, std::vector<int>(own.collectives.size(), kind)};
    for (std::size_t i = 0; i < own.collectives.size(); ++i) {
      cost::CollectivePrice& price = slowest->prices.collectives[i];
      if (own.collectives[i].demand.uncontended() <= price.demand.uncontended()) continue;
      price = own.collectives[i];
      slowest->kinds[i] = kind;
    }
  }
  return *std::move(slowest);
}

// The range of a price, and a faster choice than NCCL's, on one kind of nodes.
class RanksOnAKind {
 public:
  RanksOnAKind(const Scenario& scenario, int kind, const std::vector<int>& ranks)
      : scenario_(scenario::OfKind(scenario, kind)),
        path_(scenario_.cluster->PathOf(ranks)),
        shape_(cost::ShapeOf(ranks, scenario_.cluster->gpus_per_node())) {
    if (auto setting = cost::NcclSettingOf(scenario_)) pricer_.emplace(std::move(*setting));
  }
  RanksOnAKind(const RanksOnAKind&) = delete;
  RanksOnAKind& operator=(const RanksOnAKind&) = delete;

  TimeRange RangeOf(Time time, Bytes bytes, cost::Provenance provenance) const {
    const cost::CollectiveSpread spread = cost::SpreadOf(provenance, bytes, path_);
    const auto times = [&](double factor) {
      return Picoseconds(std::llround(factor * static_cast<double>(time.picoseconds())));
    };
    return {.low = times(spread.low), .high = times(spread.high)};
  }

  std::optional<FasterChoice> Faster(const program::Collective& collective) {
    if (!pricer_) return std::nullopt;
    const auto choice = pricer_->FasterByLaw({collective.kind, collective.bytes, path_, shape_});
    if (!choice) return std::nullopt;
    return FasterChoice{.algorithm = choice->fastest.algorithm,
                        .protocol = ProtocolOf(choice->fastest),
                        .time = choice->fastest.demand.uncontended(),
                        .of_own = choice->taken.demand.uncontended()};
  }

 private:
  const Scenario scenario_;  // for one kind of nodes; the pricer refers to it
  const topology::CommunicationPath path_;
  const cost::GroupShape shape_;
  std::optional<cost::NcclPricer> pricer_;
};

}  // namespace

double CollectiveForecast::AlgorithmBandwidth(const CollectiveRow& row) const {
  if (row.time == Time()) return 0;
  // Bytes over picoseconds are TB/s.
  return static_cast<double>(row.size.count()) / static_cast<double>(row.time.picoseconds()) * 1e3;
}

double CollectiveForecast::BusBandwidth(const CollectiveRow& row) const {
  return AlgorithmBandwidth(row) * BusFactor(op, ranks);
}

Result<CollectiveForecast> ForecastCollective(const Scenario& scenario, CollectiveKind op,
                                              const CollectiveGroup& group, Bytes from, Bytes to) {
  STEPCAST_TAKE(auto own, GroupOf(scenario, group));
  if (!group.siblings) own.layout = {};

  CollectiveForecast forecast;
  forecast.op = op;
  forecast.ranks = static_cast<int>(own.ranks.size());
  forecast.nodes = NodesOf(*scenario.cluster, own.ranks);
  forecast.group = own.name;
  if (group.siblings) forecast.groups = own.layout.groups();

  // A program with only the collectives has the same prices as a step.
  program::Program program;
  program.groups.push_back(std::move(own));
  program.communicators.push_back({.name = forecast.group, .group = 0});
  for (Bytes asked = from; asked <= to; asked = Bytes(asked.count() * 2)) {
    program.collectives.push_back({.kind = op,
                                   .communicator = 0,
                                   .bytes = NcclTestsSize(op, asked, forecast.ranks),
                                   .data_type = DataType::kFp32});
  }
  STEPCAST_TAKE(const auto slowest, SlowestPricesOf(program, scenario));
  const cost::Prices& prices = slowest.prices;
  const bool all = group.siblings && scenario.network != scenario::Fidelity::kAnalytic;
  STEPCAST_TAKE(const auto times, all ? TimesOfAll(scenario, program, prices)
                                      : TimesAlone(scenario, program, prices));
  forecast.network = scenario.network;
  std::map<int, RanksOnAKind> machines;  // by kind of nodes
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    const cost::CollectivePrice& price = prices.collectives[i];
    const std::string protocol = ProtocolOf(price);
    CollectiveRow& row = forecast.rows.emplace_back(
        CollectiveRow{.size = program.collectives[i].bytes,
                      .time = times[i],
                      .algorithm = price.algorithm,
                      .protocol = protocol.empty() ? std::nullopt : std::optional(protocol),
                      .channels = price.channels > 0 ? std::optional(price.channels) : std::nullopt,
                      .provenance = price.demand.provenance});
    if (!row.protocol) continue;  // a user's table, or the textbook
    const int kind = slowest.kinds[i];
    const auto machine =
        machines.try_emplace(kind, scenario, kind, program.groups.front().ranks).first;
    row.range = machine->second.RangeOf(row.time, row.size, row.provenance);
    row.faster = machine->second.Faster(program.collectives[i]);
  }
  return forecast;
}

Result<std::vector<CollectiveSteps>> StepsOf(const Scenario& scenario, const CollectiveGroup& group,
                                             const CollectiveForecast& forecast) {
  std::vector<CollectiveSteps> all;
  if (forecast.ranks > kMostDrawnRanks) return all;
  STEPCAST_TAKE(const auto own, GroupOf(scenario, group));
  STEPCAST_TAKE(const auto cluster, cost::NetworkOf(scenario));
  const network::GroupSteps steps(*cluster);
  for (const CollectiveRow& row : forecast.rows) {
    const network::PlacedSteps placed = steps.Make(own.ranks, row.algorithm, forecast.op, row.size);
    const collective::StepList& list = *placed.list;
    if (std::any_of(all.begin(), all.end(), [&](const CollectiveSteps& known) {
          return known.algorithm == list.algorithm();
        })) {
      continue;
    }
    CollectiveSteps& added = all.emplace_back();
    added.algorithm = list.algorithm();
    added.size = row.size;
    added.channels = list.channels();
    added.blocks = list.partition().blocks();
    for (int i = 0; i < list.participants(); ++i) {
      added.participants.push_back(
          i < list.ranks() ? fmt::format("rank {}", placed.places[static_cast<std::size_t>(i)])
                           : fmt::format("switch {}", i - list.ranks()));
    }
    added.messages = collective::MessagesByRound(list);
  }
  return all;
}

}  // namespace stepcast::forecast
