#include <algorithm>

#include "src/simulate/simulated_class.h"
#include "src/simulate/simulation.h"

namespace stepcast::simulate {
namespace {

// The last 1/kParts of a step's instructions are run.
constexpr std::size_t kParts = 16;

struct ItemPlace {
  std::uint32_t stream = 0;
  std::uint32_t item = 0;
};

// The positions of the collectives and messages in a program's step.
struct Meetings {
  std::vector<std::vector<ItemPlace>> collectives;  // by communicator and number
  std::vector<std::vector<ItemPlace>> messages;     // by endpoint
  std::vector<bool> exchanges;                      // by stream: whether it has messages
};

bool Meets(const Item& item) {
  return item.kind == Item::Kind::kCollective || item.kind == Item::Kind::kExchange;
}

template <typename Visit>  // Visit(endpoint)
void ForEachMessage(const CompiledProgram& compiled, const Item& item, Visit visit) {
  if (item.kind != Item::Kind::kExchange) return;
  for (std::uint32_t m = compiled.first_message[item.target];
       m < compiled.first_message[item.target + 1]; ++m) {
    visit(compiled.message_endpoints[m]);
  }
}

Meetings FindMeetings(const program::Program& program, const CompiledProgram& compiled) {
  Meetings found;
  found.collectives.resize(compiled.step_collectives.size());
  for (std::size_t c = 0; c < found.collectives.size(); ++c) {
    found.collectives[c].resize(compiled.step_collectives[c]);
  }
  found.messages.resize(compiled.endpoints.size());
  found.exchanges.assign(compiled.streams.size(), false);
  for (std::uint32_t s = 0; s < compiled.streams.size(); ++s) {
    for (std::uint32_t i = compiled.streams[s].step; i < compiled.streams[s].end; ++i) {
      const Item& item = compiled.items[i];
      if (!Meets(item)) continue;
      found.collectives[CommunicatorOf(program, item)][item.other] = {s, i};
      if (item.kind == Item::Kind::kExchange) found.exchanges[s] = true;
    }
  }
  // A communicator's exchanges are ordered by number.
  for (const std::vector<ItemPlace>& places : found.collectives) {
    for (const ItemPlace& place : places) {
      ForEachMessage(compiled, compiled.items[place.item],
                     [&](std::uint32_t endpoint) { found.messages[endpoint].push_back(place); });
    }
  }
  return found;
}

// The first item of a stream's step at or after an instruction.
std::uint32_t ItemFrom(const CompiledProgram& compiled, const StreamRange& range,
                       std::size_t instruction) {
  const auto begin = compiled.items.begin();
  return static_cast<std::uint32_t>(
      std::partition_point(begin + range.step, begin + range.end,
                           [&](const Item& item) { return item.instruction < instruction; }) -
      begin);
}

// Sets the host's position. Returns false if nothing is left.
bool PlaceHost(const CompiledProgram& compiled, StepPosition& position) {
  const Item* first = nullptr;
  for (std::size_t s = 0; s < compiled.streams.size(); ++s) {
    if (position.items[s] == compiled.streams[s].end) continue;
    const Item& item = compiled.items[position.items[s]];
    if (first == nullptr || item.instruction < first->instruction) first = &item;
  }
  if (first == nullptr) return false;
  position.span = first->span;
  position.issued = first->issued;
  return true;
}

}  // namespace

bool Simulation::FindLateStart() {
  std::vector<Meetings> meetings;
  meetings.reserve(compiled_.size());
  std::vector<const Meetings*> meetings_of(given_.size());
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    if (compiled_of_[c] == meetings.size()) {
      meetings.push_back(FindMeetings(*given_[c].program, compiled_[compiled_of_[c]]));
    }
    meetings_of[c] = &meetings[compiled_of_[c]];
  }

