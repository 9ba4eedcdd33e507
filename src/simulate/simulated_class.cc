#include "src/simulate/simulated_class.h"

#include <array>
#include <utility>

#include "src/base/check.h"
#include "src/base/stop.h"
#include "src/simulate/record_order.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::OperationRecord;

void SimulatedClass::Reset(const RankClass& rank_class, std::uint32_t index,
                           const CompiledProgram& compiled, ConcurrentSets& sets,
                           const Options& options, std::uint32_t first_activity,
                           std::span<const std::uint32_t> rendezvous,
                           const StepPosition* late_start, OtherClasses& other_classes,
                           program::Timeline& timeline) {
  rank_class_ = &rank_class;
  index_ = index;
  compiled_ = &compiled;
  sets_ = &sets;
  other_classes_ = &other_classes;
  timeline_ = &timeline;
  first_activity_ = first_activity;
  TakeOptions(options, late_start != nullptr);
  ClearHost();
  ClearStreams(rendezvous);
  ClearTimeline();
  BeginStreams(late_start);
}

void SimulatedClass::TakeOptions(const Options& options, bool starts_late) {
  passes_ = static_cast<std::uint32_t>(options.steps) + 1;
  first_recorded_pass_ =
      std::max(starts_late ? 2u : 1u, static_cast<std::uint32_t>(options.first_recorded) + 1);
  barrier_ = options.barrier;
  watch_passes_ = options.barrier || options.until_repetition;
  record_all_ = rank_class_->records && options.recording == Recording::kAll;
  marked_ = rank_class_->records && options.recording == Recording::kMarked ? rank_class_->marked
                                                                            : nullptr;
  records_operations_ = record_all_ || marked_ != nullptr;
}

void SimulatedClass::ClearHost() {
  now_ = until_ = Time();
  attachments_ = joined_ = 0;
  host_waits_ = false;
  open_passes_ = barrier_ ? 1 : passes_;
  host_pass_ = host_span_ = 0;
  host_clock_ = Time();
  host_wait_for_ = WaitFor();
  step_spans_ = compiled_->step_spans();
  span_begins_.clear();
  // Few runs have more steps.
  constexpr std::size_t kSteps = 6;
  span_begins_.reserve(std::min<std::size_t>(passes_, kSteps) * compiled_->spans.size());
  tasks_.clear();
  host_waits_recorded_.clear();
  ended_ = 0;
  prologue_end_ = Time();
  held_up_by_issue_ = Time();
  host_influence_ = HostInfluence();
  set_back_.assign(passes_ + 1, kNone);
}

void SimulatedClass::ClearStreams(std::span<const std::uint32_t> rendezvous) {
  const std::size_t streams = compiled_->streams.size();
  communicators_.assign(rendezvous.size(), Communicator());
  for (std::size_t i = 0; i < rendezvous.size(); ++i) communicators_[i].rendezvous = rendezvous[i];
  streams_.assign(streams, Stream());
  in_flight_.assign(streams + rendezvous.size(), InFlight());
  next_.assign(in_flight_.size(), Time::Max());
  records_.assign(compiled_->records.size(), RecordState());
  for (std::vector<Time>& times : launch_ends_) times.clear();
  launch_ends_.resize(compiled_->launch_records());
  ready_.clear();
  drained_ = 0;
  sharers_.clear();
  set_ = ConcurrentSets::kEmpty;
  unsettled_ = false;
  beside_.assign(compiled_->costs.size(), Beside());
}

void SimulatedClass::ClearTimeline() {
  timeline_->operations.clear();
  timeline_->waits.clear();
  timeline_->memory.clear();
  timeline_->step_ends.assign(passes_ - 1, Time());
  if (!records_operations_ || passes_ <= first_recorded_pass_) return;
  const std::size_t recorded = passes_ - first_recorded_pass_;
  timeline_->memory.reserve(recorded * compiled_->host_items.size());
  if (!record_all_) return;
  std::size_t in_step = 0;
  for (const StreamRange& range : compiled_->streams) in_step += range.end - range.step;
  timeline_->operations.reserve(recorded * in_step);
}

