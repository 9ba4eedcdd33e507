#include "src/simulate/run.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/simulate/records.h"

namespace stepcast::simulate {

tl::expected<std::span<const Timeline>, Deadlock> ProgramRun::Go(std::span<const RankClass> classes,
                                                                 const Options& options) {
  STEPCAST_CHECK(options.steps >= 1, "at least one step is run");
  STEPCAST_CHECK(options.first_recorded_step >= 0, "steps count from 0");
  STEPCAST_CHECK(!options.cut_last_step || (options.steps >= 2 && !options.barrier),
                 "a step is cut where another one comes before it and may overlap it");
  classes_ = classes;
  options_ = options;
  passes_ = static_cast<std::uint32_t>(options.steps) + 1;
  SetUp();

  for (std::uint32_t c = 0; c < runs_.size(); ++c) AdvanceHost(c);
  LookAtListed();
  for (;;) {
    // Rates follow when all that happens at this instant has happened.
    if (resources_.unsettled() && (events_.empty() || events_.Top().time > now_)) Settle();
    if (events_.empty()) break;
    if (options_.cut_last_step && before_cut_ == 0 &&
        events_.Top().time > timelines_.front().step_ends.end()[-2]) {
      FinishTimelines();
      RecordWhatIsUnderWay();
      return std::span<const Timeline>(timelines_);
    }
    const auto event = events_.Pop();
    now_ = event.time;
    const Runner runner = event.payload.runner();
    switch (event.payload.kind()) {
      case EventKind::kLook:
        List(runner);
        break;
      case EventKind::kBeginWork:
        BeginWork(runner);
        break;
      case EventKind::kEnd:
        WorkEnds(runner);
        break;
      case EventKind::kMessages:
        MessagesHappen();
        break;
    }
    LookAtListed();
  }
  if (unfinished_ > 0) return tl::unexpected(Explain());
  FinishTimelines();
  return std::span<const Timeline>(timelines_);
}

void ProgramRun::SetUp() {
  const auto count = static_cast<std::uint32_t>(classes_.size());
  now_ = Time();
  events_.Clear();
  ready_.clear();
  runs_.resize(count);
  MakeSchedules();
  timelines_.resize(count);
  streams_.clear();

  std::uint32_t records = 0;
  std::uint32_t communicators = 0;
  for (std::uint32_t c = 0; c < count; ++c) {
    const Schedule& schedule = ScheduleOf(c);
    ClassRun& run = runs_[c];
    run.first_stream = StreamCount();
    run.first_record = records;
    run.first_communicator = communicators;
    run.streams_waiting_for_host = 0;
    run.host_state = HostState::kRuns;
    run.pass = 0;
    run.segment = 0;
    run.clock = Time();
    run.segment_begins.clear();
    run.tasks.clear();
    records += static_cast<std::uint32_t>(schedule.records.size());
    communicators += static_cast<std::uint32_t>(classes_[c].program->communicators.size());
    for (std::uint32_t s = 0; s < schedule.streams.size(); ++s) {
      StreamRun stream;
      stream.rank_class = c;
      stream.stream = s;
      stream.item = schedule.streams[s].begin;
      streams_.push_back(stream);
    }
    Timeline& timeline = timelines_[c];
    timeline.operations.clear();
    timeline.waits.clear();
    timeline.memory.clear();
    timeline.step_ends.assign(static_cast<std::size_t>(options_.steps), Time());
  }
  reached_.assign(records, 0);
  waiting_.assign(records, kNone);
  LinkCommunicators();

  const auto runners = static_cast<std::uint32_t>(StreamCount() + rendezvous_count_);
  work_.assign(runners, Work());
  std::uint32_t links = 0;
  if (options_.carriage != nullptr && !options_.carriage->messages) {
    links = static_cast<std::uint32_t>(options_.carriage->cluster->network.links());
  }
  resources_.Reset(count * cost::kResources + links, runners);
  SetUpMessages();
  ready_.reserve(streams_.size());

  before_cut_ = 1;
  for (const StreamRange& range : ScheduleOf(0U).streams) {
    if (range.step != range.end) ++before_cut_;
  }
  unfinished_ = count + StreamCount();
  pending_ = unfinished_;
  for (std::uint32_t s = 0; s < StreamCount(); ++s) {
    StreamRun& run = streams_[s];
    const StreamRange& range = ScheduleOf(run).streams[run.stream];
    // A stream that has nothing to do in the prologue is at the step already.
    if (range.begin == range.step) {
      run.pass = 1;
      EndPass(run.rank_class, 0, Time());
    }
    if (run.pass == 1 && range.step == range.end) {
      run.state = StreamState::kDone;
      --unfinished_;
    } else {
      List(s);
    }
  }
}

void ProgramRun::MakeSchedules() {
  const bool links = options_.carriage == nullptr || !options_.carriage->messages;
  std::vector<std::uint32_t> firsts;  // by schedule: the first class that runs it
  std::vector<std::uint32_t> schedule_of(classes_.size());
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    const auto same = [&](std::uint32_t other) {
      return classes_[other].program == classes_[c].program &&
             classes_[other].prices == classes_[c].prices;
    };
    if (classes_[c].schedule != nullptr) continue;
    const auto found = std::find_if(firsts.rbegin(), firsts.rend(), same);
    schedule_of[c] = static_cast<std::uint32_t>(firsts.rend() - found) - 1;
    if (found != firsts.rend()) continue;
    schedule_of[c] = static_cast<std::uint32_t>(firsts.size());
    firsts.push_back(c);
  }
  if (schedules_.size() < firsts.size()) schedules_.resize(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    schedules_[i].Build(*classes_[firsts[i]].program, *classes_[firsts[i]].prices, links);
  }
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    const Schedule* given = classes_[c].schedule;
    runs_[c].schedule = given != nullptr ? given : &schedules_[schedule_of[c]];
  }
}

