#include "src/simulate/solo_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/check.h"
#include "src/simulate/records.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::OperationRecord;
using program::Timeline;

const Timeline& SoloRun::Go(const RankClass& rank, const Options& options) {
  STEPCAST_CHECK(options.steps >= 1, "at least one step is run");
  STEPCAST_CHECK(options.first_recorded_step >= 0, "steps count from 0");
  STEPCAST_CHECK(!options.cut_last_step || options.steps >= 2,
                 "a step is cut where another one comes before it and may overlap it");
  STEPCAST_CHECK(!options.barrier && options.carriage == nullptr, "it runs by itself");
  rank_ = rank;
  options_ = options;
  passes_ = static_cast<std::uint32_t>(options.steps) + 1;
  SetUp();
  LookAtListed();
  for (;;) {
    // Rates follow when all that happens at this instant has happened.
    Runner runner = NextRunner();
    if (unsettled_ && (runner == kNone || under_way_[runner].next > now_)) {
      Settle();
      runner = NextRunner();
    }
    if (runner == kNone) break;
    const Time next = under_way_[runner].next;
    if (next > now_) {
      EndPasses();
      const bool over = (options_.until_repetition && StepRepeats()) ||
                        (options_.cut_last_step && next_to_end_ + 1 >= passes_ &&
                         next > timeline_.step_ends.end()[-2]);
      if (over) {
        FinishTimeline();
        RecordWhatIsUnderWay();
        return timeline_;
      }
    }
    now_ = next;
    Happen(runner);
    LookAtListed();
    if (repetition_) {
      FinishTimeline();
      return timeline_;
    }
  }
  while (AdvanceHost()) {
  }
  EndPasses();
  STEPCAST_CHECK(next_to_end_ == passes_, "a rank that runs by itself cannot deadlock");
  FinishTimeline();
  return timeline_;
}

void SoloRun::SetUp() {
  if (rank_.schedule != nullptr) {
    schedule_ = rank_.schedule;
  } else {
    own_schedule_.Build(*rank_.program, *rank_.prices);
    schedule_ = &own_schedule_;
  }
  step_segments_ =
      static_cast<std::uint32_t>(schedule_->segments.size()) - schedule_->prologue_segments;
  now_ = Time();
  host_waits_ = false;
  host_pass_ = 0;
  host_segment_ = 0;
  host_clock_ = Time();
  host_wait_for_ = WaitFor();
  segment_begins_.clear();
  tasks_.clear();
  host_wait_records_.clear();
  const std::size_t streams = schedule_->streams.size();
  const std::size_t communicators = rank_.program->communicators.size();
  streams_.assign(streams, Stream());
  under_way_.assign(streams + communicators, UnderWay());
  communicators_.assign(communicators, Communicator());
  reached_at_.assign(schedule_->records.size(), Time());
  waiting_.assign(schedule_->records.size(), kNone);
  ready_.clear();
  looked_at_ = 0;
  companies_.Reset(*schedule_);
  sharers_.clear();
  company_ = Companies::kNobody;
  unsettled_ = false;
  next_to_end_ = 0;
  last_begun_ = 0;
  prologue_end_ = Time();
  state_.pass = -1;
  nested_ = 0;
  phase_count_ = 0;
  // What is left out of records can be told for many layers at once.
  skips_layers_ = options_.records >= Records::kNoKernels;
  held_up_by_issue_ = Time();
  repetition_.reset();
  rows_.clear();
  timeline_.operations.clear();
  timeline_.waits.clear();
  timeline_.memory.clear();
  timeline_.step_ends.assign(static_cast<std::size_t>(options_.steps), Time());

  std::uint32_t in_step = 0;
  for (const StreamRange& range : schedule_->streams) in_step += range.step != range.end ? 1 : 0;
  still_in_pass_.assign(passes_, in_step);
  still_in_pass_.front() = static_cast<std::uint32_t>(streams);
  for (std::uint32_t s = 0; s < streams; ++s) {
    Stream& stream = streams_[s];
    const StreamRange& range = schedule_->streams[s];
    stream.item = range.begin;
    // A stream that has nothing to do in the prologue is at the step already.
    if (range.begin == range.step) {
      stream.pass = 1;
      --still_in_pass_.front();
    }
    if (stream.pass == 1 && range.step == range.end) {
      stream.state = StreamState::kDone;
    } else {
      List(s);
    }
  }
}

