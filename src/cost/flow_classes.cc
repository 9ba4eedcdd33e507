
#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/collective_flows.h"
#include "src/cost/link_loads.h"
#include "src/engine/shared_resources.h"

namespace stepcast::cost {
namespace {

using network::CollectiveTraffic;
using parallel::Meeting;
using program::Index;

// A load with the last twenty bits cleared, so that loads that differ only by rounding are equal.
std::int64_t Rounded(double load) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 19;
  return (std::bit_cast<std::int64_t>(load) + kHalf) & ~(2 * kHalf - 1);
}

// The pattern in which a collective loads links.
using Pattern = std::pair<std::string_view, CollectiveKind>;

// Recurring traffic: bytes at a price.
struct Sending {
  Bytes bytes;
  const Demand* price = nullptr;
};

// The collectives of one pattern on one communicator.
struct Calls {
  std::size_t pattern = 0;
  std::vector<Sending> sendings;
};

// The traffic of ranks of a kind in their groups of a layout.
struct GroupCalls {
  std::vector<Pattern> patterns;
  std::vector<std::vector<Calls>> communicators;
};

// The messages of a kind to one peer.
struct Channel {
  Index communicator = 0;
  program::PeerNaming peers = program::PeerNaming::kPosition;
  int peer = 0;
  std::vector<std::vector<Sending>> exchanges;
};

class Classifier {
 public:
  Classifier(const scenario::Scenario& scenario, std::span<const std::int64_t> labels,
             std::span<const RankClass> kinds, std::span<const parallel::GroupLayout> layouts)
      : scenario_(scenario), labels_(labels), kinds_(kinds), layouts_(layouts) {}

  Result<FlowClasses> Run() {
    STEPCAST_TAKE(auto made, NetworkOf(scenario_));
    CollectiveTraffic& traffic = result_.traffic;
    traffic.cluster = std::move(made);
    loads_of_.emplace(*traffic.cluster);
    most_used_.assign(static_cast<std::size_t>(traffic.cluster->network.links()), 0);
    most_of_call_ = most_used_;
    if (auto added = AddGroups(); !added) {
      return tl::unexpected(NoNetwork(scenario_, added.error()));
    }
    if (auto added = AddMessages(); !added) {
      return tl::unexpected(NoNetwork(scenario_, added.error()));
    }
    Colour();
    for (const std::vector<int>& ranks : result_.classes.ranks) AddClass(ranks.front());
    return std::move(result_);
  }

 private:
  const RankClass& KindOf(int rank) const {
    return kinds_[static_cast<std::size_t>(labels_[static_cast<std::size_t>(rank)])];
  }

  // The kinds of a group's ranks, given the ranks' labels.
  std::vector<RankClass> KindsOf(const std::vector<std::int64_t>& labels) const {
    std::vector<RankClass> kinds;
    for (const std::int64_t label : labels) {
      kinds.push_back(kinds_[static_cast<std::size_t>(label)]);
    }
    return kinds;
  }

  GroupCalls CallsOf(const std::vector<RankClass>& kinds, std::size_t layout) const {
    GroupCalls calls;
    const program::Program& program = *kinds.front().program;
    for (Index c = 0; c < program.communicators.size(); ++c) {
      if (program.groups[program.communicators[c].group].layout != layouts_[layout]) continue;
      std::vector<Calls> own;
      for (Index i = 0; i < program.collectives.size(); ++i) {
        const program::Collective& collective = program.collectives[i];
        if (collective.communicator != c) continue;
        const CollectivePrice& price = SlowestPrice(kinds, i);
        const Pattern pattern(price.algorithm, collective.kind);
        const auto known = std::find(calls.patterns.begin(), calls.patterns.end(), pattern);
        const auto at = static_cast<std::size_t>(known - calls.patterns.begin());
        if (known == calls.patterns.end()) calls.patterns.push_back(pattern);
        auto of = std::find_if(own.begin(), own.end(),
                               [at](const Calls& other) { return other.pattern == at; });
        if (of == own.end()) of = own.insert(of, Calls{.pattern = at, .sendings = {}});
        of->sendings.push_back({collective.bytes, &price.demand});
      }
      if (!own.empty()) calls.communicators.push_back(std::move(own));
    }
    return calls;
  }

