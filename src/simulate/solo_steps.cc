#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "src/simulate/records.h"
#include "src/simulate/solo_run.h"

// Repetition: a state that comes again goes on as it did before. Steps.
namespace stepcast::simulate {

// Whether the step that has just ended left everything as the one before it did.
bool SoloRun::StepRepeats() {
  const std::int64_t ended = static_cast<std::int64_t>(next_to_end_) - 1;
  if (ended <= state_.pass) return false;
  std::swap(state_, state_before_);
  TakeState(state_);
  if (ended <= options_.first_recorded_step) return false;
  if (state_.time - EndOf(ended) != state_before_.time - EndOf(ended - 1)) return false;
  const std::optional<bool> host = ComesAgain(state_before_, state_);
  if (!host) return false;
  repetition_ = Repetition{.step = static_cast<int>(ended) - 1,
                           .start = EndOf(ended - 1),
                           .host = *host,
                           .next_begins = last_begun_ > ended ? last_begins_ : Time::Max()};
  FillEnds(static_cast<std::size_t>(ended), state_.time - state_before_.time);
  return true;
}

// Every step from this one on takes so long.
void SoloRun::FillEnds(std::size_t step, Time interval) {
  std::vector<Time>& ends = timeline_.step_ends;
  for (std::size_t s = step; s < ends.size(); ++s) {
    ends[s] = (s == 0 ? prologue_end_ : ends[s - 1]) + interval;
  }
}

// Whether `after` is `before` one step later: what happened in between will happen again. If so,
// whether that is true of the host, too.
std::optional<bool> SoloRun::ComesAgain(const State& before, const State& after) const {
  if (before.pass < 0 || before.pass + 1 != after.pass) return std::nullopt;
  std::uint32_t first_segment = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const State::Position& now = after.positions[s];
    const State::Position& then = before.positions[s];
    const bool in_step = schedule_->streams[s].step != schedule_->streams[s].end;
    if (now.item != then.item || now.pass != then.pass + (in_step ? 1 : 0)) return std::nullopt;
    if (!in_step) continue;
    // Nobody may be further than the next step, for where a run ends there is none after that.
    if (now.pass > after.pass + 1) return std::nullopt;
    first_segment = std::min(first_segment, SegmentOf(then.item, then.pass));
  }
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    if (after.finished[c] != before.finished[c] + schedule_->step_collectives[c]) {
      return std::nullopt;
    }
  }
  if (after.device != before.device) return std::nullopt;
  if (after.host_pass == before.host_pass + 1 && after.host_pass <= after.pass + 1 &&
      HostIsAlike(before, after, first_segment, step_segments_)) {
    return true;
  }
  // A host that never waits is ahead by as much as a step takes longer than to issue it. If
  // nothing has waited for it in this step, nothing will in those that follow.
  if (step_segments_ != 1) return std::nullopt;
  if (schedule_->segments.back().length > after.time - before.time) return std::nullopt;
  if (held_up_by_issue_ > before.time) return std::nullopt;
  return false;
}

// A phase of the step begins. If it began like that in the step before, what comes is known: this
// one need not be run to its end.
bool SoloRun::PhaseRepeats(std::uint32_t s) {
  const Stream& stream = streams_[s];
  for (std::size_t i = 0; i < phase_count_; ++i) {
    BegunPhase& phase = phases_[i];
    if (phase.stream != s || phase.item != stream.item) continue;
    std::swap(phase.state, next_);
    TakeState(phase.state);
    const std::int64_t ended = phase.state.pass;
    if (ended + 1 >= options_.steps) return false;
    const std::optional<bool> host = ComesAgain(next_, phase.state);
    if (!host) return false;
    const Time interval = phase.state.time - next_.time;
    if (options_.records < Records::kStepEnds || options_.memory) {
      // The step that stands for the others is recorded in full.
      if (!*host || last_begun_ != ended + 1 || !InRecordedStep(stream.pass - 1)) return false;
      RecordAgain(next_, phase.state);
    }
    repetition_ =
        Repetition{.step = static_cast<int>(ended),
                   .start = EndOf(ended),
                   .host = *host,
                   .next_begins = last_begun_ == ended + 1 ? last_begins_ + interval : Time::Max()};
    FillEnds(static_cast<std::size_t>(ended), interval);
    return true;
  }
  if (phase_count_ == phases_.size()) return false;
  BegunPhase& phase = phases_[phase_count_++];
  phase.stream = s;
  phase.item = stream.item;
  TakeState(phase.state);
  return false;
}