SoloRun::Runner SoloRun::NextRunner() const {
  Runner next = kNone;
  Time earliest = Time::Max();
  for (Runner runner = 0; runner < under_way_.size(); ++runner) {
    if (under_way_[runner].next < earliest) {
      earliest = under_way_[runner].next;
      next = runner;
    }
  }
  return next;
}

void SoloRun::Happen(Runner runner) {
  UnderWay& work = under_way_[runner];
  switch (work.activity) {
    case Activity::kNone:
      return;
    case Activity::kLooksLater:
      work.activity = Activity::kNone;
      work.next = Time::Max();
      List(runner);
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
  work.next = Time::Max();
  if (runner < streams_.size()) {
    Complete(runner);
    if (streams_[runner].state != StreamState::kDone) List(runner);
    return;
  }
  Communicator& communicator = communicators_[runner - streams_.size()];
  const std::uint32_t stream = std::exchange(communicator.running, kNone);
  ++communicator.current;
  Complete(stream);
  if (streams_[stream].state != StreamState::kDone) List(stream);
  for (std::uint32_t* link = &communicator.waiting; *link != kNone;
       link = &streams_[*link].next_waiting) {
    const std::uint32_t waiter = *link;
    if (streams_[waiter].wait_for.count != communicator.current) continue;
    *link = streams_[waiter].next_waiting;
    StartCollective(waiter, runner - static_cast<Runner>(streams_.size()));
    break;
  }
}

bool SoloRun::ReachSegment(std::uint32_t segment) {
  while (segment >= segment_begins_.size()) {
    if (!AdvanceHost()) return false;
  }
  return true;
}

// To the end of the segment at which it is. False: it waits, or has issued all.
bool SoloRun::AdvanceHost() {
  if (host_pass_ == passes_) return false;
  if (host_waits_) {
    const WaitFor& wait = host_wait_for_;
    if (!Reached(wait)) return false;
    host_waits_ = false;
    const Time reached = reached_at_[wait.slot];
    if (reached > host_clock_) {
      if (WaitsRecorded(host_pass_)) {
        host_wait_records_.push_back(
            {schedule_->segments[host_segment_ - 1].wait, host_pass_ - 1, host_clock_, reached});
      }
      host_clock_ = reached;
    }
  }
  BeginSegment();
  const Segment& segment = schedule_->segments[host_segment_];
  host_clock_ += segment.length;
  ++host_segment_;
  if (segment.wait != kNone) {
    host_wait_for_ = Resolve(segment.target, segment.other, segment.step_before, host_pass_);
    host_waits_ = host_wait_for_.count > 0;
    return true;
  }
  EndPass(host_pass_++, host_clock_);
  host_segment_ = schedule_->prologue_segments;
  return true;
}

void SoloRun::BeginSegment() {
  segment_begins_.push_back(host_clock_);
  if (!InRecordedStep(host_pass_) || (!options_.memory && options_.records == Records::kStepEnds)) {
    return;
  }
  const Segment& segment = schedule_->segments[host_segment_];
  const std::uint32_t step = host_pass_ - 1;
  const std::span items(schedule_->host_items.data() + segment.first_item, segment.item_count);
  if (!segment.has_tasks) {
    if (!options_.memory) return;
    const std::size_t before = timeline_.memory.size();
    timeline_.memory.resize(before + items.size());
    program::MemoryRecord* record = timeline_.memory.data() + before;
    for (const HostItem& item : items)
      *record++ = {item.instruction, step, host_clock_ + item.begin};
    return;
  }
  for (const HostItem& item : items) {
    const Time begin = host_clock_ + item.begin;
    if (item.is_task) {
      Begun(host_pass_, begin);
      if (options_.records == Records::kStepEnds) continue;
      tasks_.push_back({item.instruction, step, begin, begin, begin, begin + item.duration});
    } else if (options_.memory) {
      timeline_.memory.push_back({item.instruction, step, begin});
    }
  }
}

// A stream or the host has come to the end of a pass.
void SoloRun::EndPass(std::uint32_t pass, Time end) {
  Time& pass_end = pass == 0 ? prologue_end_ : timeline_.step_ends[pass - 1];
  pass_end = std::max(pass_end, end);
}

// Passes that all streams have ended: the host is followed to their ends.
void SoloRun::EndPasses() {
  while (next_to_end_ < passes_ && still_in_pass_[next_to_end_] == 0) {
    while (host_pass_ <= next_to_end_) {
      STEPCAST_CHECK(AdvanceHost(), "what the host waits for in a pass is reached in it");
    }
    ++next_to_end_;
    // Where a run may end, what the host does until then is part of it.
    if (!options_.until_repetition && !options_.cut_last_step) continue;
    while (host_clock_ <= now_ && AdvanceHost()) {
    }
  }
}

void SoloRun::List(std::uint32_t stream) {
  Stream& listed = streams_[stream];
  if (listed.listed) return;
  listed.listed = true;
  listed.state = StreamState::kReady;
  ready_.push_back(stream);
}

// First come, first looked at; those who are let go meanwhile stand in line.
void SoloRun::LookAtListed() {
  while (looked_at_ < ready_.size()) {
    const std::uint32_t stream = ready_[looked_at_++];
    streams_[stream].listed = false;
    Look(stream);
  }
  ready_.clear();
  looked_at_ = 0;
}

// Goes through the stream's queue until something takes time or is not there yet.
void SoloRun::Look(std::uint32_t s) {
  Stream& stream = streams_[s];
  bool may_run_ahead = true;
  while (stream.state != StreamState::kDone) {
    const Item& item = schedule_->items[stream.item];
    const std::uint32_t segment = SegmentOf(stream.item, stream.pass);
    if (!KnowsSegment(segment)) {
      stream.state = StreamState::kAwaitsHost;
      return;
    }
    if (item.kind != Item::Kind::kOperation) {
      may_run_ahead = true;
    } else if (may_run_ahead) {
      // What the others begin now decides how far it can go on by itself.
      if (looked_at_ < ready_.size() && !stream.gave_way) {
        List(s);
        stream.gave_way = true;
        return;
      }
      stream.gave_way = false;
      if (RunAhead(s)) return;
      may_run_ahead = false;
      continue;
    }
    stream.issued = segment_begins_[segment] + item.issued;
    stream.ready = std::max(now_, stream.issued);
    if (stream.issued > now_) held_up_by_issue_ = std::max(held_up_by_issue_, stream.issued);
    switch (item.kind) {
      case Item::Kind::kOperation:
        stream.start = stream.ready;
        stream.state = StreamState::kUnderWay;
        Begun(stream.pass, stream.start);
        if (!Start(s, stream.start, schedule_->costs[item.target])) return;
        Complete(s);
        break;
      case Item::Kind::kWait:
        // Its issue need not be waited for: what follows was issued later.
        if (!PassesRecord(s, item)) return;
        NextItem(s);
        break;
      case Item::Kind::kRecord:
      case Item::Kind::kCollective:
        if (stream.issued > now_) {
          stream.state = StreamState::kUnderWay;
          under_way_[s].activity = Activity::kLooksLater;
          under_way_[s].next = stream.issued;
          return;
        }
        if (item.kind == Item::Kind::kCollective) {
          ReachCollective(s, item);
          return;
        }
        PassRecord(s, item);
        break;
    }
  }
}

// Runs the operations that come next as long as nobody else does anything until they end but go on
// with what he is at. What is left of the others' work is exact, as in the engine. True: there is
// no more to look at.
bool SoloRun::RunAhead(std::uint32_t s) {
  if (looked_at_ < ready_.size()) return false;
  // What comes after a step that is over may be of no interest any more.
  if (next_to_end_ < passes_ && still_in_pass_[next_to_end_] == 0) return false;
  if (unsettled_) Settle();
  for (const UnderWay& other : under_way_) {
    if (other.next <= now_) return false;
  }
  if (skips_layers_) {
    SkipLayers(s);
    if (repetition_) return true;
  }
  if (const Runner runner = OnlyCollective(); runner != kNone) {
    if (RunBeside(s, runner)) return true;
    if (schedule_->items[streams_[s].item].kind != Item::Kind::kOperation) return false;
  }
  const std::size_t count = sharers_.size();
  if (count > Companies::kMostBeside) return false;
  // Until something else happens than that one of them ends.
  Time until = Time::Max();
  for (const UnderWay& other : under_way_) {
    if (other.activity != Activity::kShares) until = std::min(until, other.next);
  }
  std::array<SharedWork, Companies::kMostBeside> left{};
  std::array<std::size_t, Companies::kMostBeside> places{};
  for (std::size_t i = 0; i < count; ++i) {
    const UnderWay& other = under_way_[sharers_[i]];
    left[i] = LeftOf(other);
    places[i] = companies_.PlaceOf(company_, other.profile);
  }

  Stream& stream = streams_[s];
  bool moved = false, row_open = false;
  while (stream.state != StreamState::kDone) {
    const Item& item = schedule_->items[stream.item];
    if (item.kind != Item::Kind::kOperation) break;
    const std::uint32_t segment = SegmentOf(stream.item, stream.pass);
    if (!KnowsSegment(segment)) break;
    const Time begin = segment_begins_[segment];
    const Time issued = begin + item.issued;
    const Time start = std::max(now_, issued);
    // So many have been issued when the first one starts; the others are looked at in turn.
    std::uint32_t chunk =
        IssuedOf(item, schedule_->chains[item.chain].count - item.place, begin, start);
    std::array<SharedWork, Companies::kMostBeside> waiting{};  // done until then
    for (std::size_t i = 0; i < count && start > now_; ++i) {
      waiting[i] = SharedResources::Done(start - now_, under_way_[sharers_[i]].rate);
    }
    // After so many of them the others still go on, and nothing else has happened.
    Offsets offsets;
    const auto undisturbed = [&](std::uint32_t operations) {
      const Time* const ends = offsets.ends + item.place;
      if (start + (ends[operations] - ends[0]) >= until) return false;
      const SharedWork* const before = offsets.done + item.place * count;
      const SharedWork* const done = before + operations * count;
      for (std::size_t i = 0; i < count; ++i) {
        if (waiting[i] + (done[places[i]] - before[places[i]]) >= left[i]) return false;
      }
      return true;
    };
    const std::uint32_t most = Most(item, chunk, count == 0 ? chunk : 1, offsets, undisturbed);
    const bool all = most == chunk;
    chunk = most;
    if (chunk == 0) break;
    const SharedWork* const before = offsets.done + item.place * count;
    for (std::size_t i = 0; i < count; ++i) {
      left[i] -= waiting[i] + (before[chunk * count + places[i]] - before[places[i]]);
    }
    if (issued > now_) {
      held_up_by_issue_ = std::max(held_up_by_issue_, issued);
      row_open = false;
    }
    const std::uint32_t pass = stream.pass;
    CompleteChunk(s, chunk, start, offsets, row_open);
    moved = true;
    if (!all || stream.pass != pass) break;
  }
  if (!moved) return false;
  for (std::size_t i = 0; i < count; ++i) {
    UnderWay& other = under_way_[sharers_[i]];
    other.left = left[i];
    other.since = now_;
    other.next = now_ + SharedResources::TimeFor(left[i], other.rate);
  }
  return false;
}

// So many operations of a chain are recorded that have run one after the other from `start` on.
void SoloRun::RecordChunk(std::uint32_t s, std::uint32_t count, Time start, const Offsets& offsets,
                          bool& row_open) {
  Stream& stream = streams_[s];
  const Item& first = schedule_->items[stream.item];
  const Time ran = offsets.ends[first.place];
  const Time end = start + (offsets.ends[first.place + count] - ran);
  if (options_.records != Records::kRowsOfKernels || !first.is_kernel) {
    const Time begin = segment_begins_[SegmentOf(stream.item, stream.pass)];
    for (std::uint32_t i = 0; i < count; ++i) {
      const Item& item = schedule_->items[stream.item + i];
      stream.issued = begin + item.issued;
      stream.start = start + (offsets.ends[item.place] - ran);
      stream.ready = stream.start;
      AddRecord(s, stream.item + i, start + (offsets.ends[item.place + 1] - ran));
    }
    row_open = false;
  } else if (row_open && rows_.back().phase == first.phase) {
    rows_.back().end = end;
    rows_.back().count += count;
  } else {
    rows_.push_back({.step = stream.pass - 1,
                     .stream = static_cast<std::uint16_t>(s),
                     .phase = first.phase,
                     .start = start,
                     .end = end,
                     .first = stream.item,
                     .count = count,
                     .beside = company_});
    row_open = true;
  }
}

bool SoloRun::PassesRecord(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const WaitFor wait_for = Resolve(item.target, item.other, item.step_before, stream.pass);
  if (Reached(wait_for)) return true;
  stream.state = StreamState::kAwaitsRecord;
  stream.wait_for = wait_for;
  stream.next_waiting = waiting_[wait_for.slot];
  waiting_[wait_for.slot] = s;
  return false;
}

void SoloRun::PassRecord(std::uint32_t stream, const Item& item) {
  const std::uint32_t slot = item.target;
  const std::uint32_t count = std::max(streams_[stream].pass, 1U);  // so often it has been reached
  NextItem(stream);
  reached_at_[slot] = now_;
  for (std::uint32_t* link = &waiting_[slot]; *link != kNone;) {
    const std::uint32_t s = *link;
    Stream& waiter = streams_[s];
    if (waiter.wait_for.count > count) {  // for the record of a later step
      link = &waiter.next_waiting;
      continue;
    }
    *link = waiter.next_waiting;
    if (now_ > waiter.ready && WaitsRecorded(waiter.pass)) {
      AppendInOrder(
          {schedule_->items[waiter.item].instruction, waiter.pass - 1, waiter.ready, now_},
          timeline_.waits);
    }
    NextItem(s);
    if (waiter.state != StreamState::kDone) List(s);
  }
  if (!host_waits_ || host_wait_for_.slot != slot || host_wait_for_.count > count) return;
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].state == StreamState::kAwaitsHost) List(s);
  }
}