  struct Raise {
    std::uint32_t rank_class = 0;
    ItemPlace last;  // is over
  };
  std::vector<Raise> raises;
  late_starts_.resize(given_.size());
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const CompiledProgram& compiled = compiled_[compiled_of_[c]];
    StepPosition& position = late_starts_[c];
    position.items.clear();
    position.collectives.assign(compiled.step_collectives.size(), 0);
    position.messages.assign(compiled.endpoints.size(), 0);
    const std::size_t size = given_[c].program->step.size();
    for (std::uint32_t s = 0; s < compiled.streams.size(); ++s) {
      const StreamRange& range = compiled.streams[s];
      position.items.push_back(range.step);
      if (meetings_of[c]->exchanges[s]) continue;
      const std::uint32_t from = ItemFrom(compiled, range, size - size / kParts);
      if (from > range.step) raises.push_back({c, {s, from - 1}});
    }
  }
  while (!raises.empty()) {
    const Raise raise = raises.back();
    raises.pop_back();
    const std::uint32_t c = raise.rank_class;
    const CompiledProgram& compiled = compiled_[compiled_of_[c]];
    StepPosition& position = late_starts_[c];
    std::uint32_t& over = position.items[raise.last.stream];
    for (; over <= raise.last.item; ++over) {
      const Item& item = compiled.items[over];
      if (item.kind == Item::Kind::kWait && item.steps_before == 0 && item.target != kNone) {
        const EventRecord& record = compiled.records[item.target];
        raises.push_back({c, {record.stream, record.item}});
      }
      if (!Meets(item)) continue;
      const std::uint32_t communicator = CommunicatorOf(*given_[c].program, item);
      position.collectives[communicator] =
          std::max(position.collectives[communicator], item.other + 1);
      if (item.other > 0) {
        raises.push_back({c, meetings_of[c]->collectives[communicator][item.other - 1]});
      }
      const std::uint32_t r = rendezvous_of_[first_communicator_[c] + communicator];
      if (r != kNone && item.kind == Item::Kind::kCollective) {
        for (const Member& member : rendezvous_[r].members) {
          const auto& places = meetings_of[member.rank_class]->collectives[member.communicator];
          if (item.other < places.size()) {
            raises.push_back({member.rank_class, places[item.other]});
          }
        }
      }
      ForEachMessage(compiled, item, [&](std::uint32_t endpoint) {
        const std::uint32_t number = position.messages[endpoint]++;
        const std::uint32_t partner = endpoints_[first_endpoint_[c] + endpoint].partner;
        if (partner == kNone) return;
        const std::uint32_t other = endpoints_[partner].rank_class;
        const auto& places = meetings_of[other]->messages[partner - first_endpoint_[other]];
        if (number < places.size()) raises.push_back({other, places[number]});
      });
    }
  }
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    if (!PlaceHost(compiled_[compiled_of_[c]], late_starts_[c])) return false;
  }
  return true;
}

void Simulation::ReachLateStart() {
  if (places_.empty()) return;
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const CompiledProgram& compiled = compiled_[compiled_of_[c]];
    EndpointState* endpoints = &endpoints_[first_endpoint_[c]];
    for (std::size_t e = 0; e < compiled.endpoints.size(); ++e) {
      endpoints[e].reached = late_starts_[c].messages[e];
    }
    for (const StreamRange& range : compiled.streams) {
      for (std::uint32_t i = range.begin; i < range.step; ++i) {
        ForEachMessage(compiled, compiled.items[i],
                       [&](std::uint32_t endpoint) { ++endpoints[endpoint].reached; });
      }
    }
  }
  for (std::size_t e = 0; e < endpoint_count_; ++e) {
    EndpointState& endpoint = endpoints_[e];
    if (!endpoint.followers.empty()) endpoint.reached_at.assign(endpoint.reached, Time());
  }
}

void SimulatedClass::BeginAt(const StepPosition& position) {
  streams_in_pass_.front() = 0;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    const StreamRange& range = compiled_->streams[s];
    stream.item = position.items[s];
    stream.end = range.end;
    stream.pass = 1;
    if (stream.item != range.end || range.step == range.end) continue;
    stream.item = range.step;
    stream.pass = 2;
    --streams_in_pass_[1];
  }
  for (std::uint32_t slot = 0; slot < records_.size(); ++slot) {
    const EventRecord& record = compiled_->records[slot];
    if (slot >= compiled_->prologue_records && record.item >= position.items[record.stream]) {
      continue;
    }
    records_[slot].reached = 1;
    if (record.instruction == kNone) {
      launch_ends_[compiled_->LaunchRecordIn(slot)].push_back(Time());
    }
  }
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    communicators_[c].current = compiled_->prologue_collectives[c] + position.collectives[c];
  }
  host_pass_ = 1;
  host_span_ = position.span;
  host_clock_ = Time() - position.issued;
  span_begins_.assign(position.span, Time());  // unfinished items were issued in later spans
}

}  // namespace stepcast::simulate