  // The largest part of a link's bandwidth that any of the calls uses. `load`: seconds per byte on
  // the link.
  static double MostUsed(const std::vector<Sending>& sendings, const LinkLoads::Load& load) {
    double most = 0;
    for (const Sending& sending : sendings) {
      const Time work = FlowWork(load, sending.bytes, *sending.price);
      if (work == Time()) continue;
      most = std::max(most, static_cast<double>(sending.bytes.count()) / work.seconds());
    }
    return most;
  }

  // Adds the part of links that a group's communicators may use at once, with one collective per
  // communicator.
  void AddMostUsed(const GroupCalls& calls, const std::vector<LinkLoads::Load>& loads) {
    for (const std::vector<Calls>& communicator : calls.communicators) {
      std::vector<std::uint32_t> used;
      for (const Calls& of : communicator) {
        const LinkLoads::Load& load = loads[of.pattern];
        const double most = MostUsed(of.sendings, load);
        for (const auto& [link, busy] : load.busy) {
          if (most_of_call_[link] == 0) used.push_back(link);
          most_of_call_[link] = std::max(most_of_call_[link], std::min(1.0, busy * most));
        }
      }
      for (const std::uint32_t link : used) {
        most_used_[link] += std::exchange(most_of_call_[link], 0.0);
      }
    }
  }

  tl::expected<void, network::Fault> AddGroups() {
    meetings_ = parallel::GroupMeetings(layouts_);
    loads_.resize(meetings_.size());
    std::vector<int> ranks;
    for (std::size_t m = 0; m < meetings_.size(); ++m) {
      Meeting& meeting = meetings_[m];
      if (meeting.ranks.size() < 2) continue;
      ranks.clear();
      for (const Meeting::Edge& rank : meeting.ranks) ranks.push_back(rank.to);
      const auto key = std::pair(LabelsOf(ranks), meeting.label);
      auto calls = calls_.find(key);
      if (calls == calls_.end()) {
        const auto layout = static_cast<std::size_t>(meeting.label);
        calls = calls_.emplace(key, CallsOf(KindsOf(key.first), layout)).first;
      }
      std::vector<std::int64_t> look = {meeting.label};
      look.insert(look.end(), key.first.begin(), key.first.end());
      look.push_back(-1);
      for (const auto& [algorithm, kind] : calls->second.patterns) {
        STEPCAST_TAKE(auto load, loads_of_->Of(ranks, algorithm, kind));
        look.push_back(Rounded(load.transfer));
        loads_[m].push_back(std::move(load));
      }
      meeting.label = LabelOf(std::move(look));
      AddMostUsed(calls->second, loads_[m]);
    }
    return {};
  }

  // The distinct labels of a group's ranks, with the first rank's label first.
  std::vector<std::int64_t> LabelsOf(const std::vector<int>& ranks) const {
    std::vector<std::int64_t> labels;
    for (const int rank : ranks) {
      const std::int64_t label = labels_[static_cast<std::size_t>(rank)];
      if (!labels.empty() && labels.back() == label) continue;
      if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
    }
    return labels;
  }

  std::vector<Channel> ChannelsOf(const RankClass& kind) const {
    std::vector<Channel> channels;
    for (Index e = 0; e < kind.program->exchanges.size(); ++e) {
      const program::Exchange& exchange = kind.program->exchanges[e];
      for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
        const program::Message& message = exchange.messages[i];
        if (message.direction == program::MessageDirection::kReceive) continue;
        auto channel = FindChannel(channels, exchange, message);
        if (channel == channels.end()) {
          channel = channels.insert(channel, Channel{.communicator = exchange.communicator,
                                                     .peers = exchange.peers,
                                                     .peer = message.peer,
                                                     .exchanges = {}});
        }
        channel->exchanges.resize(kind.program->exchanges.size());
        channel->exchanges[e].push_back({message.bytes, &kind.prices->exchanges[e][i].demand});
      }
    }
    return channels;
  }

