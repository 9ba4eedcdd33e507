
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/collective_flows.h"
#include "src/cost/link_loads.h"
#include "src/network/analytic.h"
#include "src/network/cluster_network.h"
#include "src/network/group_steps.h"
#include "src/network/traffic.h"

namespace stepcast::cost {
namespace {

using network::CollectiveTraffic;
using network::Traffic;
using program::Index;

// Number of bisections for the rate at which messages are sent.
constexpr int kHalvings = 24;

std::int64_t MessagesOf(const Traffic& traffic) {
  std::int64_t messages = 0;
  for (const network::Connection& connection : traffic.connections()) {
    messages += connection.messages * traffic.list().loops();
  }
  return messages;
}

class Router {
 public:
  Router(const scenario::Scenario& scenario, int steps) : scenario_(scenario), run_steps_(steps) {
    traffic_.messages = scenario.network == scenario::Fidelity::kMessage;
  }

  Result<CollectiveTraffic> Run(std::span<const RankClass> classes) {
    STEPCAST_TAKE(traffic_.cluster, NetworkOf(scenario_));
    traffic_.links = static_cast<std::uint32_t>(traffic_.cluster->network.links());
    steps_.emplace(*traffic_.cluster);
    link_loads_.emplace(*traffic_.cluster);
    router_.emplace(traffic_.cluster->network);
    if (traffic_.messages) {
      STEPCAST_TAKE(const auto foreseen, ForeseenMessages(classes));
      if (foreseen > static_cast<double>(kMostMessages)) return TooMany(foreseen);
    }
    for (const RankClass& own : classes) {
      kind_of_rank_[own.representative] = {own.program, own.prices};
    }
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const RankClass& own = classes[c];
      if (c > 0 && own.groups == classes[c - 1].groups && own.program == classes[c - 1].program &&
          own.program->exchanges.empty()) {
        traffic_.numbers.push_back(traffic_.numbers.back());
        traffic_.message_numbers.emplace_back();
        continue;
      }
      if (c == 0 || own.program != classes[c - 1].program) CountCalls(*own.program);
      STEPCAST_TRY(AddClass(own));
    }
    if (messages_ > kMostMessages) return TooMany(static_cast<double>(messages_));
    return std::move(traffic_);
  }

