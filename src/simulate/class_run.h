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

// The first of several steps begun late: its first part is taken for over, the rest is run. Where
// the rest leaves everything as a whole step does (Repetition), which is looked at, nothing shows
// that the first step was no whole one.
//
// What is over is closed: with an item of a stream all before it on the stream; with a wait the
// record that it waits for; with a collective or a message its other ends, and those before it on
// its communicator. At first these are, of each class, all items of the earlier part of its
// instructions; but of streams that exchange messages only what the others need, for what has
// been issued early there waits until peers come to it.

// Where a class begins its step.
struct StepPosition {
  std::vector<std::uint32_t> items;        // by stream: the first that is not over
  std::vector<std::uint32_t> collectives;  // by communicator: so many of the step are over
  std::vector<std::uint32_t> messages;     // by endpoint: likewise
  // The host issues the first instruction that is not over, in this span of the step, so long after
  // the span's begin.
  std::uint32_t span = 0;
  Time issued;
};

// One class of ranks in a run: its host, its streams, its records of events, the communicators that
// it has to itself, and the operations that it has in flight. simulate.h says what the rules are.
//
// A class has few operations in flight at once, so its next event is found by looking at all of
// them, and a stream goes over kernels that nothing interrupts without events. As long as nothing
// ties the class to others it runs by itself (detached). It is attached from where it reaches a
// collective that other classes take part in until that collective ends; what it may do meanwhile,
// the simulation tells it.

class ClassRun;

// Through which a class meets others.
class Couplings {
 public:
  virtual ~Couplings() = default;
  // `rank_class` has reached the current collective of a rendezvous.
  virtual void Arrive(std::uint32_t rendezvous, ClassRun& rank_class) = 0;
  // ... or an exchange on one of its communicators.
  virtual void ArriveAtExchange(std::uint32_t communicator, ClassRun& rank_class) = 0;
  // The rates of operations of classes that a collective joins.
  virtual engine::SharedResources& joint_resources() = 0;
};

// An operation in flight: on a stream, or of a communicator. Streams come first.
using Runner = std::uint32_t;

enum class StreamState : std::uint8_t {
  kReady,         // in the ready queue
  kInFlight,      // runs an operation or a collective, or waits until its next item is issued
  kAwaitsHost,    // its next item's issue time is not known: the host is held up
  kAwaitsRecord,  // stands at a wait
  kAtCollective,  // waits for its communicator or its partners: a collective or an exchange
  kDone,
};

class ClassRun {
 public:
  struct Communicator {
    std::uint32_t rendezvous = kNone;  // with other classes; kNone: it is this class's own
    std::uint32_t current = 0;         // how many collectives and exchanges have finished
    std::uint32_t arrived = kNone;     // the stream that has reached the current collective
    std::uint32_t early = kNone;       // streams that have reached later ones
    std::uint32_t held = 0;            // share of the multiprocessors, while it waits for others
  };
  struct Stream {
    std::uint32_t item = 0;
    std::uint32_t end = 0;   // the item at which its pass ends
    std::uint32_t pass = 0;  // 0: the prologue; s + 1: step s
    StreamState state = StreamState::kReady;
    bool queued = false;   // in the ready queue
    bool yielded = false;  // to others in it
    Time issued;           // of the operation in flight or at its communicator
    Time ready;            // ... and when it was let go; when a wait was reached
    Time start;
    WaitFor wait_for;                    // kAtCollective: communicator, number
    std::uint32_t next_waiting = kNone;  // another stream that waits for the same
  };

  // `index`: among the run's classes. `first_activity`: of its operations in the joint solver.
  // `rendezvous`: by communicator. `late_start`: where the first step begins; null: the prologue
  // comes first.
  void Reset(const RankClass& rank_class, std::uint32_t index, const CompiledProgram& compiled,
             ConcurrentSets& sets, const Options& options, std::uint32_t first_activity,
             std::span<const std::uint32_t> rendezvous, const StepPosition* late_start,
             Couplings& couplings, program::Timeline& timeline);

