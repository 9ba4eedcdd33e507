#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/engine/shared_resources.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/compiled_program.h"
#include "src/simulate/concurrent_sets.h"
#include "src/simulate/simulate.h"

namespace stepcast::simulate {

// Late start of the first step: an initial part of the step is treated as finished, and only the
// later part runs. If the step ends in the same state as a full step (Repetition checks this),
// later steps do not depend on the late start.
//
// The finished part is closed under dependencies. If an item of a stream is finished, all earlier
// items of the stream are finished. If a wait is finished, the record is finished. If a collective
// or message is finished, the peers' sides and all earlier operations on the communicator are
// finished.
//
// For each class, the finished part contains all items before one instruction. On streams with
// messages, the finished part contains only the required items, because messages wait for their
// peers.

// The position at which a class starts its first step if the step starts late.
struct StepPosition {
  std::vector<std::uint32_t> items;        // [stream]: the first unfinished item
  std::vector<std::uint32_t> collectives;  // [communicator]: number of finished operations
  std::vector<std::uint32_t> messages;     // [endpoint]: number of finished messages
  // The host span that contains the first unfinished instruction. `issued` is the time from the
  // beginning of the span until the host issues this instruction.
  std::uint32_t span = 0;
  Time issued;
};

class SimulatedClass;

// The interface through which a class interacts with other classes.
class OtherClasses {
 public:
  virtual ~OtherClasses() = default;
  // Called when `rank_class` has reached the current collective of a rendezvous.
  virtual void Arrive(std::uint32_t rendezvous, SimulatedClass& rank_class) = 0;
  // Called when `rank_class` has reached an exchange on one of its communicators.
  virtual void ArriveAtExchange(std::uint32_t communicator, SimulatedClass& rank_class) = 0;
  // Returns the solver for the operations of classes that are in the same collective.
  virtual engine::SharedResources& joint_resources() = 0;
};

// The index of an operation in flight. The streams' operations come first, then the communicators'
// operations.
using Runner = std::uint32_t;

enum class StreamState : std::uint8_t {
  kReady,         // the stream is in the ready queue
  kInFlight,      // runs an operation or collective, or waits for a known issue time
  kAwaitsHost,    // waits for the host to issue the next item, at an unknown time
  kAwaitsRecord,  // waits for an event's record
  kAtCollective,  // waits for its communicator or for other ranks
  kDone,
};

// One class of ranks in a run: its host, streams, event records, communicators, and operations in
// flight. simulate.h defines the behavior of a class. If nothing interrupts the kernels of a
// stream, the kernels need no simulation events.
//
// A class runs independently (detached) while it has no pending collective with other classes. A
// class is attached from the time at which it reaches a collective with other classes until the
// collective ends. During this time, Simulation controls the progress of the class.
class SimulatedClass {
 public:
  struct Communicator {
    std::uint32_t rendezvous = kNone;  // kNone: no other class uses the communicator
    std::uint32_t current = 0;         // number of finished collectives and exchanges
    std::uint32_t arrived = kNone;     // the stream that has reached the current collective
    std::uint32_t early = kNone;       // streams that have reached later collectives
    std::uint32_t held = 0;            // fraction of multiprocessors occupied while waiting
  };
  struct Stream {
    std::uint32_t item = 0;
    std::uint32_t end = 0;   // the item at which the current pass ends
    std::uint32_t pass = 0;  // 0: the prologue; s + 1: step s
    StreamState state = StreamState::kReady;
    bool queued = false;   // whether the stream is in the ready queue
    bool yielded = false;  // yielded to other streams in the ready queue
    Time issued;  // issue time of the operation that is in flight or waits at its communicator
    Time ready;   // time when the operation was ready, or when a wait was reached
    Time start;
    WaitFor wait_for;  // kAtCollective: the communicator and the operation's number
    std::uint32_t next_waiting = kNone;  // next stream that waits for the same record
  };

  // Prepares the class for a run. `index` is the class's index in the run. `first_activity` is the
  // index of the class's first operation in the joint solver. `rendezvous` is indexed by
  // communicator. `late_start` is the position at which the first step starts; null: the run starts
  // with the prologue.
  void Reset(const RankClass& rank_class, std::uint32_t index, const CompiledProgram& compiled,
             ConcurrentSets& sets, const Options& options, std::uint32_t first_activity,
             std::span<const std::uint32_t> rendezvous, const StepPosition* late_start,
             OtherClasses& other_classes, program::Timeline& timeline);

