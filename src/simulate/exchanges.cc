#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>

#include "src/base/check.h"
#include "src/simulate/simulation.h"

// Messages between classes. The two ends of a message are matched by number: the k-th message at an
// endpoint matches the k-th at its partner. If both endpoints are each other's partners, the
// message is one transfer with two parts. A class that stands for several positions of a group may
// have more ends than its peers' representatives. Such an end starts when its partner has been
// reached as often, and is a transfer with one part.
namespace stepcast::simulate {
namespace {

// A class's group from the view of its representative.
struct OwnGroup {
  std::vector<int> ranks;
  int position = 0;  // of the representative
};

OwnGroup GroupOf(const RankClass& rank_class, std::uint32_t communicator) {
  const program::Program& program = *rank_class.program;
  const auto& groups = rank_class.groups != nullptr ? *rank_class.groups : program.groups;
  const program::ProcessGroup& group = groups[program.communicators[communicator].group];
  OwnGroup own;
  own.ranks = group.layout.empty() ? group.ranks : group.layout.Ranks(rank_class.representative);
  const auto found = std::find(own.ranks.begin(), own.ranks.end(), rank_class.representative);
  STEPCAST_CHECK(found != own.ranks.end(),
                 "the group of an exchange must include the representative of the class");
  own.position = static_cast<int>(found - own.ranks.begin());
  return own;
}

int PeerPosition(const Endpoint& endpoint, int position, int group_size) {
  if (endpoint.peers == program::PeerNaming::kPosition) return endpoint.peer;
  return (position + endpoint.peer + group_size) % group_size;
}

}  // namespace

void Simulation::LinkEndpoints() {
  places_.clear();
  endpoint_count_ = 0;
  bool any = false;
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    any = any || !given_[c].program->exchanges.empty();
  }
  if (!any) return;

  exchanges_.clear();
  first_endpoint_.clear();
  std::map<int, std::uint32_t> class_of;
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const CompiledProgram& compiled = compiled_[compiled_of_[c]];
    class_of.emplace(given_[c].representative, c);
    for (const int rank : given_[c].ranks) class_of.emplace(rank, c);
    for (std::uint32_t i = 0; i < given_[c].program->communicators.size(); ++i) {
      exchanges_.push_back({.first_place = static_cast<std::uint32_t>(places_.size())});
      places_.resize(places_.size() + compiled.most_messages[i],
                     {.rank_class = c, .communicator = i});
    }
    first_endpoint_.push_back(static_cast<std::uint32_t>(endpoint_count_));
    endpoint_count_ += compiled.endpoints.size();
  }
  if (endpoints_.size() < endpoint_count_) endpoints_.resize(endpoint_count_);
  for (std::size_t e = 0; e < endpoint_count_; ++e) {
    EndpointState& endpoint = endpoints_[e];
    endpoint.partner = kNone;
    endpoint.mutual = false;
    endpoint.followers.clear();
    endpoint.reached = 0;
    endpoint.reached_at.clear();
    endpoint.waiting.clear();
  }

  // The endpoint for this class's position in the peer's communicator of the same name.
  const auto partner_of = [this](std::uint32_t other, std::string_view name,
                                 const Endpoint& endpoint, int peer, const OwnGroup& group) {
    const program::Program& program = *given_[other].program;
    const CompiledProgram& compiled = compiled_[compiled_of_[other]];
    const auto size = static_cast<int>(group.ranks.size());
    for (std::uint32_t e = 0; e < compiled.endpoints.size(); ++e) {
      const Endpoint& candidate = compiled.endpoints[e];
      if (candidate.direction != endpoint.direction &&
          PeerPosition(candidate, peer, size) == group.position &&
          program.communicators[candidate.communicator].name == name) {
        return first_endpoint_[other] + e;
      }
    }
    return kNone;
  };
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const CompiledProgram& compiled = compiled_[compiled_of_[c]];
    std::uint32_t grouped = kNone;  // the communicator of `group`
    OwnGroup group;
    for (std::uint32_t e = 0; e < compiled.endpoints.size(); ++e) {
      const Endpoint& endpoint = compiled.endpoints[e];
      if (grouped != endpoint.communicator) {
        grouped = endpoint.communicator;
        group = GroupOf(given_[c], grouped);
      }
      const int peer = PeerPosition(endpoint, group.position, static_cast<int>(group.ranks.size()));
      EndpointState& state = endpoints_[first_endpoint_[c] + e];
      state.rank_class = c;
      state.peer = group.ranks[static_cast<std::size_t>(peer)];
      const auto found = class_of.find(state.peer);
      state.partner =
          partner_of(found == class_of.end() ? c : found->second,
                     given_[c].program->communicators[grouped].name, endpoint, peer, group);
    }
  }
  for (std::uint32_t e = 0; e < endpoint_count_; ++e) {
    EndpointState& endpoint = endpoints_[e];
    if (endpoint.partner == kNone) continue;
    endpoint.mutual = endpoints_[endpoint.partner].partner == e;
    if (!endpoint.mutual) endpoints_[endpoint.partner].followers.push_back(e);
  }
}

std::uint32_t Simulation::EndpointAt(std::uint32_t place) const {
  const Place& at = places_[place];
  return first_endpoint_[at.rank_class] +
         classes_[at.rank_class].compiled().message_endpoints[at.message];
}

const Simulation::ExchangeState& Simulation::ExchangeAt(std::uint32_t place) const {
  return exchanges_[first_communicator_[places_[place].rank_class] + places_[place].communicator];
}

