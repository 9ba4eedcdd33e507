#include "src/simulate/simulation.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "src/base/check.h"
#include "src/base/stop.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::Timeline;

namespace {

// Merges uses of the same resource.
void AddUp(std::vector<SharedResources::Use>& uses) {
  std::size_t kept = 0;
  for (const SharedResources::Use& use : uses) {
    const auto end = uses.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto same = std::find_if(
        uses.begin(), end, [&](const auto& known) { return known.resource == use.resource; });
    if (same == end) {
      uses[kept++] = use;
    } else {
      same->share += use.share;
    }
  }
  uses.resize(kept);
}

}  // namespace

tl::expected<std::span<const Timeline>, Deadlock> Simulation::Run(
    std::span<const RankClass> classes, const Options& options) {
  given_ = classes;
  options_ = options;
  sets_.Trim();
  Compile();
  return RunCompiled();
}

tl::expected<std::span<const Timeline>, Deadlock> Simulation::RunAgain(const Options& options) {
  options_ = options;
  if (options.recording != Recording::kNone && !compiled_host_) Compile();
  return RunCompiled();
}

tl::expected<std::span<const Timeline>, Deadlock> Simulation::RunCompiled() {
  STEPCAST_CHECK(options_.steps >= 1, "at least one step must run");
  passes_ = static_cast<std::uint32_t>(options_.steps) + 1;
  SetUp();
  for (std::uint32_t c = 0; c < classes_.size(); ++c) Follow(c);
  for (std::uint32_t events = 0;; ++events) {
    if (events % kEventsBetweenStopPoints == 0) StopPoint();
    RunDetached();
    const bool instant_over = events_.empty() || events_.Top().time > now_;
    // Rates are computed when everything at this instant has happened.
    if (instant_over && joint_.unsettled()) {
      SettleJoint();
      continue;
    }
    if (const std::uint32_t watched = watched_; watch_passes_ && AllHaveEnded()) {
      if (OnPassEnd()) break;
      if (watched_ != watched) continue;
    }
    if (events_.empty()) break;
    const auto event = events_.Pop();
    now_ = std::max(now_, event.time);
    switch (event.payload.kind()) {
      case EventKind::kClass:
        if (queued_[event.payload.owner()] == event.time) OnClass(event.payload.owner());
        break;
      case EventKind::kJoint:
        OnJoint(event.payload.owner());
        break;
      case EventKind::kMessages:
        OnMessages();
        break;
    }
  }
  if (!repetition_) {
    bool finished = true;
    for (SimulatedClass& run : classes_) finished = run.Finish() && finished;
    if (!finished) return tl::unexpected(Explain());
  }
  FinishTimelines(repetition_.has_value());
  return std::span<const Timeline>(timelines_);
}

void Simulation::SetUp() {
  const auto count = static_cast<std::uint32_t>(given_.size());
  now_ = Time();
  watched_ = last_ = 0;
  // Message by message, the state would have to include messages in flight.
  options_.until_repetition = options_.until_repetition && !options_.barrier &&
                              (options_.traffic == nullptr || !options_.traffic->messages);
  watch_passes_ = options_.barrier || options_.until_repetition;
  state_.ended = 0;
  state_before_.ended = 0;
  repetition_.reset();
  events_.Clear();
  detached_.clear();
  is_detached_.assign(count, false);
  queued_.assign(count, Time::Max());
  while (classes_.size() > count) classes_.pop_back();
  while (classes_.size() < count) classes_.emplace_back();
  timelines_.resize(count);
  first_communicator_.clear();
  std::uint32_t communicators = 0;
  for (const RankClass& given : given_) {
    first_communicator_.push_back(communicators);
    communicators += static_cast<std::uint32_t>(given.program->communicators.size());
  }
  LinkCommunicators();
  LinkEndpoints();
  starts_late_ = options_.late_start && options_.until_repetition && passes_ > 2 && FindLateStart();
  if (starts_late_) {
    watched_ = 1;
    ReachLateStart();
  }
  joint_count_ = rendezvous_count_ + places_.size();
  if (joints_.size() < joint_count_) joints_.resize(joint_count_);
  for (std::size_t j = 0; j < joint_count_; ++j) {
    joints_[j].stage = Stage::kArriving;
    joints_[j].next = Time::Max();
    joints_[j].open = 0;
  }

  class_of_activity_.clear();
  for (std::uint32_t c = 0; c < count; ++c) {
    const std::span<const std::uint32_t> rendezvous(rendezvous_of_.data() + first_communicator_[c],
                                                    given_[c].program->communicators.size());
    const auto first_activity = static_cast<std::uint32_t>(class_of_activity_.size());
    const bool records_all = options_.recording == Recording::kAll && given_[c].records;
    if (!records_all) compiled_[compiled_of_[c]].ReserveChains();
    classes_[c].Reset(given_[c], c, compiled_[compiled_of_[c]], sets_, options_, first_activity,
                      rendezvous, starts_late_ ? &late_starts_[c] : nullptr, *this, timelines_[c]);
    class_of_activity_.resize(first_activity + classes_[c].runners(), c);
  }
  std::uint32_t links = 0;
  if (options_.traffic != nullptr && !options_.traffic->messages) {
    links = options_.traffic->links;
  }
  if (joint_count_ > 0) {
    joint_.Reset(count * cost::kResources + links,
                 static_cast<std::uint32_t>(class_of_activity_.size() + joint_count_));
  }
  SetUpMessages();
}