void SoloRun::AddRecord(std::uint32_t s, std::uint32_t item, Time end) {
  const Stream& stream = streams_[s];
  AppendInOrder({schedule_->items[item].instruction, stream.pass - 1, stream.issued, stream.ready,
                 stream.start, end},
                timeline_.operations);
}

// The stream has come to the end of a pass.
void SoloRun::NextPass(std::uint32_t s) {
  Stream& stream = streams_[s];
  const StreamRange& range = schedule_->streams[s];
  EndPass(stream.pass, now_);
  --still_in_pass_[stream.pass];
  stream.item = range.step;
  ++stream.pass;
  if (stream.pass == passes_ || range.step == range.end) stream.state = StreamState::kDone;
}

void SoloRun::ReachCollective(std::uint32_t s, const Item& item) {
  Stream& stream = streams_[s];
  const std::uint32_t c = rank_.program->collectives[item.target].communicator;
  const std::uint32_t number = NumberOf(item, stream.pass);
  stream.state = StreamState::kAtCollective;
  stream.wait_for = {c, number};
  Communicator& communicator = communicators_[c];
  if (number == communicator.current) {
    StartCollective(s, c);
    return;
  }
  stream.next_waiting = communicator.waiting;
  communicator.waiting = s;
}

void SoloRun::StartCollective(std::uint32_t s, std::uint32_t c) {
  Stream& stream = streams_[s];
  stream.start = now_;
  stream.state = StreamState::kUnderWay;
  Begun(stream.pass, now_);
  communicators_[c].running = s;
  const auto runner = static_cast<Runner>(streams_.size() + c);
  const Cost& cost = schedule_->collective_costs[schedule_->items[stream.item].target];
  if (!Start(runner, now_, cost)) return;
  under_way_[runner].activity = Activity::kFixed;
  Happen(runner);
}