  // Returns the time of the class's next event if no other class affects this class earlier.
  // Time::Max(): no event.
  Time next() const;
  Time now() const { return now_; }
  // Returns how the host has influenced this class.
  const HostInfluence& host_influence() const { return host_influence_; }
  // Processes the events from `at` to before `until`. Returns early after an event that affects
  // other classes. An event affects other classes if it reaches a collective with other classes,
  // starts or ends an operation in the joint solver, or ends a pass for which Simulation waits.
  // next() is then the time of the next event.
  Time Run(Time at, Time until);

  // BeginCollective and EndCollective begin and end the operation that the class has reached on a
  // communicator.
  void BeginCollective(std::uint32_t communicator, Time now);  // the operation starts
  void EndCollective(std::uint32_t communicator, Time now);
  // Join moves the class's operations into the joint solver. Call Join when a collective with other
  // classes begins to use resources. Leave moves the operations back. Call Leave after the last
  // collective with other classes.
  void Join(Time now);
  void Leave(Time now);
  // Makes the waiting operation on a communicator occupy this fraction of the multiprocessors until
  // BeginCollective. Among the same ranks, only the waiting operation with the largest fraction
  // occupies multiprocessors. The reason is that PyTorch has one communicator and one stream per
  // group of ranks.
  void Hold(std::uint32_t communicator, std::uint32_t share, Time now);
  // Sets the end of a stream's or communicator's operation after the joint solver has changed it.
  // Returns false if the operation is not in flight.
  bool MoveEnd(Runner runner, Time end) {
    if (in_flight_[runner].activity == Activity::kHolds) return false;
    next_[runner] = end;
    return true;
  }

  // Returns the number of passes that have ended on all streams and on the host.
  std::uint32_t ended() const { return ended_; }
  Time EndOfPass(std::uint32_t pass) const {
    return pass == 0 ? prologue_end_ : timeline_->step_ends[pass - 1];
  }
  // Allows the next pass to be issued from `begin` on. Used with a barrier.
  void OpenBarrier(Time begin);
  // Advances the host to the end of its instructions. Call this function after all events are
  // processed. Returns false if the host waits forever.
  bool Finish();

  bool attached() const { return attachments_ > 0; }
  std::uint32_t index() const { return index_; }
  std::uint32_t first_activity() const { return first_activity_; }
  std::uint32_t first_resource() const { return index_ * cost::kResources; }
  std::uint32_t runners() const { return static_cast<std::uint32_t>(in_flight_.size()); }
  const CompiledProgram& compiled() const { return *compiled_; }
  const program::Program& program() const { return *rank_class_->program; }
  const RankClass& rank_class() const { return *rank_class_; }
  std::span<const Stream> streams() const { return streams_; }
  std::span<const Communicator> communicators() const { return communicators_; }
  const std::vector<int>& RanksOf(std::uint32_t communicator) const {
    const auto& groups = rank_class_->groups != nullptr ? *rank_class_->groups : program().groups;
    return groups[program().communicators[communicator].group].ranks;
  }
  // Returns the collective that the class has reached on a communicator.
  const program::Collective& CollectiveAt(std::uint32_t communicator) const {
    return program().collectives[TargetAt(communicator)];
  }
  std::uint32_t TargetAt(std::uint32_t communicator) const { return ItemAt(communicator).target; }
  bool IsAtCollective(std::uint32_t communicator) const {
    return communicators_[communicator].arrived != kNone &&
           ItemAt(communicator).kind == Item::Kind::kCollective;
  }
  const Item& ItemAt(std::uint32_t communicator) const {
    return compiled_->items[streams_[communicators_[communicator].arrived].item];
  }

  // The state of a class when `ended` passes have ended, relative to the time `now`.
  struct State {
    std::vector<std::int64_t> device;  // the data that determines all later device operations
    std::vector<std::int64_t> host;
    bool within_next_step = false;  // true: no stream is beyond the next pass
    bool host_waits = true;         // whether the host waits for events in a step
    Time held_up_by_issue;          // last time at which a stream waited for the host
    Time step_issue;                // time to issue a step if the host never waits
  };
  void TakeState(Time now, std::uint32_t ended, State& state);

  // Adds the host tasks to the timeline. If `cut`, records operations in flight with the end
  // Time::Max().
  void FinishTimeline(bool cut);
  // For each blocked host or stream, appends a sentence that explains why the host or stream cannot
  // continue.
  void ExplainHost(std::vector<std::string>& blocked) const;
  std::string DescribeItem(const Stream& stream) const;
  std::string DescribeRecord(WaitFor wait_for) const;