void Simulation::Compile() {
  const bool links = options_.traffic == nullptr || !options_.traffic->messages;
  compiled_host_ = options_.recording != Recording::kNone;
  std::vector<std::uint32_t> firsts;  // by compiled program: the first class that runs it
  compiled_of_.assign(given_.size(), 0);
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const auto found = std::find_if(firsts.rbegin(), firsts.rend(), [&](std::uint32_t other) {
      return given_[other].program == given_[c].program &&
             given_[other].prices == given_[c].prices && given_[other].marked == given_[c].marked;
    });
    if (found == firsts.rend()) {
      compiled_of_[c] = static_cast<std::uint32_t>(firsts.size());
      firsts.push_back(c);
    } else {
      compiled_of_[c] = static_cast<std::uint32_t>(firsts.rend() - found) - 1;
    }
  }
  while (compiled_.size() < firsts.size()) compiled_.emplace_back();
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const RankClass& first = given_[firsts[i]];
    compiled_[i].Build(*first.program, *first.prices, first.marked, links, compiled_host_, sets_,
                       build_room_);
  }
}

// A communicator belongs to its class alone if no other class has it and it uses no shared link.
void Simulation::LinkCommunicators() {
  const auto ranks_of = [this](const Member& member) -> const std::vector<int>& {
    const program::Program& program = *given_[member.rank_class].program;
    const auto* groups = given_[member.rank_class].groups;
    return (groups == nullptr ? program.groups
                              : *groups)[program.communicators[member.communicator].group]
        .ranks;
  };
  rendezvous_count_ = 0;
  std::size_t communicators = 0;
  for (const RankClass& given : given_) communicators += given.program->communicators.size();
  rendezvous_of_.assign(communicators, kNone);
  if (given_.size() == 1 && options_.traffic == nullptr) return;

  std::map<std::string_view, std::vector<std::uint32_t>> by_name;
  std::size_t at = 0;
  for (std::uint32_t c = 0; c < given_.size(); ++c) {
    const program::Program& program = *given_[c].program;
    for (std::uint32_t i = 0; i < program.communicators.size(); ++i, ++at) {
      std::vector<std::uint32_t>& candidates = by_name[program.communicators[i].name];
      std::uint32_t found = kNone;
      for (const std::uint32_t r : candidates) {
        // A class is a member once; its second communicator of that name is separate.
        if (rendezvous_[r].members.back().rank_class == c) continue;
        if (ranks_of(rendezvous_[r].members.front()) == ranks_of({c, i})) {
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
        made.last_arrival = Time();
        candidates.push_back(found);
      }
      rendezvous_[found].members.push_back({c, i});
      rendezvous_of_[at] = found;
    }
  }
  if (given_.size() > 1) FindAbsentMembers();
  if (options_.traffic != nullptr) return;
  for (std::uint32_t& r : rendezvous_of_) {
    if (rendezvous_[r].members.size() == 1 && rendezvous_[r].absent.empty()) r = kNone;
  }
}

void Simulation::FindAbsentMembers() {
  std::map<int, std::uint32_t> class_of;
  for (std::uint32_t c = 0; c < given_.size(); ++c) class_of.emplace(given_[c].representative, c);
  for (std::size_t r = 0; r < rendezvous_count_; ++r) {
    Rendezvous& rendezvous = rendezvous_[r];
    const Member& first = rendezvous.members.front();
    const program::Program& program = *given_[first.rank_class].program;
    const auto* groups = given_[first.rank_class].groups;
    const auto& ranks =
        (groups == nullptr ? program.groups
                           : *groups)[program.communicators[first.communicator].group]
            .ranks;
    for (const int rank : ranks) {
      const auto found = class_of.find(rank);
      if (found == class_of.end()) continue;
      const bool is_member = std::binary_search(
          rendezvous.members.begin(), rendezvous.members.end(), Member{.rank_class = found->second},
          [](const Member& a, const Member& b) { return a.rank_class < b.rank_class; });
      if (!is_member) rendezvous.absent.push_back(found->second);
    }
  }
}

// Classes.

void Simulation::Follow(std::uint32_t c, Time next) {
  const SimulatedClass& run = classes_[c];
  if (next == Time::Max()) return;
  if (!options_.run_ahead || run.attached() || Held(run)) {
    QueueClass(c, next);
  } else if (!is_detached_[c]) {
    is_detached_[c] = true;
    detached_.push_back(c);
  }
}

void Simulation::QueueClass(std::uint32_t c, Time next) {
  next = std::max(next, now_);
  if (next >= queued_[c]) return;
  queued_[c] = next;
  events_.Push(next, Event(c, EventKind::kClass));
}

void Simulation::RunDetached() {
  while (!detached_.empty()) {
    const std::uint32_t c = detached_.back();
    detached_.pop_back();
    is_detached_[c] = false;
    queued_[c] = Time::Max();  // removes the event from before it was attached
    Follow(c, classes_[c].Run(classes_[c].next(), Time::Max()));
  }
}

void Simulation::OnClass(std::uint32_t c) {
  queued_[c] = Time::Max();
  SimulatedClass& run = classes_[c];
  // Runs alone until something else happens; not at all while rates are unknown.
  const Time next = run.Run(now_, joint_.unsettled() ? now_ : NextEvent());
  now_ = std::max(now_, run.now());
  Follow(c, next);
}

Time Simulation::NextEvent() {
  const Time next = events_.empty() ? Time::Max() : events_.Top().time;
  if (!watch_passes_ || !AllHaveEnded()) return next;
  Time last = now_;
  for (const SimulatedClass& run : classes_) last = std::max(last, run.now());
  return std::min(next, last + Picoseconds(1));
}

// The ends of passes.

bool Simulation::AllHaveEnded() {
  // This is checked at every event; usually the same class has not ended the pass.
  if (watched_ == passes_ || classes_[last_].ended() <= watched_) return false;
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].ended() > watched_) continue;
    last_ = c;
    return false;
  }
  return true;
}