void ProgramRun::LinkCommunicators() {
  rendezvous_count_ = 0;
  rendezvous_of_.clear();
  std::map<std::string_view, std::vector<std::uint32_t>> by_name;
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    const program::Program& program = ProgramOf(c);
    for (std::uint32_t i = 0; i < program.communicators.size(); ++i) {
      const program::Communicator& communicator = program.communicators[i];
      const std::vector<int>& ranks = RanksOf({.rank_class = c, .communicator = i});
      std::uint32_t found = kNone;
      for (const std::uint32_t r : by_name[communicator.name]) {
        // A class is a member once; its second communicator of that name is another one.
        if (rendezvous_[r].members.back().rank_class == c) continue;
        if (RanksOf(rendezvous_[r].members.front()) == ranks) {
          found = r;
          break;
        }
      }
      if (found == kNone) {
        found = static_cast<std::uint32_t>(rendezvous_count_++);
        if (rendezvous_.size() < rendezvous_count_) rendezvous_.emplace_back();
        Rendezvous& made = rendezvous_[found];
        made.members.clear();
        made.absent.clear();
        made.arrived = 0;
        made.current = 0;
        made.open = 0;
        by_name[communicator.name].push_back(found);
      }
      rendezvous_[found].members.push_back({c, i, kNone, kNone});
      rendezvous_of_.push_back(found);
    }
  }
  if (classes_.size() > 1) FindAbsentMembers();
}

void ProgramRun::FindAbsentMembers() {
  std::map<int, std::uint32_t> class_of;
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    class_of.emplace(classes_[c].representative, c);
  }
  for (std::size_t r = 0; r < rendezvous_count_; ++r) {
    Rendezvous& rendezvous = rendezvous_[r];
    for (const int rank : RanksOf(rendezvous.members.front())) {
      const auto found = class_of.find(rank);
      if (found == class_of.end()) continue;
      const std::uint32_t c = found->second;
      const bool is_member = std::binary_search(
          rendezvous.members.begin(), rendezvous.members.end(), Member{.rank_class = c},
          [](const Member& a, const Member& b) { return a.rank_class < b.rank_class; });
      if (!is_member) rendezvous.absent.push_back(c);
    }
  }
}