// Up to `time`, and then, no event comes, and nobody stands in line.
bool SoloRun::NothingHappensUntil(Time time) {
  if (looked_at_ < ready_.size()) return false;
  if (unsettled_) Settle();
  for (const UnderWay& other : under_way_) {
    if (other.next <= time) return false;
  }
  return true;
}

bool SoloRun::Start(Runner runner, Time start, const Cost& cost) {
  UnderWay& work = under_way_[runner];
  const Time begin = start + cost.latency;
  if (cost.use_count == 0) {
    const Time end = begin + cost.work;
    if (end == now_) return true;
    work.activity = Activity::kFixed;
    work.next = end;
    return false;
  }
  work.profile = cost.profile;
  work.work = cost.work;
  if (begin == now_ || NothingHappensUntil(begin)) {
    now_ = begin;
    BeginSharing(runner);
  } else {
    work.activity = Activity::kLatency;
    work.next = begin;
  }
  return false;
}

void SoloRun::BeginSharing(Runner runner) {
  UnderWay& work = under_way_[runner];
  work.activity = Activity::kShares;
  work.settled = false;
  work.next = Time::Max();  // known when this instant is over
  sharers_.insert(std::upper_bound(sharers_.begin(), sharers_.end(), runner), runner);
  company_ = companies_.With(company_, work.profile);
  unsettled_ = true;
}

