#include "src/simulate/class_run.h"

#include <array>
#include <utility>

#include "src/base/check.h"
#include "src/simulate/record_order.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::OperationRecord;

void ClassRun::Reset(const RankClass& rank_class, std::uint32_t index,
                     const CompiledProgram& compiled, ConcurrentSets& sets, const Options& options,
                     std::uint32_t first_activity, std::span<const std::uint32_t> rendezvous,
                     const StepPosition* late_start, Couplings& couplings,
                     program::Timeline& timeline) {
  rank_class_ = &rank_class;
  index_ = index;
  compiled_ = &compiled;
  sets_ = &sets;
  couplings_ = &couplings;
  timeline_ = &timeline;
  first_activity_ = first_activity;
  passes_ = static_cast<std::uint32_t>(options.steps) + 1;
  first_recorded_pass_ = std::max(late_start != nullptr ? 2u : 1u,
                                  static_cast<std::uint32_t>(options.first_recorded) + 1);
  barrier_ = options.barrier;
  watch_passes_ = options.barrier || options.until_repetition;
  record_all_ = rank_class.records && options.recording == Recording::kAll;
  marked_ =
      rank_class.records && options.recording == Recording::kMarked ? rank_class.marked : nullptr;
  records_operations_ = record_all_ || marked_ != nullptr;

  now_ = until_ = Time();
  attachments_ = joined_ = 0;
  host_waits_ = false;
  open_passes_ = barrier_ ? 1 : passes_;
  host_pass_ = host_span_ = 0;
  host_clock_ = Time();
  host_wait_for_ = WaitFor();
  step_spans_ = compiled.step_spans();
  span_begins_.clear();
  tasks_.clear();
  host_waits_recorded_.clear();

  const std::size_t streams = compiled.streams.size();
  communicators_.assign(rendezvous.size(), Communicator());
  for (std::size_t i = 0; i < rendezvous.size(); ++i) communicators_[i].rendezvous = rendezvous[i];
  streams_.assign(streams, Stream());
  in_flight_.assign(streams + rendezvous.size(), InFlight());
  next_.assign(in_flight_.size(), Time::Max());
  records_.assign(compiled.records.size(), RecordState());
  for (std::vector<Time>& times : launch_ends_) times.clear();
  launch_ends_.resize(compiled.launch_records());
  ready_.clear();
  drained_ = 0;
  sharers_.clear();
  set_ = ConcurrentSets::kEmpty;
  unsettled_ = false;
  beside_.assign(compiled.costs.size(), Beside());
  ended_ = 0;
  prologue_end_ = Time();
  held_up_by_issue_ = Time();
  host_influence_ = HostInfluence();
  set_back_.assign(passes_ + 1, kNone);
  timeline.operations.clear();
  timeline.waits.clear();
  timeline.memory.clear();
  timeline.step_ends.assign(static_cast<std::size_t>(options.steps), Time());
  if (record_all_ && passes_ > first_recorded_pass_) {
    const std::size_t recorded = passes_ - first_recorded_pass_;
    std::size_t in_step = 0;
    for (const StreamRange& range : compiled.streams) in_step += range.end - range.step;
    timeline.operations.reserve(recorded * in_step);
    timeline.memory.reserve(recorded * compiled.host_items.size());
  }

  std::uint32_t in_step = 0;
  for (const StreamRange& range : compiled.streams) in_step += range.step != range.end ? 1 : 0;
  streams_in_pass_.assign(passes_, in_step);
  streams_in_pass_.front() = static_cast<std::uint32_t>(streams);
  if (late_start != nullptr) {
    BeginAt(*late_start);
  } else {
    BeginPrologue();
  }
  for (std::uint32_t s = 0; s < streams; ++s) {
    const StreamRange& range = compiled.streams[s];
    if (streams_[s].pass > 0 && range.step == range.end) {
      streams_[s].state = StreamState::kDone;
    } else {
      Enqueue(s);
    }
  }
  EndPasses();
}