bool Simulation::OnPassEnd() {
  // All classes must be here, and none further.
  Time here = now_;
  for (const SimulatedClass& run : classes_) here = std::max(here, run.now());
  if (!events_.empty() && events_.Top().time <= here) return false;
  now_ = here;
  const std::uint32_t pass = watched_++;
  if (options_.barrier) {
    if (watched_ == passes_) return false;
    Time begin = now_;
    for (const SimulatedClass& run : classes_) begin = std::max(begin, run.EndOfPass(pass));
    for (SimulatedClass& run : classes_) run.OpenBarrier(begin);
  } else if (watched_ < passes_ && Repeats()) {
    return true;
  }
  for (std::uint32_t c = 0; c < classes_.size(); ++c) Follow(c);
  return false;
}

void Simulation::TakeState(State& state) {
  state.ended = watched_;
  state.time = now_;
  state.end = Time();
  state.classes.resize(classes_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    classes_[c].TakeState(now_, watched_, state.classes[c]);
    state.end = std::max(state.end, classes_[c].EndOfPass(watched_ - 1));
  }
  state.joints.clear();
  for (std::size_t r = 0; r < rendezvous_count_; ++r) {
    state.joints.push_back(rendezvous_[r].arrived);
  }
  for (std::size_t e = 0; e < endpoint_count_; ++e) {
    const EndpointState& endpoint = endpoints_[e];
    if (endpoint.partner == kNone) continue;
    state.joints.push_back(std::int64_t{endpoint.reached} - endpoints_[endpoint.partner].reached);
  }
  for (std::uint32_t j = 0; j < joint_count_; ++j) {
    const Joint& joint = joints_[j];
    state.joints.push_back(static_cast<std::int64_t>(joint.stage));
    if (joint.stage == Stage::kShares) {
      const auto left = joint_.Remaining(ActivityOf(j), now_);
      state.joints.push_back(static_cast<std::int64_t>(left));
      state.joints.push_back(static_cast<std::int64_t>(left >> 64));
    } else if (joint.stage != Stage::kArriving) {
      state.joints.push_back((joint.next - now_).picoseconds());
    }
  }
  if (places_.empty()) return;
  for (const ExchangeState& exchange : exchanges_) state.joints.push_back(exchange.open);
}

