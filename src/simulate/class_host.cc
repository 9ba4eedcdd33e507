#include <algorithm>

#include "src/base/check.h"
#include "src/simulate/simulated_class.h"

// The host of a class.
namespace stepcast::simulate {

bool SimulatedClass::ReachSpan(std::uint32_t span) {
  while (span >= span_begins_.size()) {
    if (!AdvanceHost()) return false;
  }
  return true;
}

// Advances the host to the end of its present span. Returns false if it waits, or has issued
// everything.
bool SimulatedClass::AdvanceHost() {
  if (host_pass_ == open_passes_) return false;
  if (host_waits_) {
    if (!Reached(host_wait_for_)) return false;
    host_waits_ = false;
    const Time reached = TimeOf(host_wait_for_);
    if (reached > host_clock_) {
      const Index wait = compiled_->spans[host_span_ - 1].wait;
      if (WaitsRecorded(host_pass_) && wait != kNone) {
        host_waits_recorded_.push_back({wait, host_pass_ - 1, host_clock_, reached});
      }
      host_clock_ = reached;
      const RankClass::Part& part = rank_class_->looked_at;
      if (wait == kNone) {
        const HostSpan& next = compiled_->spans[host_span_];
        if (HostMatters(host_pass_, next.first_instruction)) {
          host_influence_.waited_for_room = reached;
        }
      } else if (host_pass_ > 0 && wait >= part.end && set_back_[host_pass_] == kNone) {
        set_back_[host_pass_] = wait;
      }
    }
  }
  BeginSpan();
  const HostSpan& span = compiled_->spans[host_span_];
  host_clock_ += span.length;
  ++host_span_;
  if (!span.ends_pass) {
    host_wait_for_ = Resolve(span.target, span.other, span.steps_before, host_pass_);
    host_waits_ = host_wait_for_.count > 0;
    return true;
  }
  EndPass(host_pass_++, host_clock_);
  host_span_ = compiled_->prologue_spans;
  return true;
}

bool SimulatedClass::HostMatters(std::uint32_t pass, Index instruction) const {
  if (pass == 0) return true;
  const bool behind = instruction >= rank_class_->looked_at.begin;
  const Index set_back = set_back_[behind ? pass : pass - 1];
  return set_back == kNone || (behind && instruction < set_back);
}

void SimulatedClass::HoldUp(std::uint32_t pass, const Item& item, Time issued) {
  held_up_by_issue_ = std::max(held_up_by_issue_, issued);
  if (item.kind == Item::Kind::kWait || !HostMatters(pass, item.instruction)) return;
  host_influence_.held_up_by_issue = std::max(host_influence_.held_up_by_issue, issued);
}

// When the host's awaited record was reached. Events are recorded again only after the host has
// passed the wait; later launches of short steps may come earlier.
Time SimulatedClass::TimeOf(const WaitFor& wait_for) const {
  return compiled_->IsOfLaunches(wait_for.slot)
             ? launch_ends_[compiled_->LaunchRecordIn(wait_for.slot)][wait_for.count - 1]
             : records_[wait_for.slot].reached_at;
}

void SimulatedClass::BeginSpan() {
  span_begins_.push_back(host_clock_);
  if (host_pass_ < first_recorded_pass_ || !records_operations_) return;
  const HostSpan& span = compiled_->spans[host_span_];
  const std::uint32_t step = host_pass_ - 1;
  for (std::uint32_t i = 0; i < span.item_count; ++i) {
    const HostItem& item = compiled_->host_items[span.first_item + i];
    const Time begin = host_clock_ + item.begin;
    if (!item.is_task) {
      timeline_->memory.push_back({item.instruction, step, begin});
    } else if (record_all_) {
      tasks_.push_back({item.instruction, step, begin, begin, begin, begin + item.duration});
    }
  }
}

// A stream or the host has reached the end of a pass.
void SimulatedClass::EndPass(std::uint32_t pass, Time end) {
  Time& pass_end = pass == 0 ? prologue_end_ : timeline_->step_ends[pass - 1];
  pass_end = std::max(pass_end, end);
}

// Ends the passes that all streams have ended, and advances the host to their ends.
void SimulatedClass::EndPasses() {
  while (ended_ < passes_ && streams_in_pass_[ended_] == 0) {
    while (host_pass_ <= ended_) {
      if (!AdvanceHost()) return;  // at a barrier, or waiting forever
    }
    ++ended_;
    if (watch_passes_) Yield();
  }
}

void SimulatedClass::OpenBarrier(Time begin) {
  STEPCAST_CHECK(host_pass_ == open_passes_, "the host must have reached the barrier");
  ++open_passes_;
  host_clock_ = begin;
  EnqueueAwaitingHost();
  EndPasses();
}

void SimulatedClass::EnqueueAwaitingHost() {
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].state == StreamState::kAwaitsHost) Enqueue(s);
  }
}

bool SimulatedClass::Finish() {
  while (AdvanceHost()) {
  }
  EndPasses();
  return ended_ == passes_;
}

}  // namespace stepcast::simulate