// The host runs ahead: as long as it need not wait, its whole way is known at once, and only the
// begins of its segments have to be kept.
void ProgramRun::AdvanceHost(std::uint32_t c) {
  ClassRun& run = runs_[c];
  const Schedule& schedule = ScheduleOf(c);
  run.host_state = HostState::kRuns;
  while (run.host_state == HostState::kRuns) {
    BeginSegment(c);
    const Segment& segment = schedule.segments[run.segment];
    run.clock += segment.length;
    ++run.segment;
    if (segment.wait != kNone) {
      run.wait_for = Resolve(segment.target, segment.other, segment.step_before, run.pass);
      if (run.wait_for.count > 0 &&
          reached_[run.first_record + run.wait_for.slot] < run.wait_for.count) {
        run.host_state = HostState::kAwaitsRecord;
      }
      continue;
    }
    const std::uint32_t pass = run.pass++;
    run.segment = schedule.prologue_segments;
    if (run.pass == passes_) {
      run.host_state = HostState::kDone;
      --unfinished_;
    } else if (options_.barrier) {
      run.host_state = HostState::kAtBarrier;
    }
    EndPass(c, pass, run.clock);
  }
  WakeStreamsOf(c);
}

void ProgramRun::BeginSegment(std::uint32_t c) {
  ClassRun& run = runs_[c];
  const Schedule& schedule = ScheduleOf(c);
  run.segment_begins.push_back(run.clock);
  if (!Recorded(c, run.pass)) return;
  const Segment& segment = schedule.segments[run.segment];
  const std::uint32_t step = run.pass - 1;
  for (std::uint32_t i = 0; i < segment.item_count; ++i) {
    const HostItem& item = schedule.host_items[segment.first_item + i];
    const Time begin = run.clock + item.begin;
    if (item.is_task) {
      run.tasks.push_back({item.instruction, step, begin, begin, begin, begin + item.duration});
    } else if (options_.memory) {
      timelines_[c].memory.push_back({item.instruction, step, begin});
    }
  }
}

void ProgramRun::WakeStreamsOf(std::uint32_t c) {
  ClassRun& run = runs_[c];
  if (run.streams_waiting_for_host == 0) return;
  run.streams_waiting_for_host = 0;
  const auto count = static_cast<std::uint32_t>(ScheduleOf(c).streams.size());
  for (std::uint32_t s = run.first_stream; s < run.first_stream + count; ++s) {
    if (streams_[s].state == StreamState::kAwaitsHost) List(s);
  }
}

// A stream or the host of class `c` has come to the end of a pass.
void ProgramRun::EndPass(std::uint32_t c, std::uint32_t pass, Time end) {
  if (pass > 0) {
    Time& step_end = timelines_[c].step_ends[pass - 1];
    step_end = std::max(step_end, end);
    if (c == 0 && pass + 2 == passes_) --before_cut_;
  }
  if (options_.barrier) --pending_;
}

// Everybody has ended the pass, and there is another.
void ProgramRun::OpenBarrier() {
  Time begin = now_;
  for (const ClassRun& run : runs_) begin = std::max(begin, run.clock);
  pending_ = unfinished_;
  for (std::uint32_t c = 0; c < runs_.size(); ++c) {
    runs_[c].clock = begin;
    AdvanceHost(c);
  }
}

void ProgramRun::List(std::uint32_t stream) {
  StreamRun& run = streams_[stream];
  if (run.listed) return;
  run.listed = true;
  run.state = StreamState::kReady;
  ready_.push_back(stream);
}

// First come, first looked at; those who are let go meanwhile stand in line.
void ProgramRun::LookAtListed() {
  for (;;) {
    for (looked_at_ = 0; looked_at_ < ready_.size();) {
      const std::uint32_t stream = ready_[looked_at_++];
      streams_[stream].listed = false;
      Look(stream);
    }
    ready_.clear();
    if (!options_.barrier || pending_ > 0 || unfinished_ == 0) return;
    OpenBarrier();
  }
}

// Whether the stream that is looked at may go on to `time` by itself, for until then, and then, no
// event comes and no other stream has anything to do.
bool ProgramRun::NothingHappensUntil(Time time) {
  if (looked_at_ < ready_.size()) return false;
  if (!events_.empty() && events_.Top().time <= time) return false;
  if (!resources_.unsettled()) return true;
  Settle();
  return events_.empty() || events_.Top().time > time;
}