void SoloRun::StopSharing(Runner runner) {
  sharers_.erase(std::find(sharers_.begin(), sharers_.end(), runner));
  company_ = companies_.Without(company_, under_way_[runner].profile);
  unsettled_ = true;
}

// New rates and ends for what began at this instant, and for what that and what finished has moved.
void SoloRun::Settle() {
  unsettled_ = false;
  for (const Runner runner : sharers_) {
    UnderWay& work = under_way_[runner];
    const std::uint64_t rate = companies_.RateOf(company_, work.profile);
    if (!work.settled) {
      work.settled = true;
      work.left = SharedResources::Done(work.work, SharedResources::kFullRate);
    } else if (rate == work.rate) {
      continue;
    } else {
      work.left = LeftOf(work);
    }
    work.since = now_;
    work.rate = rate;
    work.next = now_ + SharedResources::TimeFor(work.left, rate);
  }
}

// What was left open, as if it ended never.
void SoloRun::RecordWhatIsUnderWay() {
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    const Stream& stream = streams_[s];
    if (stream.state == StreamState::kDone) continue;
    const Item& item = schedule_->items[stream.item];
    const bool runs =
        stream.state == StreamState::kUnderWay && under_way_[s].activity != Activity::kLooksLater;
    if ((runs || stream.state == StreamState::kAtCollective) && Recorded(stream.pass, item)) {
      const Time start = runs ? stream.start : Time::Max();
      timeline_.operations.push_back(
          {item.instruction, stream.pass - 1, stream.issued, stream.ready, start, Time::Max()});
    } else if (stream.state == StreamState::kAwaitsRecord && WaitsRecorded(stream.pass)) {
      timeline_.waits.push_back({item.instruction, stream.pass - 1, stream.ready, Time::Max()});
    }
  }
  if (host_waits_ && WaitsRecorded(host_pass_) && !Reached(host_wait_for_)) {
    timeline_.waits.push_back(
        {schedule_->segments[host_segment_ - 1].wait, host_pass_ - 1, host_clock_, Time::Max()});
  }
}

// What the host did takes its place among what the streams did.
void SoloRun::FinishTimeline() {
  Merge(tasks_, timeline_.operations);
  Merge(host_wait_records_, timeline_.waits);
  // A step that finds nothing to do is over when the one before it is.
  std::vector<Time>& ends = timeline_.step_ends;
  for (std::size_t s = 1; s < ends.size(); ++s) ends[s] = std::max(ends[s], ends[s - 1]);
}

void SoloRun::Expand(const KernelRow& row, std::vector<KernelRun>& kernels) const {
  Time time = row.start;
  for (std::uint32_t i = row.first; i < row.first + row.count; ++i) {
    const Item& item = schedule_->items[i];
    const Time end = time + companies_.DurationOf(row.beside, item.chain, item.place);
    kernels.push_back({item.instruction, time, end});
    time = end;
  }
}

void SoloRun::AddDurations(const KernelRow& row, std::span<Time> by_kernel) const {
  for (std::uint32_t i = row.first; i < row.first + row.count; ++i) {
    const Item& item = schedule_->items[i];
    by_kernel[item.target] += companies_.DurationOf(row.beside, item.chain, item.place);
  }
}

}  // namespace stepcast::simulate