  static std::vector<Channel>::iterator FindChannel(std::vector<Channel>& channels,
                                                    const program::Exchange& exchange,
                                                    const program::Message& message) {
    return std::find_if(channels.begin(), channels.end(), [&](const Channel& channel) {
      return channel.communicator == exchange.communicator && channel.peers == exchange.peers &&
             channel.peer == message.peer;
    });
  }

  // Adds a meeting for each rank and each peer that it sends to.
  tl::expected<void, network::Fault> AddMessages() {
    for (const RankClass& kind : kinds_) channels_.push_back(ChannelsOf(kind));
    first_channel_.reserve(labels_.size());
    for (int rank = 0; rank < static_cast<int>(labels_.size()); ++rank) {
      first_channel_.push_back(meetings_.size());
      const std::int64_t label = labels_[static_cast<std::size_t>(rank)];
      const std::vector<Channel>& channels = channels_[static_cast<std::size_t>(label)];
      for (std::size_t i = 0; i < channels.size(); ++i) {
        STEPCAST_TRY(AddChannel(rank, label, i, channels[i]));
      }
    }
    return {};
  }

  tl::expected<void, network::Fault> AddChannel(int rank, std::int64_t label, std::size_t number,
                                                const Channel& channel) {
    const program::Program& program = *KindOf(rank).program;
    const parallel::GroupLayout& layout =
        program.groups[program.communicators[channel.communicator].group].layout;
    const std::vector<int> ranks = layout.Ranks(rank);
    const int position = layout.Index(rank);
    const program::Exchange naming{.peers = channel.peers};
    const int peer =
        naming.PeerPosition({.peer = channel.peer}, position, static_cast<int>(ranks.size()));
    Meeting& meeting = meetings_.emplace_back();
    std::vector<LinkLoads::Load>& loads = loads_.emplace_back();
    if (peer == position) return {};
    STEPCAST_TAKE(auto load, loads_of_->OfMessage(rank, ranks[static_cast<std::size_t>(peer)]));
    // Receivers identify senders by their position.
    const bool by_position = channel.peers == program::PeerNaming::kPosition;
    meeting.label = LabelOf({-1, label, static_cast<std::int64_t>(number),
                             by_position ? position : 0, Rounded(load.transfer)});
    meeting.ranks = {{.to = rank, .label = 0},
                     {.to = ranks[static_cast<std::size_t>(peer)], .label = 1}};
    double most = 0;
    for (const std::vector<Sending>& exchange : channel.exchanges) {
      double together = 0;
      for (const Sending& sending : exchange) together += MostUsed({sending}, load);
      most = std::max(most, together);
    }
    for (const auto& [link, busy] : load.busy) most_used_[link] += busy * most;
    loads.push_back(std::move(load));
    return {};
  }

  std::int64_t LabelOf(std::vector<std::int64_t> look) {
    const auto next = static_cast<std::int64_t>(labels_of_meetings_.size());
    return labels_of_meetings_.emplace(std::move(look), next).first->second;
  }