// Goes through the stream's queue until something takes time or is not there yet.
void ProgramRun::Look(std::uint32_t stream) {
  StreamRun& run = streams_[stream];
  const Schedule& schedule = ScheduleOf(run);
  ClassRun& owner = runs_[run.rank_class];
  while (run.state != StreamState::kDone) {
    const Item& item = schedule.items[run.item];
    const auto step_segments =
        static_cast<std::uint32_t>(schedule.segments.size()) - schedule.prologue_segments;
    const std::uint32_t segment =
        run.pass == 0 ? item.segment : item.segment + (run.pass - 1) * step_segments;
    if (segment >= owner.segment_begins.size()) {
      run.state = StreamState::kAwaitsHost;
      ++owner.streams_waiting_for_host;
      return;
    }
    run.issued = owner.segment_begins[segment] + item.issued;
    run.ready = std::max(now_, run.issued);
    switch (item.kind) {
      case Item::Kind::kOperation: {
        const Cost& cost = schedule.costs[item.target];
        run.start = run.ready;
        run.state = StreamState::kRuns;
        // Nobody is there whom it could hinder, or who could hinder it: its events would be the
        // next ones, so they need not be.
        if (const Time end = run.start + cost.alone();
            resources_.HasRoomFor(schedule.UsesOf(cost), run.rank_class * cost::kResources) &&
            NothingHappensUntil(end)) {
          now_ = end;
          Complete(stream);
          break;
        }
        if (!Start(stream, run.start, cost, schedule.UsesOf(cost),
                   run.rank_class * cost::kResources)) {
          return;
        }
        Complete(stream);
        break;
      }
      case Item::Kind::kWait:
        // Its issue need not be waited for: what follows was issued later.
        if (!PassesRecord(run, owner, item)) return;
        NextItem(run);
        break;
      case Item::Kind::kRecord:
      case Item::Kind::kCollective:
        if (run.issued > now_ && NothingHappensUntil(run.issued)) now_ = run.issued;
        if (run.issued > now_) {
          run.state = StreamState::kLooksLater;
          events_.Push(run.issued, Event(stream, EventKind::kLook));
          return;
        }
        if (item.kind == Item::Kind::kCollective) {
          ReachCollective(stream, item);
          return;
        }
        NextItem(run);
        ReachRecord(run.rank_class, item.target);
        break;
    }
  }
}

bool ProgramRun::PassesRecord(StreamRun& run, const ClassRun& owner, const Item& item) {
  const WaitFor wait_for = Resolve(item.target, item.other, item.step_before, run.pass);
  if (wait_for.count == 0) return true;
  const std::uint32_t record = owner.first_record + wait_for.slot;
  if (reached_[record] >= wait_for.count) return true;
  run.state = StreamState::kAwaitsRecord;
  run.wait_for = wait_for;
  run.next_waiting = waiting_[record];
  waiting_[record] = owner.first_stream + run.stream;
  return false;
}

void ProgramRun::ReachRecord(std::uint32_t c, std::uint32_t slot) {
  ClassRun& owner = runs_[c];
  const std::uint32_t record = owner.first_record + slot;
  const std::uint32_t count = ++reached_[record];
  std::uint32_t* link = &waiting_[record];
  while (*link != kNone) {
    const std::uint32_t stream = *link;
    StreamRun& waiter = streams_[stream];
    if (waiter.wait_for.count > count) {  // for the record of a later step
      link = &waiter.next_waiting;
      continue;
    }
    *link = waiter.next_waiting;
    if (now_ > waiter.ready && Recorded(c, waiter.pass)) {
      AppendInOrder(
          {ScheduleOf(waiter).items[waiter.item].instruction, waiter.pass - 1, waiter.ready, now_},
          timelines_[c].waits);
    }
    NextItem(waiter);
    if (waiter.state != StreamState::kDone) List(stream);
  }
  if (owner.host_state == HostState::kAwaitsRecord && owner.wait_for.slot == slot &&
      owner.wait_for.count <= count) {
    if (now_ > owner.clock) {
      if (Recorded(c, owner.pass)) {
        AppendInOrder(
            {ScheduleOf(c).segments[owner.segment - 1].wait, owner.pass - 1, owner.clock, now_},
            timelines_[c].waits);
      }
      owner.clock = now_;
    }
    AdvanceHost(c);
  }
}

// The operation that the stream runs is over.
void ProgramRun::Complete(std::uint32_t stream) {
  StreamRun& run = streams_[stream];
  if (Recorded(run.rank_class, run.pass)) {
    AppendInOrder({ScheduleOf(run).items[run.item].instruction, run.pass - 1, run.issued, run.ready,
                   run.start, now_},
                  timelines_[run.rank_class].operations);
  }
  NextItem(run);
}