 private:
  using SharedWork = engine::SharedResources::Work;

  // The kind of a runner's next event. `next` is the time of the event, next_[runner].
  enum class Activity : std::uint8_t {
    kNone,
    kAwaitsIssue,  // a stream: the host issues the stream's next item at `next`
    kLatency,      // the latency ends and the use of resources begins at `next`
    kShares,       // ends at `next` if nothing else starts or finishes
    kFixed,        // uses no resources, and ends at `next`
    kHolds,        // a communicator: occupies multiprocessors until other ranks arrive
  };
  struct InFlight {
    Activity activity = Activity::kNone;
    bool settled = false;  // kShares: whether `rate`, `left` and `since` are valid
    ConcurrentSets::Profile profile = 0;
    Time work;
    std::uint64_t rate = 0;
    SharedWork left = 0;  // remaining at `since`
    Time since;
  };
  struct RecordState {
    std::uint32_t reached = 0;      // number of times that the record was reached
    std::uint32_t waiting = kNone;  // first stream that waits for the record
    Time reached_at;                // last time at which the record was reached
  };
  // The cached result for an operation that starts while other operations share resources. The same
  // sets of operations occur repeatedly, because layers repeat.
  struct Beside {
    ConcurrentSets::Set others = kNone;
    ConcurrentSets::Set set = ConcurrentSets::kEmpty;  // the set that includes the operation
    Time work;  // duration of the operation's work at the rate in `set`
  };

  Runner NextRunner() const {
    Runner next = kNone;
    Time earliest = Time::Max();
    for (Runner runner = 0; runner < next_.size(); ++runner) {
      const Time own = next_[runner];
      if (own >= earliest) continue;
      earliest = own;
      next = runner;
    }
    return next;
  }
  void OnEvent(Runner runner);
  // Makes Run return after the events at the current time.
  void Yield() { until_ = std::min(until_, now_); }

  // Returns whether the beginning of a span is known. Advances the host to this span if possible.
  // Advancing the host only now is correct, because a span's beginning depends only on records. A
  // record is reached again only after the host has passed the wait for this record.
  bool KnowsSpan(std::uint32_t span) { return span < span_begins_.size() || ReachSpan(span); }
  bool ReachSpan(std::uint32_t span);
  std::uint32_t SpanOf(const Item& item, std::uint32_t pass) const {
    return pass == 0 ? item.span : item.span + (pass - 1) * step_spans_;
  }
  bool AdvanceHost();
  Time TimeOf(const WaitFor& wait_for) const;
  void BeginSpan();
  void EndPass(std::uint32_t pass, Time end);
  void EndPasses();
  void EnqueueAwaitingHost();

  void TakeOptions(const Options& options, bool starts_late);
  void ClearHost();
  void ClearStreams(std::span<const std::uint32_t> rendezvous);
  void ClearTimeline();
  // AddInFlight, AddCommunicators and TakeHostState write the parts of a State. `first_span` is the
  // earliest host span that a stream may still need.
  void AddInFlight(Time now, std::vector<std::int64_t>& device) const;
  void AddCommunicators(std::uint32_t passes_ended, std::vector<std::int64_t>& device) const;
  void TakeHostState(Time now, std::uint32_t passes_ended, std::size_t first_span,
                     State& state) const;

  // Sets the streams to the start of the run.
  void BeginStreams(const StepPosition* late_start);
  void BeginPrologue();
  void BeginAt(const StepPosition& position);

  // Streams.
  void Enqueue(std::uint32_t stream);
  void DrainReadyQueue();
  void Advance(std::uint32_t stream);
  bool RunAhead(std::uint32_t stream);
  // The operations that share resources with a stream that runs ahead (simulated_class.cc).
  class SharersAhead;
  Time LimitAhead();
  bool RunChain(std::uint32_t stream, Time span_begin, Time limit);
  bool RunOperation(std::uint32_t stream, const Item& item, Time issued, Time limit,
                    SharersAhead& sharers);
  bool Reached(const WaitFor& wait_for) const {
    return wait_for.count == 0 || records_[wait_for.slot].reached >= wait_for.count;
  }
  bool PassesRecord(std::uint32_t stream, const Item& item);
  void ReachRecord(std::uint32_t slot);
  // Completes the stream's current operation or collective, which has ended.
  void Complete(std::uint32_t stream, Time end) {
    if (records_operations_) Record(streams_[stream], end);
    NextItem(stream);
  }
  void NextItem(std::uint32_t stream) {
    Stream& own = streams_[stream];
    if (++own.item == own.end) NextPass(stream);
  }
  void NextPass(std::uint32_t stream);
  void Record(const Stream& stream, Time end);
  // Makes the stream wait at the item until the host has issued it.
  void HoldUp(std::uint32_t pass, const Item& item, Time issued);
  // Returns whether the issue time affects the start of the instruction's operation.
  bool HostMatters(std::uint32_t pass, Index instruction) const;
  void ReachCommunicator(std::uint32_t stream, const Item& item);
  void TakeTurn(std::uint32_t communicator);
  std::uint32_t NumberOf(const Item& item, std::uint32_t pass) const;

