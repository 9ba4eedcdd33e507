#include <utility>

#include "src/simulate/class_run.h"

// How a class takes part in collectives and exchanges.
namespace stepcast::simulate {

std::uint32_t ClassRun::NumberOf(const Item& item, std::uint32_t pass) const {
  if (pass == 0) return item.other;
  const std::uint32_t c = CommunicatorOf(program(), item);
  return compiled_->prologue_collectives[c] + (pass - 1) * compiled_->step_collectives[c] +
         item.other;
}

void ClassRun::ReachCommunicator(std::uint32_t s, const Item& item) {
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
void ClassRun::TakeTurn(std::uint32_t c) {
  const Communicator& communicator = communicators_[c];
  if (!IsAtCollective(c)) {
    ++attachments_;
    Yield();
    couplings_->ArriveAtExchange(c, *this);
    return;
  }
  if (communicator.rendezvous != kNone) {
    ++attachments_;
    Yield();
    Hold(c, compiled_->collective_holds[TargetAt(c)], now_);
    couplings_->Arrive(communicator.rendezvous, *this);
    return;
  }
  BeginCollective(c, now_);
  if (Start(static_cast<Runner>(streams_.size()) + c, now_,
            compiled_->collective_costs[TargetAt(c)])) {
    EndCollective(c, now_);
  }
}

void ClassRun::BeginCollective(std::uint32_t communicator, Time now) {
  Hold(communicator, 0, now);
  Stream& stream = streams_[communicators_[communicator].arrived];
  stream.start = now;
  stream.state = StreamState::kInFlight;
}

void ClassRun::EndCollective(std::uint32_t c, Time now) {
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