const program::Message& Simulation::MessageAt(std::uint32_t place) const {
  const Place& at = places_[place];
  const SimulatedClass& run = classes_[at.rank_class];
  const std::uint32_t exchange = run.TargetAt(at.communicator);
  return run.program()
      .exchanges[exchange]
      .messages[at.message - run.compiled().first_message[exchange]];
}

DataType Simulation::TypeAt(std::uint32_t place) const {
  const SimulatedClass& run = classes_[places_[place].rank_class];
  return run.program().exchanges[run.TargetAt(places_[place].communicator)].data_type;
}

bool Simulation::Agree(std::uint32_t place, std::uint32_t other) const {
  return MessageAt(place).bytes == MessageAt(other).bytes && TypeAt(place) == TypeAt(other);
}

void Simulation::ArriveAtExchange(std::uint32_t communicator, SimulatedClass& rank_class) {
  const CompiledProgram& compiled = rank_class.compiled();
  const std::uint32_t number = rank_class.TargetAt(communicator);
  const std::uint32_t first = compiled.first_message[number];
  const std::uint32_t count = compiled.first_message[number + 1] - first;
  ExchangeState& exchange = exchanges_[first_communicator_[rank_class.index()] + communicator];
  exchange.arrival = rank_class.now();
  exchange.waiting = exchange.open = count;
  exchange.held = std::accumulate(compiled.message_holds.begin() + first,
                                  compiled.message_holds.begin() + first + count, 0u);
  rank_class.Hold(communicator, exchange.held, exchange.arrival);
  for (std::uint32_t i = 0; i < count; ++i) {
    places_[exchange.first_place + i].message = first + i;
    places_[exchange.first_place + i].mismatched = kNone;
  }
  for (std::uint32_t i = 0; i < count; ++i) Reach(exchange.first_place + i, exchange.arrival);
}

void Simulation::Reach(std::uint32_t place, Time now) {
  const std::uint32_t at = EndpointAt(place);
  EndpointState& endpoint = endpoints_[at];
  const std::uint32_t number = endpoint.reached++;
  if (endpoint.partner == kNone) {
    endpoint.waiting.push_back(place);
  } else if (EndpointState& partner = endpoints_[endpoint.partner]; partner.reached <= number) {
    endpoint.waiting.push_back(place);
  } else if (endpoint.mutual) {
    const std::uint32_t other = partner.waiting.front();
    partner.waiting.erase(partner.waiting.begin());
    Match(place, other, std::max(now, ExchangeAt(other).arrival));
  } else {
    Match(place, kNone, std::max(now, partner.reached_at[number]));
  }
  if (endpoint.followers.empty()) return;
  endpoint.reached_at.push_back(now);
  for (const std::uint32_t f : endpoint.followers) {
    EndpointState& follower = endpoints_[f];
    // The messages that wait there are its last ones.
    while (!follower.waiting.empty() &&
           follower.reached - follower.waiting.size() < endpoint.reached) {
      const std::uint32_t other = follower.waiting.front();
      follower.waiting.erase(follower.waiting.begin());
      Match(other, kNone, std::max(now, ExchangeAt(other).arrival));
    }
  }
}

// Both ends of a message have been reached.
void Simulation::Match(std::uint32_t place, std::uint32_t other, Time start) {
  if (other != kNone && !Agree(place, other)) {
    places_[place].mismatched = other;  // both then wait forever
    places_[other].mismatched = place;
    return;
  }
  const bool sends =
      other == kNone || MessageAt(place).direction == program::MessageDirection::kSend;
  const auto j = static_cast<std::uint32_t>(rendezvous_count_) + (sends ? place : other);
  Joint& joint = joints_[j];
  joint.ends.clear();
  joint.ends.push_back(place);
  if (other != kNone) joint.ends.push_back(other);
  joint.stage = Stage::kComplete;
  joint.next = start;
  QueueJoint(j);
}

void Simulation::StartTransfer(std::uint32_t j) {
  Joint& joint = joints_[j];
  joint.parts.clear();
  std::uint32_t number = network::CollectiveTraffic::kLocal;
  for (const std::uint32_t place : joint.ends) {
    const Place& at = places_[place];
    joint.parts.push_back(
        {at.rank_class, &classes_[at.rank_class].compiled().message_costs[at.message]});
    ExchangeState& exchange = exchanges_[first_communicator_[at.rank_class] + at.communicator];
    if (--exchange.waiting == 0) {
      classes_[at.rank_class].BeginCollective(at.communicator, now_);
    } else {
      exchange.held -= classes_[at.rank_class].compiled().message_holds[at.message];
      classes_[at.rank_class].Hold(at.communicator, exchange.held, now_);
    }
    if (options_.traffic == nullptr) continue;
    const std::uint32_t own = options_.traffic->message_numbers[at.rank_class][at.message];
    if (own != network::CollectiveTraffic::kLocal) number = own;
  }
  Start(j, number);
  // The multiprocessors that they held no longer slow their kernels.
  for (const Part& part : joint.parts) Follow(part.rank_class);
}

// Ends a transfer for the exchanges of both ends, which may end too.
void Simulation::EndTransfer(std::uint32_t j) {
  std::array<Member, 2> ended;
  std::size_t count = 0;
  for (const std::uint32_t place : joints_[j].ends) {
    const Place& at = places_[place];
    ExchangeState& exchange = exchanges_[first_communicator_[at.rank_class] + at.communicator];
    if (--exchange.open == 0) ended[count++] = {at.rank_class, at.communicator};
  }
  for (std::size_t i = 0; i < count; ++i) {
    classes_[ended[i].rank_class].EndCollective(ended[i].communicator, now_);
  }
  for (std::size_t i = 0; i < count; ++i) Follow(ended[i].rank_class);
}

}  // namespace stepcast::simulate