// What was recorded in between comes once more, one step later.
void SoloRun::RecordAgain(const State& before, const State& after) {
  const Time interval = after.time - before.time;
  const std::size_t again = timeline_.memory.size();
  timeline_.memory.resize(again + (after.memory - before.memory));
  program::MemoryRecord* to = timeline_.memory.data() + again;
  for (std::size_t i = before.memory; i < after.memory; ++i) {
    const program::MemoryRecord& record = timeline_.memory[i];
    *to++ = {record.instruction, record.step + 1, record.time + interval};
  }
  for (std::size_t i = before.segments_begun; i < after.segments_begun; ++i) {
    segment_begins_.push_back(segment_begins_[i] + interval);
  }
  const auto later = [interval](program::OperationRecord record) {
    ++record.step;
    record.issued += interval;
    record.ready += interval;
    record.start += interval;
    record.end += interval;
    return record;
  };
  for (std::size_t i = before.operations; i < after.operations; ++i) {
    if (options_.records == Records::kEnds) {
      const EndRecord& record = ends_[i];
      ends_.push_back({record.instruction, record.step + 1, record.end + interval});
    } else {
      AppendInOrder(later(timeline_.operations[i]), timeline_.operations);
    }
  }
  for (std::size_t i = before.tasks; i < after.tasks; ++i) tasks_.push_back(later(tasks_[i]));
}

// Which records have been reached follows from where the streams are.
void SoloRun::TakeState(State& state) const {
  state.pass = static_cast<std::int64_t>(next_to_end_) - 1;
  state.time = now_;
  state.host_pass = host_pass_;
  state.host_segment = host_segment_;
  state.host_waits = host_waits_;
  state.host_clock = host_clock_;
  state.segments_begun = segment_begins_.size();
  state.operations =
      options_.records == Records::kEnds ? ends_.size() : timeline_.operations.size();
  state.memory = timeline_.memory.size();
  state.tasks = tasks_.size();
  state.positions.clear();
  std::vector<std::int64_t>& device = state.device;
  device.clear();
  const auto since = [this](Time time) { return (time - now_).picoseconds(); };
  for (const Stream& stream : streams_) {
    state.positions.push_back({stream.item, stream.pass});
    device.push_back(static_cast<std::int64_t>(stream.state));
    if (stream.state == StreamState::kDone) continue;
    switch (stream.state) {
      case StreamState::kUnderWay:
        device.push_back(since(stream.ready));
        device.push_back(since(stream.start));
        break;
      case StreamState::kAtCollective:
        device.push_back(since(stream.ready));
        device.push_back(stream.wait_for.slot);
        device.push_back(stream.wait_for.count - communicators_[stream.wait_for.slot].current);
        device.push_back(stream.next_waiting);
        break;
      case StreamState::kAwaitsRecord:
        // Since when it waits is of no interest but to records of waits.
        if (options_.records < Records::kNoKernels) device.push_back(since(stream.ready));
        device.push_back(stream.next_waiting);
        break;
      default:
        break;
    }
  }
  for (const UnderWay& work : under_way_) {
    device.push_back(static_cast<std::int64_t>(work.activity));
    if (work.activity == Activity::kNone) continue;
    if (work.activity == Activity::kShares) {
      const SharedWork left = LeftOf(work);
      device.push_back(static_cast<std::int64_t>(left));
      device.push_back(static_cast<std::int64_t>(left >> 64));
    } else {
      device.push_back(since(work.next));
    }
  }
  state.finished.clear();
  for (const Communicator& communicator : communicators_) {
    state.finished.push_back(communicator.current);
    device.push_back(communicator.running);
    device.push_back(communicator.waiting);
  }
}

// Whether the host is as it was so many segments before, with all that may still matter of when
// segments began.
bool SoloRun::HostIsAlike(const State& before, const State& after, std::uint32_t first_segment,
                          std::uint32_t segments) const {
  if (before.host_waits != after.host_waits ||
      before.host_clock - before.time != after.host_clock - after.time ||
      before.segments_begun + segments != after.segments_begun) {
    return false;
  }
  for (std::size_t i = first_segment; i < before.segments_begun; ++i) {
    if (segment_begins_[i] - before.time != segment_begins_[i + segments] - after.time) {
      return false;
    }
  }
  return true;
}

}  // namespace stepcast::simulate