void ProgramRun::NextItem(StreamRun& run) {
  const StreamRange& range = ScheduleOf(run).streams[run.stream];
  ++run.item;
  if (run.item != (run.pass == 0 ? range.step : range.end)) return;
  EndPass(run.rank_class, run.pass, now_);
  run.item = range.step;
  ++run.pass;
  if (run.pass == passes_ || range.step == range.end) {
    run.state = StreamState::kDone;
    --unfinished_;
  }
}

// True if there was nothing to do that takes time, and the start is now.
bool ProgramRun::Start(Runner runner, Time start, const Cost& cost,
                       std::span<const SharedResources::Use> uses, std::uint32_t first_resource) {
  Work& work = work_[runner];
  work.running = true;
  work.shares = false;
  work.amount = cost.work;
  work.uses = uses;
  work.first_resource = first_resource;
  const Time begin = start + cost.latency;
  if (!uses.empty()) {
    if (begin == now_) {
      BeginWork(runner);
    } else {
      work.next_event = Time::Max();  // an end that is left over must not count now
      events_.Push(begin, Event(runner, EventKind::kBeginWork));
    }
    return false;
  }
  work.end = begin + cost.work;
  if (work.end == now_) {
    work.running = false;
    return true;
  }
  work.next_event = work.end;
  events_.Push(work.end, Event(runner, EventKind::kEnd));
  return false;
}

void ProgramRun::BeginWork(Runner runner) {
  Work& work = work_[runner];
  work.shares = true;
  work.next_event = Time::Max();  // its end is known when this instant is over
  resources_.Start(runner, now_, work.amount, work.uses, work.first_resource);
}

// New ends for what began at this instant, and for what that and what finished has moved.
void ProgramRun::Settle() {
  resources_.Settle(now_);
  for (const Runner runner : resources_.moved()) {
    Work& work = work_[runner];
    work.end = resources_.end(runner);
    if (work.end >= work.next_event) continue;
    work.next_event = work.end;
    events_.Push(work.end, Event(runner, EventKind::kEnd));
  }
}

void ProgramRun::WorkEnds(Runner runner) {
  Work& work = work_[runner];
  if (!work.running || work.next_event != now_) return;
  if (work.end > now_) {
    work.next_event = work.end;
    events_.Push(work.end, Event(runner, EventKind::kEnd));
    return;
  }
  work.running = false;
  if (work.shares) resources_.Finish(runner);
  if (runner < StreamCount()) {
    Complete(runner);
    if (streams_[runner].state != StreamState::kDone) List(runner);
  } else {
    PartEnds(runner - StreamCount());
  }
}

void ProgramRun::ReachCollective(std::uint32_t stream, const Item& item) {
  StreamRun& run = streams_[stream];
  const Schedule& schedule = ScheduleOf(run);
  const std::uint32_t communicator =
      ProgramOf(run.rank_class).collectives[item.target].communicator;
  const std::uint32_t r = rendezvous_of_[runs_[run.rank_class].first_communicator + communicator];
  Rendezvous& rendezvous = rendezvous_[r];
  const auto member = std::lower_bound(
      rendezvous.members.begin(), rendezvous.members.end(), run.rank_class,
      [](const Member& m, std::uint32_t rank_class) { return m.rank_class < rank_class; });
  const std::uint32_t number =
      run.pass == 0 ? item.other
                    : schedule.prologue_collectives[communicator] +
                          (run.pass - 1) * schedule.step_collectives[communicator] + item.other;
  run.state = StreamState::kAtCollective;
  run.wait_for = {communicator, number};
  if (number != rendezvous.current) {
    run.next_waiting = member->early;
    member->early = stream;
    return;
  }
  member->arrived = stream;
  ++rendezvous.arrived;
  StartCollective(r);
}