  void Colour() {
    // Links that cannot be saturated do not slow down any flow.
    std::vector<int> shared(most_used_.size(), -1);
    int links = 0;
    for (std::size_t link = 0; link < most_used_.size(); ++link) {
      if (most_used_[link] > 1) shared[link] = links++;
    }
    for (std::size_t m = 0; m < meetings_.size(); ++m) {
      for (std::size_t pattern = 0; pattern < loads_[m].size(); ++pattern) {
        std::vector<std::pair<std::uint32_t, double>>& busy = loads_[m][pattern].busy;
        std::erase_if(busy, [&](const auto& use) { return shared[use.first] < 0; });
        for (auto& [link, seconds] : busy) {
          link = static_cast<std::uint32_t>(shared[link]);
          meetings_[m].links.push_back(
              {.to = static_cast<int>(link),
               .label = Rounded(seconds) + static_cast<std::int64_t>(pattern)});
        }
      }
    }
    const std::vector<std::int64_t> alike(static_cast<std::size_t>(links), 0);
    result_.classes = parallel::ClassesOf(labels_, meetings_, alike);
    const parallel::Classes& classes = result_.classes;
    for (const int colour : classes.link_colours) {
      const auto at = static_cast<std::size_t>(colour);
      if (links_of_colour_.size() <= at) links_of_colour_.resize(at + 1);
      ++links_of_colour_[at];
    }
    for (std::size_t m = 0; m < meetings_.size(); ++m) {
      const auto at = static_cast<std::size_t>(classes.meeting_colours[m]);
      if (of_colour_.size() <= at) of_colour_.resize(at + 1, {.first = m, .count = 0});
      ++of_colour_[at].count;
    }
    result_.traffic.links = static_cast<std::uint32_t>(links_of_colour_.size());
  }

  // The flow that represents those of all meetings of a colour.
  std::uint32_t NumberOf(std::size_t colour, std::size_t pattern, const Sending& sending) {
    const std::tuple key(colour, pattern, sending.bytes, sending.price->latency,
                         sending.price->work);
    const auto next = static_cast<std::uint32_t>(result_.traffic.collectives.size());
    const auto [number, added] = numbers_.emplace(key, next);
    if (!added) return number->second;
    const LinkLoads::Load& load = loads_[of_colour_[colour].first][pattern];
    network::FlowDemand& flow = result_.traffic.collectives.emplace_back().flow;
    flow.latency = sending.price->latency;
    flow.work = FlowWork(load, sending.bytes, *sending.price);
    std::map<std::uint32_t, std::uint64_t> shares;  // by colour of links: of all links that it uses
    for (const auto& [link, busy] : load.busy) {
      shares[static_cast<std::uint32_t>(result_.classes.link_colours[link])] +=
          engine::SharedResources::Share(FlowShare(busy, sending.bytes, flow.work));
    }
    for (const auto& [links, share] : shares) {
      const std::uint64_t of_one = share * of_colour_[colour].count / links_of_colour_[links];
      if (of_one > 0) flow.uses.push_back({.resource = links, .share = of_one});
    }
    return next;
  }

  void AddClass(int rank) {
    const RankClass& kind = KindOf(rank);
    const program::Program& program = *kind.program;
    std::vector<std::uint32_t>& numbers = result_.traffic.numbers.emplace_back();
    for (Index i = 0; i < program.collectives.size(); ++i) {
      const program::Collective& collective = program.collectives[i];
      numbers.push_back(CollectiveTraffic::kLocal);
      const parallel::GroupLayout& layout =
          program.groups[program.communicators[collective.communicator].group].layout;
      if (layout.size() < 2) continue;
      const std::size_t colour = ColourOf(layout, rank);
      // Only the group's first member adds the calls; its class comes first.
      const Meeting& group = meetings_[of_colour_[colour].first];
      if (group.ranks.front().to != rank) continue;
      const auto number = static_cast<std::int64_t>(
          std::find(layouts_.begin(), layouts_.end(), layout) - layouts_.begin());
      std::vector<int> ranks;
      for (const Meeting::Edge& member : group.ranks) ranks.push_back(member.to);
      const std::vector<std::int64_t> labels = LabelsOf(ranks);
      const GroupCalls& calls = calls_.at(std::pair(labels, number));
      const CollectivePrice& price = SlowestPrice(KindsOf(labels), i);
      const auto pattern = std::find(calls.patterns.begin(), calls.patterns.end(),
                                     Pattern(price.algorithm, collective.kind));
      numbers.back() = NumberOf(colour, static_cast<std::size_t>(pattern - calls.patterns.begin()),
                                {collective.bytes, &price.demand});
    }
    AddMessagesOf(rank);
  }

