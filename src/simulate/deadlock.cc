#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/program/description.h"
#include "src/simulate/simulation.h"

// Explains a run that stopped with work left: the position of each host and stream, and what it
// waits for.
namespace stepcast::simulate {
namespace {

std::string PassText(std::uint32_t pass) {
  return pass == 0 ? "prologue" : fmt::format("step {}", pass - 1);
}

std::string SpecText(const program::Collective& collective) {
  return fmt::format("{} of {} B {}", Name(collective.kind), collective.bytes.count(),
                     Name(collective.data_type));
}

}  // namespace

Deadlock Simulation::Explain() const {
  Deadlock deadlock;
  for (const SimulatedClass& run : classes_) {
    run.ExplainHost(deadlock.blocked);
    for (const SimulatedClass::Stream& stream : run.streams()) ExplainStream(run, stream, deadlock);
  }
  return deadlock;
}

void SimulatedClass::ExplainHost(std::vector<std::string>& blocked) const {
  const int rank = rank_class_->representative;
  if (host_waits_ && !Reached(host_wait_for_)) {
    const Index wait = compiled_->spans[host_span_ - 1].wait;
    if (wait == kNone) {
      blocked.push_back(fmt::format("rank {}, {}: the host waits because a launch queue is full",
                                    rank, PassText(host_pass_)));
      return;
    }
    blocked.push_back(fmt::format(
        "rank {}, {}: the host waits at {} until {} is reached", rank, PassText(host_pass_),
        Describe(program(), InstructionAt(host_pass_, wait)), DescribeRecord(host_wait_for_)));
  } else if (host_pass_ == open_passes_ && host_pass_ < passes_) {
    blocked.push_back(
        fmt::format("rank {}: the host waits for all work of {} before it issues the next step",
                    rank, PassText(host_pass_ - 1)));
  }
}

std::string SimulatedClass::DescribeItem(const Stream& stream) const {
  const Item& item = compiled_->items[stream.item];
  return fmt::format("rank {}, {}: {}", rank_class_->representative, PassText(stream.pass),
                     Describe(program(), InstructionAt(stream.pass, item.instruction)));
}

std::string SimulatedClass::DescribeRecord(WaitFor wait_for) const {
  const std::uint32_t pass = wait_for.slot < compiled_->prologue_records ? 0 : wait_for.count;
  const Index record = compiled_->records[wait_for.slot].instruction;
  return fmt::format("{} of {}", Describe(program(), InstructionAt(pass, record)), PassText(pass));
}

void Simulation::ExplainStream(const SimulatedClass& run, const SimulatedClass::Stream& stream,
                               Deadlock& deadlock) const {
  if (stream.state == StreamState::kDone) return;
  const std::string subject = run.DescribeItem(stream);
  switch (stream.state) {
    case StreamState::kAwaitsHost:
      deadlock.blocked.push_back(fmt::format("{} has not been issued by the host", subject));
      break;
    case StreamState::kAwaitsRecord:
      deadlock.blocked.push_back(fmt::format("{} waits until {} is reached", subject,
                                             run.DescribeRecord(stream.wait_for)));
      break;
    case StreamState::kAtCollective:
      ExplainCollective(run, stream, subject, deadlock);
      break;
    case StreamState::kReady:
    case StreamState::kInFlight:
    case StreamState::kDone:
      STEPCAST_CHECK(false, "an operation in flight must have a pending event");
  }
}

void Simulation::ExplainCollective(const SimulatedClass& run, const SimulatedClass::Stream& stream,
                                   const std::string& subject, Deadlock& deadlock) const {
  const SimulatedClass::Communicator& own = run.communicators()[stream.wait_for.slot];
  if (stream.wait_for.count != own.current) {
    deadlock.blocked.push_back(fmt::format(
        "{} waits for the communicator: collective {} cannot start before collective {} ends",
        subject, stream.wait_for.count, own.current));
    return;
  }
  if (!run.IsAtCollective(stream.wait_for.slot)) {
    ExplainExchange(run, stream.wait_for.slot, subject, deadlock);
    return;
  }
  STEPCAST_CHECK(own.rendezvous != kNone,
                 "a collective among the ranks of one class must not wait for other classes");
  const Rendezvous& rendezvous = rendezvous_[own.rendezvous];
  const auto same = [&](const SimulatedClass& other, std::uint32_t communicator) {
    return SameCollective(run.CollectiveAt(stream.wait_for.slot), other.CollectiveAt(communicator));
  };
  for (const Member& member : rendezvous.members) {
    const SimulatedClass& other = classes_[member.rank_class];
    if (&other == &run) continue;
    const int rank = other.rank_class().representative;
    if (!other.IsAtCollective(member.communicator)) {
      deadlock.blocked.push_back(
          fmt::format("{} waits for rank {}, which has not reached the collective", subject, rank));
    } else if (!same(other, member.communicator)) {
      deadlock.blocked.push_back(
          fmt::format("{} is {}, but rank {} has reached a different collective, {}", subject,
                      SpecText(run.CollectiveAt(stream.wait_for.slot)), rank,
                      SpecText(other.CollectiveAt(member.communicator))));
    }
  }
  for (const std::uint32_t c : rendezvous.absent) {
    deadlock.blocked.push_back(
        fmt::format("{} waits for rank {}, which has no communicator with this name and these "
                    "ranks",
                    subject, classes_[c].rank_class().representative));
  }
}

void Simulation::ExplainExchange(const SimulatedClass& run, std::uint32_t communicator,
                                 const std::string& subject, Deadlock& deadlock) const {
  const auto explain = [&](std::uint32_t place, const EndpointState& endpoint) {
    const program::Message& message = MessageAt(place);
    const bool sends = message.direction == program::MessageDirection::kSend;
    const std::string text = fmt::format("{}: {} B {} rank {}", subject, message.bytes.count(),
                                         sends ? "to" : "from", endpoint.peer);
    const char* const other_end = sends ? "receives" : "sends";
    if (endpoint.partner == kNone) {
      deadlock.blocked.push_back(fmt::format(
          "{} never arrive, because rank {} never {} these bytes", text, endpoint.peer, other_end));
    } else if (places_[place].mismatched != kNone) {
      deadlock.blocked.push_back(fmt::format("{} never arrive, because rank {} {} {} B of {}", text,
                                             endpoint.peer, other_end,
                                             MessageAt(places_[place].mismatched).bytes.count(),
                                             Name(TypeAt(places_[place].mismatched))));
    } else {
      deadlock.blocked.push_back(fmt::format("{} wait for rank {}, which has not reached the {}",
                                             text, endpoint.peer, sends ? "receive" : "send"));
    }
  };
  const ExchangeState& exchange = exchanges_[first_communicator_[run.index()] + communicator];
  const std::uint32_t number = run.TargetAt(communicator);
  const std::uint32_t count =
      run.compiled().first_message[number + 1] - run.compiled().first_message[number];
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t place = exchange.first_place + i;
    const EndpointState& endpoint = endpoints_[EndpointAt(place)];
    const bool waits = std::find(endpoint.waiting.begin(), endpoint.waiting.end(), place) !=
                       endpoint.waiting.end();
    if (waits || places_[place].mismatched != kNone) explain(place, endpoint);
  }
}

}  // namespace stepcast::simulate
