#include <algorithm>
#include <utility>

#include "src/simulate/simulated_class.h"

// A class's operations in flight, and the rates at which they share the device.
namespace stepcast::simulate {

using engine::SharedResources;

namespace {

// Longer than any wait, and short enough to be added to a time at any rate.
constexpr Time kEndless = Seconds(10'000);

}  // namespace

const SimulatedClass::Beside& SimulatedClass::PutBesideSharers(std::uint32_t index) {
  const Cost& cost = compiled_->costs[index];
  Beside& beside = beside_[index];
  beside = {.others = set_, .set = sets_->With(set_, cost.profile), .work = cost.work};
  const std::uint64_t rate = sets_->RateOf(beside.set, cost.profile);
  if (rate != SharedResources::kFullRate) {
    beside.work = SharedResources::TimeFor(
        SharedResources::Done(cost.work, SharedResources::kFullRate), rate);
  }
  return beside;
}

bool SimulatedClass::Start(Runner runner, Time start, const Cost& cost) {
  InFlight& work = in_flight_[runner];
  const Time begin = start + cost.latency;
  work.work = cost.work;
  work.profile = cost.profile;
  if (cost.profile != ConcurrentSets::kUsesNothing) {
    if (begin == now_) {
      BeginSharing(runner);
    } else {
      work.activity = Activity::kLatency;
      next_[runner] = begin;
    }
    return false;
  }
  const Time end = begin + cost.work;
  if (end == now_) return true;
  work.activity = Activity::kFixed;
  next_[runner] = end;
  return false;
}

void SimulatedClass::BeginSharing(Runner runner) {
  InFlight& work = in_flight_[runner];
  work.activity = Activity::kShares;
  next_[runner] = Time::Max();  // its end is known at the end of this instant
  work.settled = false;
  work.left = SharedResources::Done(work.work, SharedResources::kFullRate);
  work.since = now_;
  sharers_.push_back(runner);
  if (joined_ > 0) {
    other_classes_->joint_resources().Start(first_activity_ + runner, now_, work.left,
                                            sets_->UsesOf(work.profile), first_resource());
    Yield();
    return;
  }
  set_ = sets_->With(set_, work.profile);
  unsettled_ = true;
}

void SimulatedClass::StopSharing(Runner runner) {
  const InFlight& work = in_flight_[runner];
  *std::find(sharers_.begin(), sharers_.end(), runner) = sharers_.back();
  sharers_.pop_back();
  if (joined_ > 0) {
    other_classes_->joint_resources().Finish(first_activity_ + runner);
    Yield();
    return;
  }
  set_ = sets_->Without(set_, work.profile);
  unsettled_ = true;
}

void SimulatedClass::Hold(std::uint32_t communicator, std::uint32_t share, Time now) {
  now_ = now;
  communicators_[communicator].held = share;
  const auto runner_of = [this](std::uint32_t c) {
    return static_cast<Runner>(streams_.size()) + c;
  };
  std::uint32_t before = kNone, largest = communicator;
  std::uint32_t c = communicator;
  do {
    if (in_flight_[runner_of(c)].activity == Activity::kHolds) before = c;
    if (communicators_[c].held > communicators_[largest].held) largest = c;
    c = compiled_->next_among_ranks[c];
  } while (c != communicator);
  if (before != kNone) {
    // It keeps holding, or another one takes over.
    if (before != communicator && communicators_[before].held == communicators_[largest].held) {
      return;
    }
    StopSharing(runner_of(before));
    in_flight_[runner_of(before)].activity = Activity::kNone;
  }
  if (communicators_[largest].held == 0) return;
  const SharedResources::Use use{
      .resource = static_cast<std::uint32_t>(cost::Resource::kCompute),
      .share = std::min(communicators_[largest].held, SharedResources::kWhole),
      .way = SharedResources::Use::Way::kDivides};  // cost::Occupancy says why
  InFlight& work = in_flight_[runner_of(largest)];
  work.work = kEndless;
  work.profile = sets_->Intern({&use, 1});
  BeginSharing(runner_of(largest));
  work.activity = Activity::kHolds;
}

// Computes the rates of operations that started at this instant, and of those affected by starts
// and ends.
void SimulatedClass::Settle() {
  unsettled_ = false;
  for (const Runner runner : sharers_) {
    InFlight& work = in_flight_[runner];
    const std::uint64_t rate = sets_->RateOf(set_, work.profile);
    if (work.settled) {
      if (rate == work.rate) continue;
      work.left = LeftOf(work, now_);
    }
    work.settled = true;
    work.since = now_;
    work.rate = rate;
    if (work.activity == Activity::kShares) {
      next_[runner] = now_ + SharedResources::TimeFor(work.left, rate);
    }
  }
}

void SimulatedClass::Join(Time now) {
  now_ = now;
  if (joined_++ > 0) return;
  SharedResources& joint = other_classes_->joint_resources();
  for (const Runner runner : sharers_) {
    InFlight& work = in_flight_[runner];
    if (work.settled) work.left = LeftOf(work, now);
    work.settled = false;
    joint.Start(first_activity_ + runner, now, work.left, sets_->UsesOf(work.profile),
                first_resource());
  }
  set_ = ConcurrentSets::kEmpty;
  unsettled_ = false;
}

void SimulatedClass::Leave(Time now) {
  now_ = now;
  if (--joined_ > 0) return;
  SharedResources& joint = other_classes_->joint_resources();
  for (const Runner runner : sharers_) {
    InFlight& work = in_flight_[runner];
    work.left = joint.Remaining(first_activity_ + runner, now);
    work.since = now;
    joint.Finish(first_activity_ + runner);
    set_ = sets_->With(set_, work.profile);
    unsettled_ = true;
  }
}

// How a class takes part in collectives and exchanges.

std::uint32_t SimulatedClass::NumberOf(const Item& item, std::uint32_t pass) const {
  if (pass == 0) return item.other;
  const std::uint32_t c = CommunicatorOf(program(), item);
  return compiled_->prologue_collectives[c] + (pass - 1) * compiled_->step_collectives[c] +
         item.other;
}

void SimulatedClass::ReachCommunicator(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const std::uint32_t c = CommunicatorOf(program(), item);
  Communicator& communicator = communicators_[c];
  stream.state = StreamState::kAtCollective;
  stream.wait_for = {c, NumberOf(item, stream.pass)};
  if (stream.wait_for.count != communicator.current) {
    stream.next_waiting = communicator.early;
    communicator.early = s;
    return;
  }
  communicator.arrived = s;
  TakeTurn(c);
}

// Starts the class's own collective, or reports that it has reached a shared one.
void SimulatedClass::TakeTurn(std::uint32_t c) {
  const Communicator& communicator = communicators_[c];
  if (!IsAtCollective(c)) {
    ++attachments_;
    Yield();
    other_classes_->ArriveAtExchange(c, *this);
    return;
  }
  if (communicator.rendezvous != kNone) {
    ++attachments_;
    Yield();
    Hold(c, compiled_->collective_holds[TargetAt(c)], now_);
    other_classes_->Arrive(communicator.rendezvous, *this);
    return;
  }
  BeginCollective(c, now_);
  if (Start(static_cast<Runner>(streams_.size()) + c, now_,
            compiled_->collective_costs[TargetAt(c)])) {
    EndCollective(c, now_);
  }
}

void SimulatedClass::BeginCollective(std::uint32_t communicator, Time now) {
  Hold(communicator, 0, now);
  Stream& stream = streams_[communicators_[communicator].arrived];
  stream.start = now;
  stream.state = StreamState::kInFlight;
}

void SimulatedClass::EndCollective(std::uint32_t c, Time now) {
  now_ = now;
  Communicator& communicator = communicators_[c];
  ++communicator.current;
  if (communicator.rendezvous != kNone || !IsAtCollective(c)) --attachments_;
  const std::uint32_t s = std::exchange(communicator.arrived, kNone);
  Complete(s, now);
  if (streams_[s].state != StreamState::kDone) Enqueue(s);
  for (std::uint32_t* link = &communicator.early; *link != kNone;
       link = &streams_[*link].next_waiting) {
    if (streams_[*link].wait_for.count != communicator.current) continue;
    communicator.arrived = *link;
    *link = streams_[*link].next_waiting;
    TakeTurn(c);
    break;
  }
}

}  // namespace stepcast::simulate