void ClassRun::BeginPrologue() {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    const StreamRange& range = compiled_->streams[s];
    stream.item = range.begin;
    stream.end = range.step;
    if (range.begin != range.step) continue;
    // It has nothing to do in the prologue, and is at the step already.
    stream.end = range.end;
    stream.pass = 1;
    --streams_in_pass_.front();
  }
}

Time ClassRun::next() const {
  if (drained_ < ready_.size() || unsettled_) return now_;
  const Runner runner = NextRunner();
  return runner == kNone ? Time::Max() : next_[runner];
}

Time ClassRun::Run(Time at, Time until) {
  now_ = std::max(now_, at);
  until_ = until;
  for (;;) {
    DrainReadyQueue();
    Runner runner = NextRunner();
    if (runner == kNone || next_[runner] > now_) {
      // Rates follow when all that happens at this instant has happened.
      if (unsettled_) {
        Settle();
        runner = NextRunner();
      }
      if (runner == kNone) return Time::Max();
      const Time next = next_[runner];
      if (next > now_ && next >= until_) return next;
      now_ = next;
    }
    OnEvent(runner);
  }
}

void ClassRun::OnEvent(Runner runner) {
  InFlight& work = in_flight_[runner];
  switch (work.activity) {
    case Activity::kNone:
    case Activity::kHolds:
      STEPCAST_CHECK(false, "what is not in flight, or waits, has no event");
      return;
    case Activity::kAwaitsIssue:
      work.activity = Activity::kNone;
      next_[runner] = Time::Max();
      Enqueue(runner);
      return;
    case Activity::kLatency:
      BeginSharing(runner);
      return;
    case Activity::kShares:
      StopSharing(runner);
      break;
    case Activity::kFixed:
      break;
  }
  work.activity = Activity::kNone;
  next_[runner] = Time::Max();
  if (runner < streams_.size()) {
    Complete(runner, now_);
    if (streams_[runner].state != StreamState::kDone) Enqueue(runner);
  } else {
    EndCollective(runner - static_cast<Runner>(streams_.size()), now_);
  }
}

// Streams.

void ClassRun::Enqueue(std::uint32_t s) {
  Stream& stream = streams_[s];
  stream.state = StreamState::kReady;
  if (std::exchange(stream.queued, true)) return;
  ready_.push_back(s);
}

void ClassRun::DrainReadyQueue() {
  while (drained_ < ready_.size()) {
    const std::uint32_t stream = ready_[drained_++];
    streams_[stream].queued = false;
    Advance(stream);
  }
  ready_.clear();
  drained_ = 0;
}

// Goes through the stream's queue until something takes time or is not there yet.
void ClassRun::Advance(std::uint32_t s) {
  Stream& stream = streams_[s];
  while (stream.state != StreamState::kDone) {
    const Item& item = compiled_->items[stream.item];
    if (!KnowsSpan(SpanOf(item, stream.pass))) {
      stream.state = StreamState::kAwaitsHost;
      return;
    }
    if (item.kind == Item::Kind::kOperation) {
      // How far it gets without events depends on what the others start now.
      if (drained_ < ready_.size() && !stream.yielded) {
        stream.yielded = true;
        Enqueue(s);
        return;
      }
      stream.yielded = false;
      if (RunAhead(s)) continue;
    }
    stream.issued = span_begins_[SpanOf(item, stream.pass)] + item.issued;
    stream.ready = std::max(now_, stream.issued);
    if (stream.issued > now_) HoldUp(stream.pass, item, stream.issued);
    switch (item.kind) {
      case Item::Kind::kOperation:
        stream.start = stream.ready;
        stream.state = StreamState::kInFlight;
        if (!Start(s, stream.start, compiled_->costs[item.target])) return;
        Complete(s, now_);
        break;
      case Item::Kind::kWait:
        // Its issue need not be waited for: what follows was issued later.
        if (!PassesRecord(s, item)) return;
        NextItem(s);
        break;
      case Item::Kind::kRecord:
      case Item::Kind::kCollective:
      case Item::Kind::kExchange:
        if (stream.issued > now_) {
          stream.state = StreamState::kInFlight;
          in_flight_[s].activity = Activity::kAwaitsIssue;
          next_[s] = stream.issued;
          return;
        }
        if (item.kind != Item::Kind::kRecord) {
          ReachCommunicator(s, item);
          return;
        }
        NextItem(s);
        ReachRecord(item.target);
        break;
    }
  }
}