  // When it has something to do, if nothing happens to it before; Max: never.
  Time next() const;
  Time now() const { return now_; }
  // See HostInfluence.
  const HostInfluence& host_influence() const { return host_influence_; }
  // Does what there is to do at `at` and from then on before `until`. It returns at the end of the
  // instant in which something happens that concerns others: it reaches a collective with other
  // classes, one of its operations starts or ends in the joint solver, or it ends a pass while
  // passes are watched. What next() then says.
  Time Run(Time at, Time until);

  // Of the collective or exchange that it has reached on a communicator.
  void BeginCollective(std::uint32_t communicator, Time now);  // it starts
  void EndCollective(std::uint32_t communicator, Time now);
  // A collective with other classes that uses resources takes its operations into the joint solver,
  // and the last one to end gives them back.
  void Join(Time now);
  void Leave(Time now);
  // What has been reached on a communicator waits for others, and would hold such a share of the
  // multiprocessors; it starts with BeginCollective. Among the same ranks one waits at a time, the
  // one with the largest share: PyTorch gives a group of ranks one communicator and one stream.
  void Hold(std::uint32_t communicator, std::uint32_t share, Time now);
  // The joint solver has moved the end of what runs on a stream or of a communicator. False if that
  // is none.
  bool MoveEnd(Runner runner, Time end) {
    if (in_flight_[runner].activity == Activity::kHolds) return false;
    next_[runner] = end;
    return true;
  }

  // Passes that all its streams and its host have ended.
  std::uint32_t ended() const { return ended_; }
  Time EndOfPass(std::uint32_t pass) const {
    return pass == 0 ? prologue_end_ : timeline_->step_ends[pass - 1];
  }
  // With a barrier: the next pass may be issued, from `begin` on.
  void OpenBarrier(Time begin);
  // The rest of the host's way, after everything else. False if it is held up for ever.
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
  // Of what has been reached on a communicator.
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

  // The state at `now`, when so many passes have ended.
  struct State {
    std::vector<std::int64_t> device;  // all that decides what comes, but for the host
    std::vector<std::int64_t> host;
    bool within_next_step = false;  // no stream is further than the pass after those
    bool host_waits = true;         // for events, somewhere in a step
    Time held_up_by_issue;          // the latest time at which a stream stood because of the host
    Time step_issue;                // what issuing a step takes, if its host never waits
  };
  void TakeState(Time now, std::uint32_t ended, State& state);

  // Puts host tasks, which are known early, into the timeline, and what is in flight as if it went
  // on for ever.
  void FinishTimeline(bool cut);
  // Why it cannot go on, one sentence for each host and stream.
  void ExplainHost(std::vector<std::string>& blocked) const;
  std::string DescribeItem(const Stream& stream) const;
  std::string DescribeRecord(WaitFor wait_for) const;

 private:
  using SharedWork = engine::SharedResources::Work;

  // `next`: of next_.
  enum class Activity : std::uint8_t {
    kNone,
    kAwaitsIssue,  // a stream: its next item will have been issued at `next`
    kLatency,      // it begins to share at `next`
    kShares,       // its end is `next` as long as nothing else starts or finishes
    kFixed,        // it uses nothing, and ends at `next`
    kHolds,        // of a communicator: it shares until others come; `next` is Max
  };
  struct InFlight {
    Activity activity = Activity::kNone;
    bool settled = false;  // kShares: `rate` and what follows are known
    ConcurrentSets::Profile profile = 0;
    Time work;
    std::uint64_t rate = 0;
    SharedWork left = 0;  // at `since`
    Time since;
  };
  struct RecordState {
    std::uint32_t reached = 0;      // how often
    std::uint32_t waiting = kNone;  // the first stream that waits for it
    Time reached_at;                // when last
  };
  // An operation beside others that share, as it was last: layers repeat.
  struct Beside {
    ConcurrentSets::Set others = kNone;
    ConcurrentSets::Set set = ConcurrentSets::kEmpty;  // with it
    Time work;                                         // at its rate there
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
  // The class goes no further than this instant by itself.
  void Yield() { until_ = std::min(until_, now_); }