  // Starts an operation. Returns true if the operation takes no time and has ended.
  bool Start(Runner runner, Time start, const Cost& cost);
  void BeginSharing(Runner runner);
  void StopSharing(Runner runner);
  static bool Shares(Activity activity) {
    return activity == Activity::kShares || activity == Activity::kHolds;
  }
  void Settle();
  SharedWork LeftOf(const InFlight& work, Time now) const {
    const SharedWork done = engine::SharedResources::Done(now - work.since, work.rate);
    return work.left - std::min(done, work.left);
  }
  // Returns the cached result for an operation of this cost that joins the operations in `set_`.
  const Beside& BesideSharers(std::uint32_t cost) {
    const Beside& known = beside_[cost];
    return known.others == set_ ? known : PutBesideSharers(cost);
  }
  const Beside& PutBesideSharers(std::uint32_t cost);

  bool WaitsRecorded(std::uint32_t pass) const {
    return pass >= first_recorded_pass_ && record_all_;
  }
  const program::Instruction& InstructionAt(std::uint32_t pass, Index instruction) const {
    return pass == 0 ? program().prologue[instruction] : program().step[instruction];
  }

  const RankClass* rank_class_ = nullptr;
  const CompiledProgram* compiled_ = nullptr;
  ConcurrentSets* sets_ = nullptr;
  OtherClasses* other_classes_ = nullptr;
  program::Timeline* timeline_ = nullptr;
  std::uint32_t index_ = 0, first_activity_ = 0;
  std::uint32_t passes_ = 0;  // number of passes: the prologue and the steps
  std::uint32_t first_recorded_pass_ = 1;
  bool barrier_ = false, watch_passes_ = false;
  bool record_all_ = false;
  const std::vector<bool>* marked_ = nullptr;
  bool records_operations_ = false;  // whether operations and memory changes are recorded

  Time now_;
  Time until_;
  std::uint32_t attachments_ = 0;  // number of reached collectives with other classes
  std::uint32_t joined_ = 0;  // number of collectives with other classes that now use resources

  // The state of the host.
  bool host_waits_ = false;
  std::uint32_t open_passes_ = 0;  // number of passes that may be issued
  std::uint32_t host_pass_ = 0;
  std::uint32_t host_span_ = 0;  // the next span to begin
  Time host_clock_;
  WaitFor host_wait_for_;
  std::uint32_t step_spans_ = 0;
  std::vector<Time> span_begins_;  // beginnings of known spans: prologue, then each step
  std::vector<program::OperationRecord> tasks_;
  std::vector<program::WaitRecord> host_waits_recorded_;

  std::vector<Stream> streams_;
  std::vector<Communicator> communicators_;
  std::vector<InFlight> in_flight_;             // [runner]
  std::vector<Time> next_;                      // [runner]: time of the runner's next event
  std::vector<RecordState> records_;            // [slot]
  std::vector<std::vector<Time>> launch_ends_;  // [launch record]: times when it was reached
  std::vector<std::uint32_t> ready_;            // ready queue
  std::size_t drained_ = 0;                     // number of drained entries of `ready_`

  std::vector<Runner> sharers_;
  ConcurrentSets::Set set_ = ConcurrentSets::kEmpty;  // the set of operations that share resources
  bool unsettled_ = false;
  std::vector<Beside> beside_;  // [cost]

  std::vector<std::uint32_t> streams_in_pass_;  // [pass]: number of streams yet to end the pass
  std::uint32_t ended_ = 0;
  Time prologue_end_;
  Time held_up_by_issue_;
  HostInfluence host_influence_;
  // For each pass: the first wait of the host after the examined part (HostInfluence). kNone: no
  // wait yet.
  std::vector<Index> set_back_;
};

}  // namespace stepcast::simulate