// Whether the last step left the same state as the step before it, so that it will repeat.
bool Simulation::Repeats() {
  std::swap(state_, state_before_);
  TakeState(state_);
  const State& before = state_before_;
  const State& after = state_;
  if (before.ended == 0 || watched_ < 2) return false;
  if (after.time - after.end != before.time - before.end || after.joints != before.joints) {
    return false;
  }
  bool hosts = true;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const SimulatedClass::State& own = after.classes[c];
    const SimulatedClass::State& then = before.classes[c];
    // No stream may be beyond the next step, since a run may end there.
    if (!own.within_next_step || own.device != then.device) return false;
    if (own.host == then.host) continue;
    // A host that never waits gains the difference between step time and issue time in each step.
    // If nothing waited for it in this step, nothing will in later steps.
    if (own.host_waits || own.step_issue > after.time - before.time ||
        own.held_up_by_issue > before.time) {
      return false;
    }
    hosts = false;
  }
  const std::uint32_t step = watched_ - 2;
  repetition_ = Repetition{.step = static_cast<int>(step), .start = before.end, .host = hosts};
  const Time interval = after.time - before.time;
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    std::vector<Time>& ends = timelines_[c].step_ends;
    for (std::size_t s = step + 1; s < ends.size(); ++s) ends[s] = ends[s - 1] + interval;
  }
  return true;
}

// Joint operations of classes.

void Simulation::SettleJoint() {
  joint_.Settle(now_);
  for (const SharedResources::Activity activity : joint_.moved()) {
    const Time end = joint_.end(activity);
    if (activity >= class_of_activity_.size()) {
      const auto joint = activity - static_cast<std::uint32_t>(class_of_activity_.size());
      joints_[joint].next = end;
      QueueJoint(joint);
      continue;
    }
    const std::uint32_t c = class_of_activity_[activity];
    // Its other operations have been updated.
    if (classes_[c].MoveEnd(activity - classes_[c].first_activity(), end)) QueueClass(c, end);
  }
}

void Simulation::QueueJoint(std::uint32_t j) {
  events_.Push(joints_[j].next, Event(j, EventKind::kJoint));
}

void Simulation::OnJoint(std::uint32_t j) {
  Joint& joint = joints_[j];
  if (joint.next != now_) return;  // its end has moved
  switch (joint.stage) {
    case Stage::kArriving:
      break;
    case Stage::kComplete:
      if (j < rendezvous_count_) {
        StartCollective(j);
      } else {
        StartTransfer(j);
      }
      break;
    case Stage::kLatency:
      BeginWork(j);
      break;
    case Stage::kShares:
      joint_.Finish(ActivityOf(j));
      for (const Part& part : joint.parts) classes_[part.rank_class].Leave(now_);
      joint.next = Time::Max();
      PartEnds(j);
      // Their other operations continue at another rate, also if they are in further joint
      // operations.
      for (const Part& part : joint.parts) Follow(part.rank_class);
      break;
    case Stage::kFixed:
      joint.next = Time::Max();
      PartEnds(j);
      break;
  }
}

