#include "src/forecast/collective_forecast.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "src/base/nccl_tests_convention.h"
#include "src/cost/carry.h"
#include "src/cost/price.h"
#include "src/lowering/process_groups.h"
#include "src/network/carriage.h"
#include "src/network/message.h"
#include "src/program/program.h"
#include "src/topology/cluster.h"

namespace stepcast::forecast {
namespace {

using scenario::Scenario;

// In small letters, as the output has its words.
std::optional<std::string> ProtocolOf(const cost::CollectivePrice& price) {
  std::string name = price.protocol;
  if (name.empty()) return std::nullopt;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

tl::unexpected<Diagnostics> BadGroup(std::string option, std::string message, std::string hint) {
  return tl::unexpected(Diagnostics{
      {"command.bad-group", {std::move(option), 0, 0}, std::move(message), std::move(hint)}});
}

Result<std::vector<int>> RanksByName(const Scenario& scenario, const std::string& name) {
  const lowering::ProcessGroups groups = lowering::ProcessGroupsOf(scenario.plan, 0);
  const std::vector<int>* ranks = name == "data"      ? &groups.data
                                  : name == "shard"   ? &groups.shard
                                  : name == "replica" ? &groups.replica
                                                      : nullptr;
  const std::string option = "--group " + name;
  if (ranks == nullptr) {
    return BadGroup(option, fmt::format("there is no such group: {}", Quoted(name)),
                    "there are data, shard and replica; or give --ranks and --nodes");
  }
  if (ranks->size() < 2) {
    return BadGroup(option,
                    fmt::format("the plan's group has a single rank, which has nobody to "
                                "communicate with: {}",
                                Quoted(name)),
                    "name a group of several ranks, or give --ranks and --nodes");
  }
  return *ranks;
}

Result<std::vector<int>> RanksByNumber(const Scenario& scenario, const CollectiveGroup& group) {
  const topology::Cluster& cluster = *scenario.cluster;
  const int per_node = cluster.gpus_per_node();
  const int nodes = group.nodes   ? *group.nodes
                    : group.ranks ? (*group.ranks - 1) / per_node + 1
                                  : cluster.nodes();
  const std::string of_nodes = fmt::format("--nodes {}", nodes);
  if (nodes < 1 || nodes > cluster.nodes()) {
    return BadGroup(
        group.nodes ? of_nodes : fmt::format("--ranks {}", *group.ranks),
        fmt::format("the cluster has {} of {} GPUs: {} are asked for",
                    cluster.nodes() == 1 ? "1 node" : fmt::format("{} nodes", cluster.nodes()),
                    per_node, nodes),
        "give less, or a larger cluster with --set cluster.nodes=N");
  }
  const int ranks = group.ranks ? *group.ranks : nodes * per_node;
  const std::string of_ranks = fmt::format("--ranks {}", ranks);
  if (ranks < 2) {
    return BadGroup(group.ranks || !group.nodes ? of_ranks : of_nodes,
                    fmt::format("a collective needs at least two ranks: {}", ranks),
                    "give more ranks, or a larger cluster with --set cluster.nodes=N");
  }
  if (ranks % nodes != 0 || ranks / nodes > per_node) {
    return BadGroup(of_ranks,
                    fmt::format("{} ranks are not dealt out evenly to {} nodes of {} GPUs: {}",
                                ranks, nodes, per_node, ranks),
                    "give a multiple of --nodes, at most all their GPUs");
  }
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(ranks));
  for (int node = 0; node < nodes; ++node) {
    for (int gpu = 0; gpu < ranks / nodes; ++gpu) members.push_back(node * per_node + gpu);
  }
  return members;
}

int NodesOf(const topology::Cluster& cluster, const std::vector<int>& ranks) {
  std::set<int> nodes;
  for (const int rank : ranks) nodes.insert(rank / cluster.gpus_per_node());
  return static_cast<int>(nodes.size());
}

// How long each of the program's collectives takes with nothing beside it.
Result<std::vector<Time>> TimesAlone(const Scenario& scenario, program::Program& program,
                                     const cost::Prices& prices) {
  std::vector<Time> times;
  if (scenario.network == scenario::Fidelity::kAnalytic) {
    for (const cost::CollectivePrice& price : prices.collectives) {
      times.push_back(price.demand.alone());
    }
    return times;
  }
  // Each is run once.
  for (program::Index i = 0; i < program.collectives.size(); ++i) {
    program.step.push_back({.opcode = program::Opcode::kCollective, .operand = i});
  }
  const std::vector<program::ProcessGroup>* const groups[] = {&program.groups};
  const auto carriage = cost::Carry(scenario, program, prices, groups, 1);
  if (!carriage) return tl::unexpected(carriage.error());
  for (const std::uint32_t number : carriage->numbers.front()) {
    const network::Carriage::Collective& carried = carriage->collectives[number];
    times.push_back(carriage->messages
                        ? carried.delay + network::RunMessages(*carried.traffic).ends.front()
                        : carried.flow.latency + carried.flow.work);
  }
  return times;
}

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
  auto members =
      group.name.empty() ? RanksByNumber(scenario, group) : RanksByName(scenario, group.name);
  if (!members) return tl::unexpected(std::move(members.error()));

  CollectiveForecast forecast;
  forecast.op = op;
  forecast.ranks = static_cast<int>(members->size());
  forecast.nodes = NodesOf(*scenario.cluster, *members);
  forecast.group = !group.name.empty()                             ? group.name
                   : forecast.ranks == scenario.cluster->devices() ? "all"
                                                                   : "part";

  // A program that consists of the collectives alone has the prices of a step's.
  program::Program program;
  program.groups.push_back({.name = forecast.group, .ranks = *std::move(members)});
  program.communicators.push_back({.name = forecast.group, .group = 0});
  for (Bytes asked = from; asked <= to; asked = Bytes(asked.count() * 2)) {
    program.collectives.push_back({.kind = op,
                                   .communicator = 0,
                                   .bytes = NcclTestsSize(op, asked, forecast.ranks),
                                   .data_type = DataType::kFp32});
  }
  const auto prices = cost::Price(program, scenario);
  if (!prices) return tl::unexpected(prices.error());
  const auto times = TimesAlone(scenario, program, *prices);
  if (!times) return tl::unexpected(times.error());
  forecast.network = scenario.network;
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    const cost::CollectivePrice& price = prices->collectives[i];
    forecast.rows.push_back(
        {.size = program.collectives[i].bytes,
         .time = (*times)[i],
         .algorithm = price.algorithm,
         .protocol = ProtocolOf(price),
         .channels = price.channels > 0 ? std::optional(price.channels) : std::nullopt,
         .provenance = price.demand.provenance});
  }
  return forecast;
}

}  // namespace stepcast::forecast