  void AddMessagesOf(int rank) {
    const RankClass& kind = KindOf(rank);
    const std::size_t first = first_channel_[static_cast<std::size_t>(rank)];
    std::vector<Channel>& channels =
        channels_[static_cast<std::size_t>(labels_[static_cast<std::size_t>(rank)])];
    std::vector<std::uint32_t>& numbers = result_.traffic.message_numbers.emplace_back();
    for (Index e = 0; e < kind.program->exchanges.size(); ++e) {
      const program::Exchange& exchange = kind.program->exchanges[e];
      for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
        const program::Message& message = exchange.messages[i];
        numbers.push_back(CollectiveTraffic::kLocal);
        if (message.direction == program::MessageDirection::kReceive) continue;
        const std::size_t meeting =
            first +
            static_cast<std::size_t>(FindChannel(channels, exchange, message) - channels.begin());
        if (loads_[meeting].empty()) continue;  // to itself
        const auto colour = static_cast<std::size_t>(result_.classes.meeting_colours[meeting]);
        numbers.back() = NumberOf(colour, 0, {message.bytes, &kind.prices->exchanges[e][i].demand});
      }
    }
  }

  // The colour of the rank's group.
  std::size_t ColourOf(const parallel::GroupLayout& layout, int rank) {
    if (group_of_.empty()) {
      std::size_t m = 0;
      for (const parallel::GroupLayout& own : layouts_) {
        std::map<int, std::size_t>& groups = group_of_.emplace_back();
        for (int group = 0; group < own.groups(); ++group, ++m) {
          groups.emplace(meetings_[m].ranks.front().to, m);
        }
      }
    }
    const auto at = static_cast<std::size_t>(std::find(layouts_.begin(), layouts_.end(), layout) -
                                             layouts_.begin());
    return static_cast<std::size_t>(
        result_.classes.meeting_colours[group_of_[at].at(layout.First(rank))]);
  }

  // The meetings of a colour.
  struct OfColour {
    std::size_t first = 0;
    std::uint64_t count = 0;
  };

  const scenario::Scenario& scenario_;
  std::span<const std::int64_t> labels_;
  std::span<const RankClass> kinds_;
  std::span<const parallel::GroupLayout> layouts_;
  FlowClasses result_;
  std::optional<LinkLoads> loads_of_;
  // By the labels of a group's ranks, and its layout.
  std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, GroupCalls> calls_;
  std::vector<Meeting> meetings_;                    // all groups, then the messages
  std::vector<std::vector<LinkLoads::Load>> loads_;  // [meeting][pattern]
  std::vector<std::vector<Channel>> channels_;       // [kind]
  std::vector<std::size_t> first_channel_;           // [rank]: in `meetings_`
  std::map<std::vector<std::int64_t>, std::int64_t> labels_of_meetings_;
  std::vector<double> most_used_;     // [link]: the part of it that can be used at any time
  std::vector<double> most_of_call_;  // [link]: of one communicator
  std::vector<std::uint64_t> links_of_colour_;
  std::vector<OfColour> of_colour_;
  std::vector<std::map<int, std::size_t>> group_of_;  // [layout], by the group's first rank
  std::map<std::tuple<std::size_t, std::size_t, Bytes, Time, Time>, std::uint32_t> numbers_;
};

}  // namespace

Result<FlowClasses> FlowClassesOf(const scenario::Scenario& scenario,
                                  std::span<const std::int64_t> labels,
                                  std::span<const RankClass> kinds,
                                  std::span<const parallel::GroupLayout> layouts) {
  return Classifier(scenario, labels, kinds, layouts).Run();
}

}  // namespace stepcast::cost
