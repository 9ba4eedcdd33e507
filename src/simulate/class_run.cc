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
                     Couplings& couplings, program::Timeline& timeline) {
  rank_class_ = &rank_class;
  index_ = index;
  compiled_ = &compiled;
  sets_ = &sets;
  couplings_ = &couplings;
  timeline_ = &timeline;
  first_activity_ = first_activity;
  passes_ = static_cast<std::uint32_t>(options.steps) + 1;
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
  launch_ends_.resize(compiled.records.size());
  ready_.clear();
  drained_ = 0;
  sharers_.clear();
  set_ = ConcurrentSets::kEmpty;
  unsettled_ = false;
  beside_.assign(compiled.costs.size(), Beside());
  ended_ = 0;
  prologue_end_ = Time();
  held_up_by_issue_ = Time();
  timeline.operations.clear();
  timeline.waits.clear();
  timeline.memory.clear();
  timeline.step_ends.assign(static_cast<std::size_t>(options.steps), Time());

  std::uint32_t in_step = 0;
  for (const StreamRange& range : compiled.streams) in_step += range.step != range.end ? 1 : 0;
  streams_in_pass_.assign(passes_, in_step);
  streams_in_pass_.front() = static_cast<std::uint32_t>(streams);
  for (std::uint32_t s = 0; s < streams; ++s) {
    Stream& stream = streams_[s];
    const StreamRange& range = compiled.streams[s];
    stream.item = range.begin;
    stream.end = range.step;
    // A stream that has nothing to do in the prologue is at the step already.
    if (range.begin == range.step) {
      stream.end = range.end;
      stream.pass = 1;
      --streams_in_pass_.front();
    }
    if (stream.pass == 1 && range.step == range.end) {
      stream.state = StreamState::kDone;
    } else {
      Enqueue(s);
    }
  }
  EndPasses();
}

Time ClassRun::next() const {
  if (drained_ < ready_.size() || unsettled_) return now_;
  const Runner runner = NextRunner();
  return runner == kNone ? Time::Max() : next_[runner];
}

void ClassRun::Run(Time at, Time until) {
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
      if (runner == kNone) return;
      const Time next = next_[runner];
      if (next > now_ && next >= until_) return;
      now_ = next;
    }
    OnEvent(runner);
  }
}