void SimulatedClass::BeginStreams(const StepPosition* late_start) {
  const auto streams = static_cast<std::uint32_t>(streams_.size());
  std::uint32_t in_step = 0;
  for (const StreamRange& range : compiled_->streams) in_step += range.step != range.end ? 1 : 0;
  streams_in_pass_.assign(passes_, in_step);
  streams_in_pass_.front() = streams;
  if (late_start != nullptr) {
    BeginAt(*late_start);
  } else {
    BeginPrologue();
  }
  for (std::uint32_t s = 0; s < streams; ++s) {
    const StreamRange& range = compiled_->streams[s];
    if (streams_[s].pass > 0 && range.step == range.end) {
      streams_[s].state = StreamState::kDone;
    } else {
      Enqueue(s);
    }
  }
  EndPasses();
}

void SimulatedClass::BeginPrologue() {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    const StreamRange& range = compiled_->streams[s];
    stream.item = range.begin;
    stream.end = range.step;
    if (range.begin != range.step) continue;
    // The stream has nothing in the prologue and starts with the step.
    stream.end = range.end;
    stream.pass = 1;
    --streams_in_pass_.front();
  }
}

Time SimulatedClass::next() const {
  if (drained_ < ready_.size() || unsettled_) return now_;
  const Runner runner = NextRunner();
  return runner == kNone ? Time::Max() : next_[runner];
}