void Simulation::Start(std::uint32_t j, std::uint32_t number) {
  Joint& joint = joints_[j];
  Time latency, work;
  for (const Part& part : joint.parts) {
    latency = std::max(latency, part.cost->latency);
    work = std::max(work, part.cost->work);
  }
  const bool routed = number != network::CollectiveTraffic::kLocal;
  const bool on_links = routed && !options_.traffic->messages;
  const network::FlowDemand* flow =
      on_links ? &options_.traffic->collectives[number].flow : nullptr;
  if (on_links) {
    latency = std::max(latency, flow->latency);
    work = std::max(work, flow->work);
  }
  // A part that would finish earlier when uncontended uses a proportionally smaller share at the
  // common rate.
  joint.uses.clear();
  const auto add = [&](std::span<const SharedResources::Use> own, std::uint32_t from, Time alone) {
    for (SharedResources::Use use : own) {
      use.resource += from;
      if (alone < work)
        use.share = static_cast<std::uint64_t>(static_cast<double>(use.share) * (alone / work));
      joint.uses.push_back(use);
    }
  };
  for (const Part& part : joint.parts) {
    add(sets_.UsesOf(part.cost->profile), classes_[part.rank_class].first_resource(),
        part.cost->work);
  }
  if (joint.ends.size() == 2 && joint.parts.front().rank_class == joint.parts.back().rank_class) {
    AddUp(joint.uses);
  }
  if (on_links) {
    add(flow->uses, static_cast<std::uint32_t>(classes_.size()) * cost::kResources, flow->work);
  }
  joint.work = work;
  joint.open = 1;
  if (routed && options_.traffic->messages) {
    joint.open = 2;
    SendMessages(j, number);
  }
  if (joint.uses.empty()) {
    joint.stage = Stage::kFixed;
    joint.next = now_ + latency + work;
    QueueJoint(j);
  } else if (latency > Time()) {
    joint.stage = Stage::kLatency;
    joint.next = now_ + latency;
    QueueJoint(j);
  } else {
    BeginWork(j);
  }
}

void Simulation::BeginWork(std::uint32_t j) {
  Joint& joint = joints_[j];
  joint.stage = Stage::kShares;
  joint.next = Time::Max();  // its end is known at the end of this instant
  for (const Part& part : joint.parts) classes_[part.rank_class].Join(now_);
  joint_.Start(ActivityOf(j), now_, joint.work, joint.uses);
}

void Simulation::PartEnds(std::uint32_t j) {
  if (--joints_[j].open == 0) End(j);
}

void Simulation::End(std::uint32_t j) {
  joints_[j].stage = Stage::kArriving;
  joints_[j].next = Time::Max();
  if (j < rendezvous_count_) {
    EndCollective(j);
  } else {
    EndTransfer(j);
  }
}

// Collectives between classes.

void Simulation::Arrive(std::uint32_t r, SimulatedClass& rank_class) {
  Rendezvous& rendezvous = rendezvous_[r];
  ++rendezvous.arrived;
  rendezvous.last_arrival = std::max(rendezvous.last_arrival, rank_class.now());
  if (rendezvous.arrived < rendezvous.members.size() || !rendezvous.absent.empty()) return;
  for (const Member& member : rendezvous.members) {
    if (!SameCollective(CollectiveOf(rendezvous.members.front()), CollectiveOf(member))) {
      return;  // the members then wait forever
    }
  }
  joints_[r].stage = Stage::kComplete;
  joints_[r].next = rendezvous.last_arrival;
  QueueJoint(r);
}

// All members have reached the current collective and agree about it.
void Simulation::StartCollective(std::uint32_t r) {
  joints_[r].parts.clear();
  for (const Member& member : rendezvous_[r].members) {
    classes_[member.rank_class].BeginCollective(member.communicator, now_);
    joints_[r].parts.push_back({member.rank_class, &CostOf(member)});
  }
  Start(r, TrafficNumberOf(rendezvous_[r].members.front()));
  for (const Part& part : joints_[r].parts) Follow(part.rank_class);
}

// Ends it for all its members, which may have reached the next one.
void Simulation::EndCollective(std::uint32_t r) {
  Rendezvous& rendezvous = rendezvous_[r];
  rendezvous.arrived = 0;
  rendezvous.last_arrival = now_;
  for (const Member& member : rendezvous.members) {
    classes_[member.rank_class].EndCollective(member.communicator, now_);
  }
  for (const Member& member : rendezvous.members) Follow(member.rank_class);
}