  // The host. It is followed only as far as a stream needs it: when a span begins depends on
  // records alone, and a record cannot be reached again before the host has passed the wait for it.
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
  // These write one part of a State each. `first_span` is the earliest of the host's spans
  // that a stream may still need.
  void AddInFlight(Time now, std::vector<std::int64_t>& device) const;
  void AddCommunicators(std::uint32_t passes_ended, std::vector<std::int64_t>& device) const;
  void TakeHostState(Time now, std::uint32_t passes_ended, std::size_t first_span,
                     State& state) const;

  // Where the run begins.
  void BeginStreams(const StepPosition* late_start);
  void BeginPrologue();
  void BeginAt(const StepPosition& position);

  // Streams.
  void Enqueue(std::uint32_t stream);
  void DrainReadyQueue();
  void Advance(std::uint32_t stream);
  bool RunAhead(std::uint32_t stream);
  // The operations that share resources with a stream while it runs ahead (class_run.cc).
  class SharersAhead;
  Time LimitAhead();
  bool RunStretch(std::uint32_t stream, Time span_begin, Time limit);
  bool RunOperation(std::uint32_t stream, const Item& item, Time issued, Time limit,
                    SharersAhead& sharers);
  bool Reached(const WaitFor& wait_for) const {
    return wait_for.count == 0 || records_[wait_for.slot].reached >= wait_for.count;
  }
  bool PassesRecord(std::uint32_t stream, const Item& item);
  void ReachRecord(std::uint32_t slot);
  // The operation or collective at which it is has ended.
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
  // A stream stands at the item until its host has issued it.
  void HoldUp(std::uint32_t pass, const Item& item, Time issued);
  // Whether it matters for what is issued there how far the host was ahead before.
  bool HostMatters(std::uint32_t pass, Index instruction) const;
  void ReachCommunicator(std::uint32_t stream, const Item& item);
  void TakeTurn(std::uint32_t communicator);
  std::uint32_t NumberOf(const Item& item, std::uint32_t pass) const;

  // Work. True if it takes no time and is over.
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
  // An operation of this cost beside what shares now.
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
  Couplings* couplings_ = nullptr;
  program::Timeline* timeline_ = nullptr;
  std::uint32_t index_ = 0, first_activity_ = 0;
  std::uint32_t passes_ = 0;  // the prologue and the steps
  std::uint32_t first_recorded_pass_ = 1;
  bool barrier_ = false, watch_passes_ = false;
  bool record_all_ = false;
  const std::vector<bool>* marked_ = nullptr;
  bool records_operations_ = false;  // all or marked ones, and when memory changes

  Time now_;
  Time until_;
  std::uint32_t attachments_ = 0;  // collectives with other classes that it is at
  std::uint32_t joined_ = 0;       // ... of which so many use resources right now

  // The host.
  bool host_waits_ = false;
  std::uint32_t open_passes_ = 0;  // so many may be issued
  std::uint32_t host_pass_ = 0;
  std::uint32_t host_span_ = 0;  // the next to begin
  Time host_clock_;
  WaitFor host_wait_for_;
  std::uint32_t step_spans_ = 0;
  std::vector<Time> span_begins_;  // as far as known: the prologue's, then step by step
  std::vector<program::OperationRecord> tasks_;
  std::vector<program::WaitRecord> host_waits_recorded_;

  std::vector<Stream> streams_;
  std::vector<Communicator> communicators_;
  std::vector<InFlight> in_flight_;             // by runner
  std::vector<Time> next_;                      // by runner: when it has something to do next
  std::vector<RecordState> records_;            // by slot
  std::vector<std::vector<Time>> launch_ends_;  // by record of launches: when each time
  std::vector<std::uint32_t> ready_;            // queue
  std::size_t drained_ = 0;                     // so many of `ready_`

  std::vector<Runner> sharers_;
  ConcurrentSets::Set set_ = ConcurrentSets::kEmpty;  // theirs
  bool unsettled_ = false;
  std::vector<Beside> beside_;  // by cost

  std::vector<std::uint32_t> streams_in_pass_;  // by pass: those that have not ended it
  std::uint32_t ended_ = 0;
  Time prologue_end_;
  Time held_up_by_issue_;
  HostInfluence host_influence_;
  // By pass: the first event behind the part that is looked at that the host waited for; kNone:
  // none so far.
  std::vector<Index> set_back_;
};

}  // namespace stepcast::simulate