 private:
  tl::unexpected<Diagnostics> TooMany(double messages) const {
    return tl::unexpected(Diagnostics{
        {.code = "cost.too-many-messages",
         .location = scenario_.cluster_location,
         .message = fmt::format("the collectives of the simulated steps send {:.1f} billion "
                                "messages; the maximum is {} billion",
                                messages / 1e9, kMostMessages / 1'000'000'000),
         .hint = "use --network flow, which simulates shared links but not individual messages"}});
  }

  // The number of messages that collectives send, before any is routed. The collectives of a
  // program's first rank stand for those of all its ranks.
  Result<double> ForeseenMessages(std::span<const RankClass> classes) {
    std::vector<std::pair<const RankClass*, int>> programs;  // the first rank of each, its ranks
    for (const RankClass& own : classes) {
      const auto known = std::find_if(programs.begin(), programs.end(), [&](const auto& program) {
        return program.first->program == own.program;
      });
      if (known == programs.end()) {
        programs.emplace_back(&own, 1);
      } else {
        ++known->second;
      }
    }
    double foreseen = 0;
    for (const auto& [own, ranks] : programs) {
      std::map<std::tuple<Index, std::string_view, CollectiveKind, std::int64_t>, std::int64_t>
          counts;
      const program::Program& program = *own->program;
      CountCalls(program);
      for (Index i = 0; i < program.collectives.size(); ++i) {
        const program::Collective& collective = program.collectives[i];
        const Index group = program.communicators[collective.communicator].group;
        const std::vector<int>& members = (*own->groups)[group].ranks;
        if (members.size() < 2) continue;
        const auto& algorithm = own->prices->collectives[i].algorithm;
        const auto [count, added] =
            counts.try_emplace({group, algorithm, collective.kind, collective.bytes.count()});
        if (added) {
          auto messages = CountMessages(members, algorithm, collective.kind, collective.bytes);
          if (!messages) return tl::unexpected(NoNetwork(scenario_, messages.error()));
          count->second = *messages;
        }
        foreseen += static_cast<double>(times_[i]) * static_cast<double>(count->second) * ranks /
                    static_cast<double>(members.size());
      }
      auto sent = ForeseenSends(*own);
      if (!sent) return tl::unexpected(NoNetwork(scenario_, sent.error()));
      foreseen += *sent * ranks;
    }
    return foreseen;
  }

  tl::expected<std::int64_t, network::Fault> CountMessages(const std::vector<int>& ranks,
                                                           const char* algorithm,
                                                           CollectiveKind kind, Bytes bytes) {
    const network::PlacedSteps placed = steps_->Make(ranks, algorithm, kind, bytes);
    STEPCAST_TAKE(auto traffic,
                  Traffic::Make(*placed.list, traffic_.cluster->network, placed.places, *router_));
    return MessagesOf(traffic);
  }

  // The number of messages that the rank sends to other stages.
  tl::expected<double, network::Fault> ForeseenSends(const RankClass& own) {
    double foreseen = 0;
    for (Index e = 0; e < own.program->exchanges.size(); ++e) {
      const program::Exchange& exchange = own.program->exchanges[e];
      const program::ProcessGroup& group =
          (*own.groups)[own.program->communicators[exchange.communicator].group];
      const int position = group.PositionOf(own.representative);
      for (const program::Message& message : exchange.messages) {
        const int peer =
            exchange.PeerPosition(message, position, static_cast<int>(group.ranks.size()));
        if (message.direction == program::MessageDirection::kReceive || peer == position) continue;
        STEPCAST_TAKE(
            const auto count,
            CountMessages({own.representative, group.ranks[static_cast<std::size_t>(peer)]},
                          "pairwise", CollectiveKind::kScatter, 2 * message.bytes));
        foreseen += static_cast<double>(exchange_times_[e]) * static_cast<double>(count);
      }
    }
    return foreseen;
  }

  // Counts how often the program runs each of its collectives and exchanges.
  void CountCalls(const program::Program& program) {
    times_.assign(program.collectives.size(), 0);
    exchange_times_.assign(program.exchanges.size(), 0);
    const auto count = [&](const std::vector<program::Instruction>& instructions, std::int64_t by) {
      for (const program::Instruction& instruction : instructions) {
        if (instruction.opcode == program::Opcode::kCollective) times_[instruction.operand] += by;
        if (instruction.opcode == program::Opcode::kExchange) {
          exchange_times_[instruction.operand] += by;
        }
      }
    };
    count(program.prologue, 1);
    count(program.step, run_steps_);
  }

  // The number of a group that contains ranks of a class.
  int IdOf(const std::vector<int>& ranks, const RankClass& own) {
    const auto [id, added] = group_ids_.emplace(ranks, static_cast<int>(group_ids_.size()));
    if (added) AddKinds(own, ranks);
    return id->second;
  }

  // Adds the known kinds of the next group's ranks.
  void AddKinds(const RankClass& own, const std::vector<int>& ranks) {
    std::vector<RankClass>& kinds = kinds_of_group_.emplace_back();
    kinds.push_back({own.program, own.prices});
    for (const int rank : ranks) {
      const auto known = kind_of_rank_.find(rank);
      if (known == kind_of_rank_.end()) continue;
      if (std::none_of(kinds.begin(), kinds.end(),
                       [&](const RankClass& kind) { return kind.IsAlike(known->second); })) {
        kinds.push_back(known->second);
      }
    }
  }

  tl::expected<void, Diagnostics> AddClass(const RankClass& own) {
    const program::Program& program = *own.program;
    const std::vector<program::ProcessGroup>& groups = *own.groups;
    std::vector<int> ids;  // [group]
    std::vector<bool> is_new;
    for (const program::ProcessGroup& group : groups) {
      const std::size_t known = kinds_of_group_.size();
      ids.push_back(IdOf(group.ranks, own));
      is_new.push_back(kinds_of_group_.size() > known);
    }
    std::vector<std::uint32_t>& numbers = traffic_.numbers.emplace_back();
    for (Index i = 0; i < program.collectives.size(); ++i) {
      const Index group = program.communicators[program.collectives[i].communicator].group;
      if (groups[group].ranks.size() < 2) {
        numbers.push_back(CollectiveTraffic::kLocal);
        continue;
      }
      const program::Collective& collective = program.collectives[i];
      const CollectivePrice& price =
          SlowestPrice(kinds_of_group_[static_cast<std::size_t>(ids[group])], i);
      const auto added = Add({.kind = collective.kind,
                              .bytes = collective.bytes,
                              .algorithm = price.algorithm,
                              .price = price.demand,
                              .times = times_[i]},
                             groups[group].ranks, ids[group], is_new[group]);
      if (!added) return tl::unexpected(NoNetwork(scenario_, added.error()));
      numbers.push_back(*added);
    }
    return AddMessages(own);
  }

  tl::expected<void, Diagnostics> AddMessages(const RankClass& own) {
    std::vector<std::uint32_t>& numbers = traffic_.message_numbers.emplace_back();
    for (Index e = 0; e < own.program->exchanges.size(); ++e) {
      const program::Exchange& exchange = own.program->exchanges[e];
      const program::ProcessGroup& group =
          (*own.groups)[own.program->communicators[exchange.communicator].group];
      const int position = group.PositionOf(own.representative);
      for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
        const program::Message& message = exchange.messages[i];
        const int peer =
            exchange.PeerPosition(message, position, static_cast<int>(group.ranks.size()));
        if (message.direction == program::MessageDirection::kReceive || peer == position) {
          numbers.push_back(CollectiveTraffic::kLocal);
          continue;
        }
        const std::vector<int> ends = {own.representative,
                                       group.ranks[static_cast<std::size_t>(peer)]};
        const auto added = Add({.message = true,
                                .kind = CollectiveKind::kScatter,
                                .bytes = traffic_.messages ? 2 * message.bytes : message.bytes,
                                .algorithm = "pairwise",
                                .price = own.prices->exchanges[e][i].demand,
                                .times = exchange_times_[e]},
                               ends, IdOf(ends, own), /*is_new=*/true);
        if (!added) return tl::unexpected(NoNetwork(scenario_, added.error()));
        numbers.push_back(*added);
      }
    }
    return {};
  }