// Advances the stream over consecutive operations while nothing else of the class starts or
// finishes, and the class does not reach `until_`. False if it gets nowhere.
bool ClassRun::RunAhead(std::uint32_t s) {
  constexpr std::size_t kMostSharers = 8;
  if (joined_ > 0 || sharers_.size() > kMostSharers || drained_ < ready_.size()) return false;
  Time limit = until_;
  for (Runner other = 0; other < in_flight_.size(); ++other) {
    const InFlight& work = in_flight_[other];
    if (!Shares(work.activity) || work.settled) limit = std::min(limit, next_[other]);
    if (next_[other] <= now_) return false;
  }
  if (limit <= now_) return false;
  if (unsettled_) Settle();
  // What shares may be slowed, so that its end moves.
  limit = until_;
  for (Runner other = 0; other < in_flight_.size(); ++other) {
    if (next_[other] <= now_) return false;
    if (!Shares(in_flight_[other].activity)) limit = std::min(limit, next_[other]);
  }
  struct Sharer {
    ConcurrentSets::Profile profile;
    std::uint64_t rate;         // without the stream's operation
    std::uint64_t beside_rate;  // with it, in the set `beside`
    SharedWork left;
    SharedWork done;
  };
  std::array<Sharer, kMostSharers> sharers;  // clearing all of them would take longer than the rest
  const std::size_t count = sharers_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InFlight& sharer = in_flight_[sharers_[i]];
    sharers[i] = {.profile = sharer.profile,
                  .rate = sharer.rate,
                  .beside_rate = 0,
                  .left = LeftOf(sharer, now_),
                  .done = 0};
  }

  Stream& stream = streams_[s];
  bool advanced = false, slowed = false;
  std::uint32_t span = kNone;  // that of the operation before
  Time span_begin;
  ConcurrentSets::Set beside_set = ConcurrentSets::kEmpty;
  while (stream.state != StreamState::kDone) {
    const Item& item = compiled_->items[stream.item];
    if (item.kind != Item::Kind::kOperation) break;
    if (const std::uint32_t own = SpanOf(item, stream.pass); own != span) {
      if (!KnowsSpan(own)) break;
      span = own;
      span_begin = span_begins_[own];
    }
    if (count == 0 && !record_all_) {
      const Stretch& stretch = compiled_->StretchFrom(stream.item);
      const Time end = now_ + stretch.rest;
      // None of them waits until it is issued.
      if (end >= span_begin + stretch.latest && end < limit) {
        stream.item = stretch.end - 1;
        const Item& last = compiled_->items[stream.item];
        const Cost& cost = compiled_->costs[last.target];
        stream.issued = span_begin + last.issued;
        stream.ready = stream.start = end - (cost.latency + cost.work);
        now_ = end;
        advanced = true;
        Complete(s, end);
        if (now_ >= until_) break;  // it has ended a pass
        continue;
      }
    }
    const Time issued = span_begin + item.issued;
    const Time start = std::max(now_, issued);
    const Cost& cost = compiled_->costs[item.target];
    const Time begin = start + cost.latency;
    Time end = begin + cost.work;
    if (count > 0 && cost.profile != ConcurrentSets::kUsesNothing && cost.work > Time()) {
      const Beside& beside = BesideSharers(item.target);
      end = begin + beside.work;
      if (end >= limit) break;
      if (beside.set != beside_set) {
        beside_set = beside.set;
        for (std::size_t i = 0; i < count; ++i) {
          sharers[i].beside_rate = sets_->RateOf(beside_set, sharers[i].profile);
        }
      }
      bool none_ends = true, moves = false;
      for (std::size_t i = 0; i < count; ++i) {
        Sharer& sharer = sharers[i];
        moves = moves || sharer.beside_rate != sharer.rate;
        sharer.done = SharedResources::Done(begin - now_, sharer.rate) +
                      SharedResources::Done(end - begin, sharer.beside_rate);
        none_ends = none_ends && sharer.done < sharer.left;
      }
      if (!none_ends) break;
      slowed = slowed || moves;
    } else {
      if (end >= limit) break;
      bool none_ends = true;
      for (std::size_t i = 0; i < count; ++i) {
        Sharer& sharer = sharers[i];
        sharer.done = SharedResources::Done(end - now_, sharer.rate);
        none_ends = none_ends && sharer.done < sharer.left;
      }
      if (!none_ends) break;
    }
    for (std::size_t i = 0; i < count; ++i) sharers[i].left -= sharers[i].done;
    if (issued > now_) HoldUp(stream.pass, item, issued);
    now_ = end;
    advanced = true;
    stream.issued = issued;
    stream.ready = stream.start = start;
    Complete(s, end);
    if (now_ >= until_) break;  // it has ended a pass
  }
  if (!advanced) return false;
  for (std::size_t i = 0; i < count; ++i) {
    InFlight& sharer = in_flight_[sharers_[i]];
    sharer.left = sharers[i].left;
    sharer.since = now_;
    if (slowed && sharer.activity == Activity::kShares) {
      next_[sharers_[i]] = now_ + SharedResources::TimeFor(sharer.left, sharer.rate);
    }
  }
  return true;
}