bool Simulation::SameCollective(const program::Collective& a, const program::Collective& b) {
  return a.kind == b.kind && a.bytes == b.bytes && a.data_type == b.data_type;
}

// Messages.

std::uint32_t Simulation::TrafficNumberOf(const Member& member) const {
  if (options_.traffic == nullptr) return network::CollectiveTraffic::kLocal;
  return options_.traffic
      ->numbers[member.rank_class][classes_[member.rank_class].TargetAt(member.communicator)];
}

// Adds a job for each joint operation: the collectives of a rendezvous's members, and the messages
// from a place.
void Simulation::SetUpMessages() {
  messages_.reset();
  messages_awaited_ = Time::Max();
  if (options_.traffic == nullptr || !options_.traffic->messages) return;
  for (std::size_t j = 0; j < joint_count_; ++j) joints_[j].calls.clear();
  for (std::size_t r = 0; r < rendezvous_count_; ++r) {
    const Member& first = rendezvous_[r].members.front();
    const program::Program& program = *given_[first.rank_class].program;
    for (Index i = 0; i < program.collectives.size(); ++i) {
      const std::uint32_t number = options_.traffic->numbers[first.rank_class][i];
      if (program.collectives[i].communicator == first.communicator &&
          number != network::CollectiveTraffic::kLocal) {
        joints_[r].calls.push_back(number);
      }
    }
  }
  for (std::uint32_t c = 0; c < given_.size() && !places_.empty(); ++c) {
    std::uint32_t message = 0;
    for (const program::Exchange& exchange : given_[c].program->exchanges) {
      const std::size_t first =
          rendezvous_count_ +
          exchanges_[first_communicator_[c] + exchange.communicator].first_place;
      for (std::size_t i = 0; i < exchange.messages.size(); ++i, ++message) {
        const std::uint32_t number = options_.traffic->message_numbers[c][message];
        if (number != network::CollectiveTraffic::kLocal)
          joints_[first + i].calls.push_back(number);
      }
    }
  }
  std::vector<std::vector<const network::Traffic*>> jobs;
  for (std::size_t j = 0; j < joint_count_; ++j) {
    std::vector<std::uint32_t>& calls = joints_[j].calls;
    std::sort(calls.begin(), calls.end());
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    jobs.emplace_back();
    for (const std::uint32_t number : calls) {
      jobs.back().push_back(options_.traffic->collectives[number].traffic.get());
    }
  }
  messages_ = std::make_unique<network::MessageNetwork>(options_.traffic->cluster->network,
                                                        std::move(jobs));
}

void Simulation::SendMessages(std::uint32_t j, std::uint32_t number) {
  const std::vector<std::uint32_t>& calls = joints_[j].calls;
  const auto call = std::lower_bound(calls.begin(), calls.end(), number) - calls.begin();
  messages_->Start(j, static_cast<std::uint32_t>(call),
                   now_ + options_.traffic->collectives[number].delay);
  AwaitMessages();
}

// Schedules an event for the next arrival of messages.
void Simulation::AwaitMessages() {
  if (messages_->idle() || messages_->next() >= messages_awaited_) return;
  messages_awaited_ = messages_->next();
  events_.Push(messages_awaited_, Event(0, EventKind::kMessages));
}

// Messages run ahead until something else happens, or a collective's last one arrives.
void Simulation::OnMessages() {
  if (messages_awaited_ != now_) return;  // left over
  messages_awaited_ = Time::Max();
  if (joint_.unsettled()) SettleJoint();
  arrived_.clear();
  const Time until = NextEvent();
  while (!messages_->idle() && arrived_.empty() &&
         (messages_->next() == now_ || messages_->next() < until)) {
    now_ = messages_->next();
    messages_->Advance(arrived_);
  }
  AwaitMessages();
  for (const std::uint32_t joint : arrived_) PartEnds(joint);
}

void Simulation::FinishTimelines(bool cut) {
  for (SimulatedClass& run : classes_) run.FinishTimeline(cut);
}

}  // namespace stepcast::simulate