void ClassRun::OnEvent(Runner runner) {
  InFlight& work = in_flight_[runner];
  switch (work.activity) {
    case Activity::kNone:
      STEPCAST_CHECK(false, "what is not in flight has no event");
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

// The host.

bool ClassRun::ReachSpan(std::uint32_t span) {
  while (span >= span_begins_.size()) {
    if (!AdvanceHost()) return false;
  }
  return true;
}

// To the end of the span at which it is. False: it waits, or has issued all.
bool ClassRun::AdvanceHost() {
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

// When what the host waits for was reached. Events cannot be recorded again before the host has
// passed the wait; later launches of short steps can.
Time ClassRun::TimeOf(const WaitFor& wait_for) const {
  return compiled_->records[wait_for.slot].instruction == kNone
             ? launch_ends_[wait_for.slot][wait_for.count - 1]
             : records_[wait_for.slot].reached_at;
}

void ClassRun::BeginSpan() {
  span_begins_.push_back(host_clock_);
  if (host_pass_ == 0 || !records_operations_) return;
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

// A stream or the host has come to the end of a pass.
void ClassRun::EndPass(std::uint32_t pass, Time end) {
  Time& pass_end = pass == 0 ? prologue_end_ : timeline_->step_ends[pass - 1];
  pass_end = std::max(pass_end, end);
}

// Passes that all streams have ended: the host is followed to their ends.
void ClassRun::EndPasses() {
  while (ended_ < passes_ && streams_in_pass_[ended_] == 0) {
    while (host_pass_ <= ended_) {
      if (!AdvanceHost()) return;  // at a barrier, or held up for ever
    }
    ++ended_;
    if (watch_passes_) Yield();
  }
}

void ClassRun::OpenBarrier(Time begin) {
  STEPCAST_CHECK(host_pass_ == open_passes_, "the host has come to the barrier");
  ++open_passes_;
  host_clock_ = begin;
  EnqueueAwaitingHost();
  EndPasses();
}

void ClassRun::EnqueueAwaitingHost() {
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].state == StreamState::kAwaitsHost) Enqueue(s);
  }
}

bool ClassRun::Finish() {
  while (AdvanceHost()) {
  }
  EndPasses();
  return ended_ == passes_;
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
    if (stream.issued > now_) held_up_by_issue_ = std::max(held_up_by_issue_, stream.issued);
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

const ClassRun::Beside& ClassRun::PutBesideSharers(std::uint32_t index) {
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

// Advances the stream over consecutive operations while nothing else of the class starts or
// finishes, and the class does not reach `until_`. False if it gets nowhere.
bool ClassRun::RunAhead(std::uint32_t s) {
  constexpr std::size_t kMostSharers = 8;
  if (joined_ > 0 || sharers_.size() > kMostSharers || drained_ < ready_.size()) return false;
  Time limit = until_;
  for (Runner other = 0; other < in_flight_.size(); ++other) {
    const InFlight& work = in_flight_[other];
    if (work.activity != Activity::kShares || work.settled) limit = std::min(limit, next_[other]);
    if (next_[other] <= now_) return false;
  }
  if (limit <= now_) return false;
  if (unsettled_) Settle();
  // What shares may be slowed, so that its end moves.
  limit = until_;
  for (Runner other = 0; other < in_flight_.size(); ++other) {
    if (next_[other] <= now_) return false;
    if (in_flight_[other].activity != Activity::kShares) limit = std::min(limit, next_[other]);
  }
  struct Sharer {
    std::uint64_t rate;  // without the stream's operation
    SharedWork left;
    SharedWork done;
  };
  std::array<Sharer, kMostSharers> sharers;  // clearing all of them would take longer than the rest
  const std::size_t count = sharers_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InFlight& sharer = in_flight_[sharers_[i]];
    sharers[i] = {.rate = sharer.rate, .left = LeftOf(sharer, now_), .done = 0};
  }

  Stream& stream = streams_[s];
  bool advanced = false, slowed = false;
  while (stream.state != StreamState::kDone) {
    const Item& item = compiled_->items[stream.item];
    if (item.kind != Item::Kind::kOperation || !KnowsSpan(SpanOf(item, stream.pass))) break;
    const Time issued = span_begins_[SpanOf(item, stream.pass)] + item.issued;
    const Time start = std::max(now_, issued);
    const Cost& cost = compiled_->costs[item.target];
    const Time begin = start + cost.latency;
    Time end = begin + cost.work;
    if (count > 0 && cost.profile != ConcurrentSets::kUsesNothing && cost.work > Time()) {
      const Beside& beside = BesideSharers(item.target);
      end = begin + beside.work;
      if (end >= limit) break;
      bool none_ends = true, moves = false;
      for (std::size_t i = 0; i < count; ++i) {
        Sharer& sharer = sharers[i];
        const std::uint64_t rate = sets_->RateOf(beside.set, in_flight_[sharers_[i]].profile);
        moves = moves || rate != sharer.rate;
        sharer.done = SharedResources::Done(begin - now_, sharer.rate) +
                      SharedResources::Done(end - begin, rate);
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
    if (issued > now_) held_up_by_issue_ = std::max(held_up_by_issue_, issued);
    stream.issued = issued;
    stream.ready = stream.start = start;
    now_ = end;
    advanced = true;
    Complete(s, end);
    if (now_ >= until_) break;  // it has ended a pass
  }
  if (!advanced) return false;
  for (std::size_t i = 0; i < count; ++i) {
    InFlight& sharer = in_flight_[sharers_[i]];
    sharer.left = sharers[i].left;
    sharer.since = now_;
    if (slowed) next_[sharers_[i]] = now_ + SharedResources::TimeFor(sharer.left, sharer.rate);
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
  if (compiled_->records[slot].instruction == kNone) launch_ends_[slot].push_back(now_);
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
  if (stream.pass == 0 || (marked_ != nullptr && !(*marked_)[instruction])) return;
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

// Collectives and exchanges.

std::uint32_t ClassRun::CommunicatorOf(const Item& item) const {
  return item.kind == Item::Kind::kExchange ? program().exchanges[item.target].communicator
                                            : program().collectives[item.target].communicator;
}

std::uint32_t ClassRun::NumberOf(const Item& item, std::uint32_t pass) const {
  if (pass == 0) return item.other;
  const std::uint32_t c = CommunicatorOf(item);
  return compiled_->prologue_collectives[c] + (pass - 1) * compiled_->step_collectives[c] +
         item.other;
}

void ClassRun::ReachCommunicator(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const std::uint32_t c = CommunicatorOf(item);
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

// Starts the class's own collective, or tells the others that it has reached theirs.
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

// Work.

bool ClassRun::Start(Runner runner, Time start, const Cost& cost) {
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

void ClassRun::BeginSharing(Runner runner) {
  InFlight& work = in_flight_[runner];
  work.activity = Activity::kShares;
  next_[runner] = Time::Max();  // its end is known when this instant is over
  work.settled = false;
  work.left = SharedResources::Done(work.work, SharedResources::kFullRate);
  work.since = now_;
  sharers_.push_back(runner);
  if (joined_ > 0) {
    couplings_->joint_resources().Start(first_activity_ + runner, now_, work.left,
                                        sets_->UsesOf(work.profile), first_resource());
    Yield();
    return;
  }
  set_ = sets_->With(set_, work.profile);
  unsettled_ = true;
}

void ClassRun::StopSharing(Runner runner) {
  const InFlight& work = in_flight_[runner];
  *std::find(sharers_.begin(), sharers_.end(), runner) = sharers_.back();
  sharers_.pop_back();
  if (joined_ > 0) {
    couplings_->joint_resources().Finish(first_activity_ + runner);
    Yield();
    return;
  }
  set_ = sets_->Without(set_, work.profile);
  unsettled_ = true;
}

// New rates for what began at this instant, and for what that and what finished has slowed or not.
void ClassRun::Settle() {
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
    next_[runner] = now_ + SharedResources::TimeFor(work.left, rate);
  }
}

void ClassRun::Join(Time now) {
  now_ = now;
  if (joined_++ > 0) return;
  SharedResources& joint = couplings_->joint_resources();
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

void ClassRun::Leave(Time now) {
  now_ = now;
  if (--joined_ > 0) return;
  SharedResources& joint = couplings_->joint_resources();
  for (const Runner runner : sharers_) {
    InFlight& work = in_flight_[runner];
    work.left = joint.Remaining(first_activity_ + runner, now);
    work.since = now;
    joint.Finish(first_activity_ + runner);
    set_ = sets_->With(set_, work.profile);
    unsettled_ = true;
  }
}

// The state.

void ClassRun::TakeState(Time now, std::uint32_t passes_ended, State& state) {
  const auto since = [now](Time time) { return (time - now).picoseconds(); };
  const std::int64_t ended = passes_ended;
  std::vector<std::int64_t>& device = state.device;
  device.clear();
  device.push_back(since(EndOfPass(passes_ended - 1)));
  state.within_next_step = true;
  // What the host has done until now is part of the state.
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
  for (Runner runner = 0; runner < in_flight_.size(); ++runner) {
    const InFlight& work = in_flight_[runner];
    device.push_back(static_cast<std::int64_t>(work.activity));
    if (work.activity == Activity::kNone) continue;
    if (work.activity == Activity::kShares) {
      const SharedWork left =
          joined_ > 0 ? couplings_->joint_resources().Remaining(first_activity_ + runner, now)
                      : LeftOf(work, now);
      device.push_back(static_cast<std::int64_t>(left));
      device.push_back(static_cast<std::int64_t>(left >> 64));
    } else {
      device.push_back(since(next_[runner]));
    }
  }
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    const Communicator& communicator = communicators_[c];
    device.push_back(communicator.arrived);
    device.push_back(communicator.early);
    device.push_back(static_cast<std::int64_t>(communicator.current) -
                     ended * compiled_->step_collectives[c]);
  }

  std::vector<std::int64_t>& host = state.host;
  host.clear();
  host.push_back(static_cast<std::int64_t>(host_pass_) - ended);
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

// The timeline.

void ClassRun::FinishTimeline(bool cut) {
  if (cut && record_all_) {
    for (const Stream& stream : streams_) {
      if (stream.pass == 0 || stream.state == StreamState::kDone) continue;
      const Index instruction = compiled_->items[stream.item].instruction;
      const std::uint32_t step = stream.pass - 1;
      if (stream.state == StreamState::kAtCollective ||
          (stream.state == StreamState::kInFlight &&
           in_flight_[&stream - streams_.data()].activity != Activity::kAwaitsIssue)) {
        const Time start = stream.state == StreamState::kInFlight ? stream.start : Time::Max();
        timeline_->operations.push_back(
            {instruction, step, stream.issued, stream.ready, start, Time::Max()});
      } else if (stream.state == StreamState::kAwaitsRecord) {
        timeline_->waits.push_back({instruction, step, stream.ready, Time::Max()});
      }
    }
    if (host_waits_ && host_pass_ > 0 && compiled_->spans[host_span_ - 1].wait != kNone) {
      host_waits_recorded_.push_back(
          {compiled_->spans[host_span_ - 1].wait, host_pass_ - 1, host_clock_, Time::Max()});
    }
  }
  Merge(tasks_, timeline_->operations);
  Merge(host_waits_recorded_, timeline_->waits);
  // A step that finds nothing to do is over when the one before it is.
  std::vector<Time>& ends = timeline_->step_ends;
  for (std::size_t s = 1; s < ends.size(); ++s) ends[s] = std::max(ends[s], ends[s - 1]);
}

}  // namespace stepcast::simulate