// Starts the current collective if all have reached it and agree about it.
void ProgramRun::StartCollective(std::uint32_t r) {
  Rendezvous& rendezvous = rendezvous_[r];
  if (rendezvous.arrived < rendezvous.members.size() || !rendezvous.absent.empty()) return;

  const auto cost_of = [this](const Member& member) -> const Cost& {
    const StreamRun& run = streams_[member.arrived];
    const Schedule& schedule = ScheduleOf(run);
    return schedule.collective_costs[schedule.items[run.item].target];
  };
  const Member& first = rendezvous.members.front();
  for (const Member& member : rendezvous.members) {
    if (!SameCollective(first.arrived, member.arrived)) return;  // they wait for ever
  }
  for (const Member& member : rendezvous.members) {
    StreamRun& run = streams_[member.arrived];
    run.start = now_;
    run.state = StreamState::kRuns;
  }

  Cost cost = cost_of(first);
  std::span<const SharedResources::Use> uses = ScheduleOf(first.rank_class).UsesOf(cost);
  std::uint32_t first_resource = first.rank_class * cost::kResources;
  const std::uint32_t number = CarriedAs(first);
  const bool on_links = number != network::Carriage::kNowhere && !options_.carriage->messages;
  if (rendezvous.members.size() > 1 || on_links) {
    for (const Member& member : rendezvous.members) {
      cost.latency = std::max(cost.latency, cost_of(member).latency);
      cost.work = std::max(cost.work, cost_of(member).work);
    }
    const network::FlowDemand* flow =
        on_links ? &options_.carriage->collectives[number].flow : nullptr;
    if (on_links) {
      cost.latency = std::max(cost.latency, flow->latency);
      cost.work = std::max(cost.work, flow->work);
    }
    // Whoever would be done sooner uses less of his own at the common pace.
    rendezvous.uses.clear();
    const auto add = [&](std::span<const SharedResources::Use> own, std::uint32_t from, Time work) {
      for (SharedResources::Use use : own) {
        use.resource += from;
        if (work < cost.work)
          use.share = static_cast<std::uint32_t>(use.share * (work / cost.work));
        rendezvous.uses.push_back(use);
      }
    };
    for (const Member& member : rendezvous.members) {
      const Cost& own = cost_of(member);
      add(ScheduleOf(member.rank_class).UsesOf(own), member.rank_class * cost::kResources,
          own.work);
    }
    if (on_links) {
      const auto links = static_cast<std::uint32_t>(classes_.size()) * cost::kResources;
      add(flow->uses, links, flow->work);
    }
    uses = rendezvous.uses;
    first_resource = 0;
  }
  rendezvous.open = 1;
  if (number != network::Carriage::kNowhere && options_.carriage->messages) {
    rendezvous.open = 2;
    SendMessages(r, number);
  }
  if (Start(StreamCount() + r, now_, cost, uses, first_resource)) PartEnds(r);
}

// Which of the carriage's collectives the member has reached.
std::uint32_t ProgramRun::CarriedAs(const Member& member) const {
  if (options_.carriage == nullptr) return network::Carriage::kNowhere;
  const StreamRun& run = streams_[member.arrived];
  const Index collective = ScheduleOf(run).items[run.item].target;
  return options_.carriage->numbers[member.rank_class][collective];
}

// A job for each rendezvous, with the collectives that its members issue.
void ProgramRun::SetUpMessages() {
  messages_.reset();
  messages_awaited_ = Time::Max();
  if (options_.carriage == nullptr || !options_.carriage->messages) return;
  std::vector<std::vector<const network::Traffic*>> jobs;
  for (std::size_t r = 0; r < rendezvous_count_; ++r) {
    Rendezvous& rendezvous = rendezvous_[r];
    const Member& first = rendezvous.members.front();
    const program::Program& program = ProgramOf(first.rank_class);
    rendezvous.calls.clear();
    for (Index i = 0; i < program.collectives.size(); ++i) {
      const std::uint32_t number = options_.carriage->numbers[first.rank_class][i];
      if (program.collectives[i].communicator == first.communicator &&
          number != network::Carriage::kNowhere) {
        rendezvous.calls.push_back(number);
      }
    }
    std::sort(rendezvous.calls.begin(), rendezvous.calls.end());
    rendezvous.calls.erase(std::unique(rendezvous.calls.begin(), rendezvous.calls.end()),
                           rendezvous.calls.end());
    jobs.emplace_back();
    for (const std::uint32_t number : rendezvous.calls) {
      jobs.back().push_back(options_.carriage->collectives[number].traffic.get());
    }
  }
  messages_ = std::make_unique<network::MessageNetwork>(options_.carriage->cluster->network,
                                                        std::move(jobs));
}