Time SimulatedClass::Run(Time at, Time until) {
  now_ = std::max(now_, at);
  until_ = until;
  for (std::uint32_t events = 0;; ++events) {
    if (events % kEventsBetweenStopPoints == 0) StopPoint();
    DrainReadyQueue();
    Runner runner = NextRunner();
    if (runner == kNone || next_[runner] > now_) {
      // Rates are computed when everything at this instant has happened.
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

void SimulatedClass::OnEvent(Runner runner) {
  InFlight& work = in_flight_[runner];
  switch (work.activity) {
    case Activity::kNone:
    case Activity::kHolds:
      STEPCAST_CHECK(false, "an idle or waiting stream or communicator must not have events");
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

void SimulatedClass::Enqueue(std::uint32_t s) {
  Stream& stream = streams_[s];
  stream.state = StreamState::kReady;
  if (std::exchange(stream.queued, true)) return;
  ready_.push_back(s);
}

void SimulatedClass::DrainReadyQueue() {
  while (drained_ < ready_.size()) {
    const std::uint32_t stream = ready_[drained_++];
    streams_[stream].queued = false;
    Advance(stream);
  }
  ready_.clear();
  drained_ = 0;
}

// Processes the stream's queue until an item takes time or must wait.
void SimulatedClass::Advance(std::uint32_t s) {
  Stream& stream = streams_[s];
  while (stream.state != StreamState::kDone) {
    const Item& item = compiled_->items[stream.item];
    // Prefetch the next items: when this one ends, other classes will have used the cache.
    __builtin_prefetch(&item + 2);
    if (!KnowsSpan(SpanOf(item, stream.pass))) {
      stream.state = StreamState::kAwaitsHost;
      return;
    }
    if (item.kind == Item::Kind::kOperation) {
      // How far the stream can run ahead depends on what others start now.
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
        // No need to wait for its issue: later items are issued later.
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

// The progress of the sharing operations in flight while a stream runs ahead.
class SimulatedClass::SharersAhead {
 public:
  static constexpr std::size_t kMost = 8;

  explicit SharersAhead(const SimulatedClass& run) : count_(run.sharers_.size()) {
    for (std::size_t i = 0; i < count_; ++i) {
      const InFlight& sharer = run.in_flight_[run.sharers_[i]];
      sharers_[i] = {.profile = sharer.profile,
                     .rate = sharer.rate,
                     .beside_rate = 0,
                     .left = run.LeftOf(sharer, run.now_),
                     .done = 0};
    }
  }

  bool empty() const { return count_ == 0; }

  // Advances them from `now` to `end` at their own rates. Returns false, without changes, if one
  // would end before.
  bool Progress(Time now, Time end) {
    bool none_ends = true;
    for (std::size_t i = 0; i < count_; ++i) {
      Sharer& sharer = sharers_[i];
      sharer.done = SharedResources::Done(end - now, sharer.rate);
      none_ends = none_ends && sharer.done < sharer.left;
    }
    if (none_ends) TakeDone();
    return none_ends;
  }

  // The same if the stream's own operation shares too, from `begin` on. `beside` is the set of all.
  bool ProgressBeside(const ConcurrentSets& sets, ConcurrentSets::Set beside, Time now, Time begin,
                      Time end) {
    if (beside != beside_) {
      beside_ = beside;
      for (std::size_t i = 0; i < count_; ++i) {
        sharers_[i].beside_rate = sets.RateOf(beside, sharers_[i].profile);
      }
    }
    bool none_ends = true, moves = false;
    for (std::size_t i = 0; i < count_; ++i) {
      Sharer& sharer = sharers_[i];
      moves = moves || sharer.beside_rate != sharer.rate;
      sharer.done = SharedResources::Done(begin - now, sharer.rate) +
                    SharedResources::Done(end - begin, sharer.beside_rate);
      none_ends = none_ends && sharer.done < sharer.left;
    }
    if (!none_ends) return false;
    slowed_ = slowed_ || moves;
    TakeDone();
    return true;
  }

  // Writes back their remaining work at the class's time, and their ends.
  void PutInto(SimulatedClass& run) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const Runner runner = run.sharers_[i];
      InFlight& sharer = run.in_flight_[runner];
      sharer.left = sharers_[i].left;
      sharer.since = run.now_;
      if (slowed_ && sharer.activity == Activity::kShares) {
        run.next_[runner] = run.now_ + SharedResources::TimeFor(sharer.left, sharer.rate);
      }
    }
  }

 private:
  struct Sharer {
    ConcurrentSets::Profile profile;
    std::uint64_t rate;         // without the stream's operation
    std::uint64_t beside_rate;  // with it, in the set `beside_`
    SharedWork left;
    SharedWork done;  // work done by the stream's operation
  };

  void TakeDone() {
    for (std::size_t i = 0; i < count_; ++i) sharers_[i].left -= sharers_[i].done;
  }

  std::array<Sharer, kMost> sharers_;  // clearing all of them would take longer than the rest
  std::size_t count_;
  ConcurrentSets::Set beside_ = ConcurrentSets::kEmpty;
  bool slowed_ = false;
};

// Advances the stream over consecutive operations while nothing else of the class starts or
// finishes, and before `until_`. Returns false if it makes no progress.
bool SimulatedClass::RunAhead(std::uint32_t s) {
  const Time limit = LimitAhead();
  if (limit <= now_) return false;
  SharersAhead sharers(*this);
  Stream& stream = streams_[s];
  bool advanced = false;
  std::uint32_t span = kNone;  // span of the previous operation
  Time span_begin;
  while (stream.state != StreamState::kDone) {
    const Item& item = compiled_->items[stream.item];
    if (item.kind != Item::Kind::kOperation) break;
    if (const std::uint32_t own = SpanOf(item, stream.pass); own != span) {
      if (!KnowsSpan(own)) break;
      span = own;
      span_begin = span_begins_[own];
    }
    const bool runs_chain = sharers.empty() && !record_all_ && RunChain(s, span_begin, limit);
    if (!runs_chain && !RunOperation(s, item, span_begin + item.issued, limit, sharers)) break;
    advanced = true;
    if (now_ >= until_) break;  // a pass has ended
  }
  if (advanced) sharers.PutInto(*this);
  return advanced;
}

// The earliest time at which something else of the class starts or finishes. It is at most `now_`
// if that is immediate, or if too many operations share.
inline Time SimulatedClass::LimitAhead() {
  if (joined_ > 0 || sharers_.size() > SharersAhead::kMost || drained_ < ready_.size()) return now_;
  if (unsettled_) {
    const Runner first = NextRunner();
    if (until_ <= now_ || (first != kNone && next_[first] <= now_)) return now_;
    Settle();
  }
  // Sharing operations may be slowed, which moves their ends.
  Time limit = until_;
  for (Runner other = 0; other < in_flight_.size(); ++other) {
    const Time own = next_[other];
    if (own <= now_) return now_;
    const bool ends_as_known = !Shares(in_flight_[other].activity);
    limit = ends_as_known && own < limit ? own : limit;
  }
  return limit;
}

// Runs the operations of a chain, if none must wait for its issue and all end before `limit`.
inline bool SimulatedClass::RunChain(std::uint32_t s, Time span_begin, Time limit) {
  Stream& stream = streams_[s];
  const OperationChain& chain = compiled_->ChainFrom(stream.item);
  const Time end = now_ + chain.rest;
  if (end < span_begin + chain.latest || end >= limit) return false;
  stream.item = chain.end - 1;
  const Item& last = compiled_->items[stream.item];
  const Cost& cost = compiled_->costs[last.target];
  stream.issued = span_begin + last.issued;
  stream.ready = stream.start = end - (cost.latency + cost.work);
  now_ = end;
  Complete(s, end);
  return true;
}

// Runs an operation, if it ends before `limit` and before any of the sharers.
inline bool SimulatedClass::RunOperation(std::uint32_t s, const Item& item, Time issued, Time limit,
                                         SharersAhead& sharers) {
  const Cost& cost = compiled_->costs[item.target];
  const Time start = std::max(now_, issued);
  const Time begin = start + cost.latency;
  Time end = begin + cost.work;
  if (!sharers.empty() && cost.profile != ConcurrentSets::kUsesNothing && cost.work > Time()) {
    const Beside& beside = BesideSharers(item.target);
    end = begin + beside.work;
    if (end >= limit || !sharers.ProgressBeside(*sets_, beside.set, now_, begin, end)) return false;
  } else if (end >= limit || !sharers.Progress(now_, end)) {
    return false;
  }
  Stream& stream = streams_[s];
  if (issued > now_) HoldUp(stream.pass, item, issued);
  now_ = end;
  stream.issued = issued;
  stream.ready = stream.start = start;
  Complete(s, end);
  return true;
}

bool SimulatedClass::PassesRecord(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const WaitFor wait_for = Resolve(item.target, item.other, item.steps_before, stream.pass);
  if (Reached(wait_for)) return true;
  stream.state = StreamState::kAwaitsRecord;
  stream.wait_for = wait_for;
  std::uint32_t& waiting = records_[wait_for.slot].waiting;
  stream.next_waiting = std::exchange(waiting, s);
  return false;
}

void SimulatedClass::ReachRecord(std::uint32_t slot) {
  RecordState& record = records_[slot];
  const std::uint32_t count = ++record.reached;
  record.reached_at = now_;
  if (compiled_->IsOfLaunches(slot)) {
    launch_ends_[compiled_->LaunchRecordIn(slot)].push_back(now_);
  }
  const bool frees_host =
      host_waits_ && host_wait_for_.slot == slot && host_wait_for_.count <= count;
  std::uint32_t* link = &record.waiting;
  while (*link != kNone) {
    const std::uint32_t s = *link;
    Stream& waiter = streams_[s];
    if (waiter.wait_for.count > count) {  // waits for a later step's record
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

void SimulatedClass::Record(const Stream& stream, Time end) {
  const Index instruction = compiled_->items[stream.item].instruction;
  if (stream.pass < first_recorded_pass_ || (marked_ != nullptr && !(*marked_)[instruction]))
    return;
  AppendInOrder({instruction, stream.pass - 1, stream.issued, stream.ready, stream.start, end},
                timeline_->operations);
}

void SimulatedClass::NextPass(std::uint32_t s) {
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
