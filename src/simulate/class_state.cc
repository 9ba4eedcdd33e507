#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/simulate/record_order.h"
#include "src/simulate/simulated_class.h"

// A class's results: its state at the end of a pass, which identifies repetitions, and its
// timeline.
namespace stepcast::simulate {

void SimulatedClass::TakeState(Time now, std::uint32_t passes_ended, State& state) {
  const auto since = [now](Time time) { return (time - now).picoseconds(); };
  const std::int64_t ended = passes_ended;
  std::vector<std::int64_t>& device = state.device;
  device.clear();
  device.push_back(since(EndOfPass(passes_ended - 1)));
  state.within_next_step = true;
  // The state includes the host's progress until now.
  while (host_clock_ <= now && AdvanceHost()) {
  }
  std::size_t first_span = span_begins_.size();
  for (const Stream& stream : streams_) {
    device.push_back(static_cast<std::int64_t>(stream.state));
    device.push_back(stream.item);
    if (stream.state == StreamState::kDone) continue;
    device.push_back(stream.pass - ended);
    if (stream.pass > ended) state.within_next_step = false;
    first_span =
        std::min<std::size_t>(first_span, SpanOf(compiled_->items[stream.item], stream.pass));
    switch (stream.state) {
      case StreamState::kInFlight:
        device.push_back(since(stream.ready));
        device.push_back(since(stream.start));
        break;
      case StreamState::kAtCollective:
        device.push_back(since(stream.ready));
        device.push_back(stream.wait_for.slot);
        device.push_back(static_cast<std::int64_t>(stream.wait_for.count) -
                         communicators_[stream.wait_for.slot].current);
        device.push_back(stream.next_waiting);
        break;
      case StreamState::kAwaitsRecord:
        if (record_all_) device.push_back(since(stream.ready));
        device.push_back(stream.next_waiting);
        break;
      default:
        break;
    }
  }
  AddInFlight(now, device);
  AddCommunicators(passes_ended, device);
  TakeHostState(now, passes_ended, first_span, state);
}

void SimulatedClass::AddInFlight(Time now, std::vector<std::int64_t>& device) const {
  for (Runner runner = 0; runner < in_flight_.size(); ++runner) {
    const InFlight& work = in_flight_[runner];
    device.push_back(static_cast<std::int64_t>(work.activity));
    if (work.activity == Activity::kNone) continue;
    if (work.activity == Activity::kHolds) {
      device.push_back(work.profile);
      continue;
    }
    if (work.activity == Activity::kShares) {
      const SharedWork left =
          joined_ > 0 ? other_classes_->joint_resources().Remaining(first_activity_ + runner, now)
                      : LeftOf(work, now);
      device.push_back(static_cast<std::int64_t>(left));
      device.push_back(static_cast<std::int64_t>(left >> 64));
    } else {
      device.push_back((next_[runner] - now).picoseconds());
    }
  }
}

void SimulatedClass::AddCommunicators(std::uint32_t passes_ended,
                                      std::vector<std::int64_t>& device) const {
  const std::int64_t ended = passes_ended;
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    const Communicator& communicator = communicators_[c];
    device.push_back(communicator.arrived);
    device.push_back(communicator.early);
    device.push_back(static_cast<std::int64_t>(communicator.current) -
                     ended * compiled_->step_collectives[c]);
  }
}

void SimulatedClass::TakeHostState(Time now, std::uint32_t passes_ended, std::size_t first_span,
                                   State& state) const {
  const auto since = [now](Time time) { return (time - now).picoseconds(); };
  std::vector<std::int64_t>& host = state.host;
  host.clear();
  host.push_back(static_cast<std::int64_t>(host_pass_) - passes_ended);
  host.push_back(host_span_);
  host.push_back(host_waits_ ? 1 : 0);
  host.push_back(since(host_clock_));
  for (std::size_t i = first_span; i < span_begins_.size(); ++i) {
    host.push_back(since(span_begins_[i]));
  }
  state.host_waits = compiled_->host_waits;
  state.held_up_by_issue = held_up_by_issue_;
  state.step_issue = Time();
  for (std::uint32_t i = compiled_->prologue_spans; i < compiled_->spans.size(); ++i) {
    state.step_issue += compiled_->spans[i].length;
  }
}

void SimulatedClass::FinishTimeline(bool cut) {
  if (cut && records_operations_) {
    for (const Stream& stream : streams_) {
      if (stream.pass < first_recorded_pass_ || stream.state == StreamState::kDone) continue;
      const Index instruction = compiled_->items[stream.item].instruction;
      const std::uint32_t step = stream.pass - 1;
      if (stream.state == StreamState::kAtCollective ||
          (stream.state == StreamState::kInFlight &&
           in_flight_[&stream - streams_.data()].activity != Activity::kAwaitsIssue)) {
        if (marked_ != nullptr && !(*marked_)[instruction]) continue;
        const Time start = stream.state == StreamState::kInFlight ? stream.start : Time::Max();
        timeline_->operations.push_back(
            {instruction, step, stream.issued, stream.ready, start, Time::Max()});
      } else if (record_all_ && stream.state == StreamState::kAwaitsRecord) {
        timeline_->waits.push_back({instruction, step, stream.ready, Time::Max()});
      }
    }
    if (record_all_ && host_waits_ && host_pass_ >= first_recorded_pass_ &&
        compiled_->spans[host_span_ - 1].wait != kNone) {
      host_waits_recorded_.push_back(
          {compiled_->spans[host_span_ - 1].wait, host_pass_ - 1, host_clock_, Time::Max()});
    }
  }
  Merge(tasks_, timeline_->operations);
  Merge(host_waits_recorded_, timeline_->waits);
  // A step without work ends with the previous step.
  std::vector<Time>& ends = timeline_->step_ends;
  for (std::size_t s = 1; s < ends.size(); ++s) ends[s] = std::max(ends[s], ends[s - 1]);
}

}  // namespace stepcast::simulate