bool ClassRun::PassesRecord(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const WaitFor wait_for = Resolve(item.target, item.other, item.steps_before, stream.pass);
  if (Reached(wait_for)) return true;
  stream.state = StreamState::kAwaitsRecord;
  stream.wait_for = wait_for;
  std::uint32_t& waiting = records_[wait_for.slot].waiting;
  stream.next_waiting = std::exchange(waiting, s);
  return false;
}

void ClassRun::ReachRecord(std::uint32_t slot) {
  RecordState& record = records_[slot];
  const std::uint32_t count = ++record.reached;
  record.reached_at = now_;
  if (compiled_->records[slot].instruction == kNone) {
    launch_ends_[compiled_->LaunchRecordIn(slot)].push_back(now_);
  }
  const bool frees_host =
      host_waits_ && host_wait_for_.slot == slot && host_wait_for_.count <= count;
  std::uint32_t* link = &record.waiting;
  while (*link != kNone) {
    const std::uint32_t s = *link;
    Stream& waiter = streams_[s];
    if (waiter.wait_for.count > count) {  // for the record of a later step
      link = &waiter.next_waiting;
      continue;
    }
    *link = waiter.next_waiting;
    if (now_ > waiter.ready && WaitsRecorded(waiter.pass)) {
      AppendInOrder(
          {compiled_->items[waiter.item].instruction, waiter.pass - 1, waiter.ready, now_},
          timeline_->waits);
    }
    NextItem(s);
    if (waiter.state != StreamState::kDone) Enqueue(s);
  }
  if (!frees_host) return;
  EnqueueAwaitingHost();
  EndPasses();
}

void ClassRun::Record(const Stream& stream, Time end) {
  const Index instruction = compiled_->items[stream.item].instruction;
  if (stream.pass < first_recorded_pass_ || (marked_ != nullptr && !(*marked_)[instruction]))
    return;
  AppendInOrder({instruction, stream.pass - 1, stream.issued, stream.ready, stream.start, end},
                timeline_->operations);
}

void ClassRun::NextPass(std::uint32_t s) {
  Stream& stream = streams_[s];
  const StreamRange& range = compiled_->streams[s];
  const std::uint32_t pass = stream.pass;
  EndPass(pass, now_);
  stream.item = range.step;
  stream.end = range.end;
  ++stream.pass;
  if (stream.pass == passes_ || range.step == range.end) stream.state = StreamState::kDone;
  if (--streams_in_pass_[pass] == 0) EndPasses();
}

}  // namespace stepcast::simulate