  struct Call {
    bool message = false;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Bytes bytes;
    const char* algorithm = "";
    const Demand& price;
    std::int64_t times = 1;
  };

  // Returns the number of a collective. Equal collectives of the same ranks share one number.
  tl::expected<std::uint32_t, network::Fault> Add(const Call& call, const std::vector<int>& ranks,
                                                  int group, bool is_new) {
    const Key key = {group,          call.kind,          call.bytes.count(),
                     call.algorithm, call.price.latency, call.price.work};
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) {
      if (is_new) messages_ += call.times * message_counts_[known->second];
      return known->second;
    }
    CollectiveTraffic::Collective routed;
    std::int64_t messages = 0;
    if (traffic_.messages) {
      if (messages_ > kMostMessages) return 0U;  // refused anyway
      network::PlacedSteps placed = steps_->Make(ranks, call.algorithm, call.kind, call.bytes);
      STEPCAST_TAKE(auto traffic, Traffic::Make(*placed.list, traffic_.cluster->network,
                                                placed.places, *router_));
      messages = MessagesOf(traffic);
      routed.list = std::move(placed.list);
      if (messages <= kMostMessages) Throttle(traffic, call.price, routed);
    } else {
      STEPCAST_TAKE(const auto load, LoadOf(ranks, group, call));
      routed.flow = FlowOf(*load, call.bytes, call.price);
    }
    messages_ += call.times * messages;
    message_counts_.push_back(messages);
    const auto number = static_cast<std::uint32_t>(traffic_.collectives.size());
    traffic_.collectives.push_back(std::move(routed));
    numbers_.emplace(key, number);
    return number;
  }

  tl::expected<const LinkLoads::Load*, network::Fault> LoadOf(const std::vector<int>& ranks,
                                                              int group, const Call& call) {
    const std::tuple key(group, std::string_view(call.algorithm), call.kind);
    const auto found = loads_.find(key);
    if (found != loads_.end()) return &found->second;
    STEPCAST_TAKE(auto load, call.message ? link_loads_->OfMessage(ranks.front(), ranks.back())
                                          : link_loads_->Of(ranks, call.algorithm, call.kind));
    return &loads_.emplace(key, std::move(load)).first->second;
  }

  static network::FlowDemand FlowOf(const LinkLoads::Load& load, Bytes bytes, const Demand& price) {
    network::FlowDemand flow{.latency = price.latency, .work = FlowWork(load, bytes, price)};
    for (const auto& [link, busy] : load.busy) {
      const auto part = engine::SharedResources::Share(FlowShare(busy, bytes, flow.work));
      if (part > 0) flow.uses.push_back({.resource = link, .share = part});
    }
    return flow;
  }

  static void Throttle(const Traffic& traffic, const Demand& price,
                       CollectiveTraffic::Collective& routed) {
    const Time links = traffic.transfer();
    const Time work = LongerWork(price.work, links);
    const Time total = price.latency + work;
    const auto time_at = [&](double part) {
      return network::PriceAnalytically(traffic.Slowed(part)).total;
    };
    double part = work > links && links > Time() ? links.seconds() / work.seconds() : 1.0;
    Time alone = time_at(part);
    if (alone > total && part < 1) {
      double slow = part;
      double fast = 1;
      for (int i = 0; i < kHalvings; ++i) {
        part = (slow + fast) / 2;
        (time_at(part) > total ? slow : fast) = part;
      }
      part = fast;
      alone = time_at(part);
    }
    routed.delay = std::max(Time(), total - alone);
    routed.traffic = std::make_unique<Traffic>(traffic.Slowed(part));
  }

  using Key = std::tuple<int, CollectiveKind, std::int64_t, std::string_view, Time, Time>;

  const scenario::Scenario& scenario_;
  const int run_steps_;
  CollectiveTraffic traffic_;
  std::optional<network::GroupSteps> steps_;
  std::optional<LinkLoads> link_loads_;
  std::optional<network::Network::Router> router_;
  std::vector<std::int64_t> times_;  // [collective]: how often the class runs it
  std::vector<std::int64_t> exchange_times_;
  std::unordered_map<int, RankClass> kind_of_rank_;
  std::map<std::vector<int>, int> group_ids_;
  std::vector<std::vector<RankClass>> kinds_of_group_;
  std::map<Key, std::uint32_t> numbers_;
  std::vector<std::int64_t> message_counts_;  // [number]
  std::map<std::tuple<int, std::string_view, CollectiveKind>, LinkLoads::Load> loads_;
  std::int64_t messages_ = 0;
};

}  // namespace

Result<CollectiveTraffic> RouteCollectives(const scenario::Scenario& scenario,
                                           std::span<const RankClass> classes, int steps) {
  return Router(scenario, steps).Run(classes);
}

}  // namespace stepcast::cost