void ProgramRun::SendMessages(std::uint32_t r, std::uint32_t number) {
  const std::vector<std::uint32_t>& calls = rendezvous_[r].calls;
  const auto call = std::lower_bound(calls.begin(), calls.end(), number) - calls.begin();
  messages_->Start(r, static_cast<std::uint32_t>(call),
                   now_ + options_.carriage->collectives[number].delay);
  AwaitMessages();
}

// Sees to it that an event comes when the next thing happens among messages.
void ProgramRun::AwaitMessages() {
  if (messages_->idle() || messages_->next() >= messages_awaited_) return;
  messages_awaited_ = messages_->next();
  events_.Push(messages_awaited_, Event(0, EventKind::kMessages));
}

// Messages run ahead until something else happens, or a collective's last one arrives.
void ProgramRun::MessagesHappen() {
  if (messages_awaited_ != now_) return;  // left over
  messages_awaited_ = Time::Max();
  if (resources_.unsettled()) Settle();
  ended_.clear();
  const Time until = events_.empty() ? Time::Max() : events_.Top().time;
  while (!messages_->idle() && ended_.empty() &&
         (messages_->next() == now_ || messages_->next() < until)) {
    now_ = messages_->next();
    messages_->Advance(ended_);
  }
  AwaitMessages();
  for (const std::uint32_t r : ended_) PartEnds(r);
}

void ProgramRun::PartEnds(std::uint32_t r) {
  if (--rendezvous_[r].open == 0) CompleteCollective(r);
}

// Ends it for all its members, and lets those come who have reached the next.
void ProgramRun::CompleteCollective(std::uint32_t r) {
  Rendezvous& rendezvous = rendezvous_[r];
  ++rendezvous.current;
  rendezvous.arrived = 0;
  for (Member& member : rendezvous.members) {
    const std::uint32_t stream = std::exchange(member.arrived, kNone);
    Complete(stream);
    if (streams_[stream].state != StreamState::kDone) List(stream);
    for (std::uint32_t* link = &member.early; *link != kNone;
         link = &streams_[*link].next_waiting) {
      if (streams_[*link].wait_for.count != rendezvous.current) continue;
      member.arrived = *link;
      ++rendezvous.arrived;
      *link = streams_[*link].next_waiting;
      break;
    }
  }
  StartCollective(r);
}

bool ProgramRun::SameCollective(std::uint32_t one, std::uint32_t other) const {
  const program::Collective& a = CollectiveAt(streams_[one]);
  const program::Collective& b = CollectiveAt(streams_[other]);
  return a.kind == b.kind && a.bytes == b.bytes && a.data_type == b.data_type;
}

// What the cut left open, as if it ended never.
void ProgramRun::RecordWhatIsUnderWay() {
  for (const StreamRun& run : streams_) {
    if (!Recorded(run.rank_class, run.pass) || run.state == StreamState::kDone) continue;
    Timeline& timeline = timelines_[run.rank_class];
    const Index instruction = ScheduleOf(run).items[run.item].instruction;
    if (run.state == StreamState::kRuns || run.state == StreamState::kAtCollective) {
      const Time start = run.state == StreamState::kRuns ? run.start : Time::Max();
      timeline.operations.push_back(
          {instruction, run.pass - 1, run.issued, run.ready, start, Time::Max()});
    } else if (run.state == StreamState::kAwaitsRecord) {
      timeline.waits.push_back({instruction, run.pass - 1, run.ready, Time::Max()});
    }
  }
  for (std::uint32_t c = 0; c < runs_.size(); ++c) {
    const ClassRun& run = runs_[c];
    if (run.host_state != HostState::kAwaitsRecord || !Recorded(c, run.pass)) continue;
    timelines_[c].waits.push_back(
        {ScheduleOf(c).segments[run.segment - 1].wait, run.pass - 1, run.clock, Time::Max()});
  }
}

// Host tasks were known early; they take their places among the operations of the streams.
void ProgramRun::FinishTimelines() {
  for (std::uint32_t c = 0; c < runs_.size(); ++c) {
    Timeline& timeline = timelines_[c];
    Merge(runs_[c].tasks, timeline.operations);
    // A step that finds nothing to do is over when the one before it is.
    for (std::size_t s = 1; s < timeline.step_ends.size(); ++s) {
      timeline.step_ends[s] = std::max(timeline.step_ends[s], timeline.step_ends[s - 1]);
    }
  }
}

}  // namespace stepcast::simulate
