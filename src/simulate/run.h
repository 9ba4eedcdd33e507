#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/engine/event_queue.h"
#include "src/engine/shared_resources.h"
#include "src/network/carriage.h"
#include "src/network/message.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/schedule.h"
#include "src/simulate/simulate.h"
#include "tl/expected.hpp"

// What a run consists of: hosts, streams, rendezvous of collectives, and the events between them.
// simulate.h says what the rules are.
namespace stepcast::simulate {

using engine::SharedResources;
using program::OperationRecord;
using program::Timeline;

// Whoever has work under way: the streams of all classes, then the rendezvous. The same number is
// the activity's in the engine.
using Runner = std::uint32_t;

// An event is four bytes: the runner, and what happens to it.
enum class EventKind : std::uint32_t {
  kLook,       // something in the stream's queue has been issued by now
  kBeginWork,  // the latency is over
  kEnd,        // the work is done, unless its end has moved
  kMessages,   // something happens on the network of messages
};
class Event {
 public:
  Event(Runner runner, EventKind kind) : bits_(runner << 2 | static_cast<std::uint32_t>(kind)) {}
  Runner runner() const { return bits_ >> 2; }
  EventKind kind() const { return static_cast<EventKind>(bits_ & 3); }

 private:
  std::uint32_t bits_;
};

struct Work {
  Time amount;
  std::span<const SharedResources::Use> uses;
  std::uint32_t first_resource = 0;  // from which `uses` count
  Time end;
  // The earliest event in the queue that still counts. An end that moves to an earlier time gets a
  // new event; one that moves to a later time gets it when the old event comes out. Events at other
  // times than this are left over and mean nothing.
  Time next_event;
  bool running = false;
  bool shares = false;  // in the engine's hands
};

enum class StreamState : std::uint8_t {
  kReady,         // to be looked at
  kLooksLater,    // its next item will have been issued then
  kAwaitsHost,    // its next item's issue time is not known: the host is held up
  kAwaitsRecord,  // stands at a wait
  kAtCollective,  // waits for its communicator or its partners
  kRuns,
  kDone,
};

struct StreamRun {
  std::uint32_t rank_class = 0;
  std::uint32_t stream = 0;  // in its program
  std::uint32_t item = 0;
  std::uint32_t pass = 0;  // 0: the prologue; s + 1: step s
  StreamState state = StreamState::kReady;
  bool listed = false;  // in `ready_`
  Time issued;          // of the operation under way or at its communicator
  Time ready;           // ... and when it was let go; when a wait was reached
  Time start;
  WaitFor wait_for;
  std::uint32_t next_waiting = kNone;  // another stream that waits for the same
};

enum class HostState : std::uint8_t { kRuns, kAwaitsRecord, kAtBarrier, kDone };

struct ClassRun {
  const Schedule* schedule = nullptr;
  std::uint32_t first_stream = 0;
  std::uint32_t first_record = 0;        // in `reached_`, `waiting_`
  std::uint32_t first_communicator = 0;  // in `rendezvous_of_`
  std::uint32_t streams_waiting_for_host = 0;
  // The host.
  HostState host_state = HostState::kRuns;
  std::uint32_t pass = 0;
  std::uint32_t segment = 0;  // the next to begin
  Time clock;
  WaitFor wait_for;
  std::vector<Time> segment_begins;  // as far as known: the prologue's, then step by step
  // Host tasks, which are known early; merged into the timeline at the end.
  std::vector<OperationRecord> tasks;
};

// The members of a communicator, one for each class.
struct Member {
  std::uint32_t rank_class = 0;
  std::uint32_t communicator = 0;  // in its program
  std::uint32_t arrived = kNone;   // the stream that has reached the current collective
  std::uint32_t early = kNone;     // streams that have reached later ones
};

struct Rendezvous {
  std::vector<Member> members;
  std::vector<std::uint32_t> absent;  // classes that should be members and are not
  std::uint32_t arrived = 0;
  std::uint32_t current = 0;  // how many collectives have finished
  // Of the current collective, when members' prices have to be brought together.
  std::vector<SharedResources::Use> uses;
  // Those that go message by message: their numbers in the carriage, ascending.
  std::vector<std::uint32_t> calls;
  // What the current one still waits for: its work, its messages.
  std::uint32_t open = 0;
};

class ProgramRun {
 public:
  // One timeline for each class; they stay as they are until the next run, or until taken.
  tl::expected<std::span<const Timeline>, Deadlock> Go(std::span<const RankClass> classes,
                                                       const Options& options);
  std::vector<Timeline> Take() { return std::move(timelines_); }

 private:
  void SetUp();
  void MakeSchedules();
  void LinkCommunicators();
  void FindAbsentMembers();
  void SetUpMessages();

  // The host.
  void AdvanceHost(std::uint32_t c);
  void BeginSegment(std::uint32_t c);
  void WakeStreamsOf(std::uint32_t c);
  void EndPass(std::uint32_t c, std::uint32_t pass, Time end);
  void OpenBarrier();

  // Streams.
  void List(std::uint32_t stream);
  void LookAtListed();
  void Look(std::uint32_t stream);
  bool NothingHappensUntil(Time time);
  bool PassesRecord(StreamRun& run, const ClassRun& owner, const Item& item);
  void ReachRecord(std::uint32_t c, std::uint32_t slot);
  void Complete(std::uint32_t stream);
  void NextItem(StreamRun& run);

  // Operations and collectives.
  bool Start(Runner runner, Time start, const Cost& cost,
             std::span<const SharedResources::Use> uses, std::uint32_t first_resource);
  void BeginWork(Runner runner);
  void Settle();
  void WorkEnds(Runner runner);
  void ReachCollective(std::uint32_t stream, const Item& item);
  void StartCollective(std::uint32_t rendezvous);
  std::uint32_t CarriedAs(const Member& member) const;
  void SendMessages(std::uint32_t rendezvous, std::uint32_t number);
  void AwaitMessages();
  void MessagesHappen();
  // The current collective's work is done, or its messages have arrived.
  void PartEnds(std::uint32_t rendezvous);
  void CompleteCollective(std::uint32_t rendezvous);
  bool SameCollective(std::uint32_t one, std::uint32_t other) const;
  // What the stream stands at or runs.
  const program::Collective& CollectiveAt(const StreamRun& run) const;

  // Records.
  bool Recorded(std::uint32_t c, std::uint32_t pass) const {
    return pass > static_cast<std::uint32_t>(options_.first_recorded_step) && classes_[c].records;
  }
  void FinishTimelines();
  void RecordWhatIsUnderWay();

  // What went wrong.
  Deadlock Explain() const;
  void ExplainHost(std::uint32_t c, Deadlock& deadlock) const;
  void ExplainStream(const StreamRun& run, Deadlock& deadlock) const;
  void ExplainCollective(const StreamRun& run, const std::string& who, Deadlock& deadlock) const;
  std::string RecordText(std::uint32_t c, WaitFor wait_for) const;
  static std::string SpecText(const program::Collective& collective);

  const Schedule& ScheduleOf(std::uint32_t c) const { return *runs_[c].schedule; }
  const Schedule& ScheduleOf(const StreamRun& run) const { return ScheduleOf(run.rank_class); }
  const program::Program& ProgramOf(std::uint32_t c) const { return *classes_[c].program; }
  const std::vector<int>& RanksOf(const Member& member) const {
    const program::Program& program = ProgramOf(member.rank_class);
    const auto* groups = classes_[member.rank_class].groups;
    const program::Index group = program.communicators[member.communicator].group;
    return (groups == nullptr ? program.groups : *groups)[group].ranks;
  }
  const program::Instruction& InstructionAt(std::uint32_t c, std::uint32_t pass,
                                            Index instruction) const {
    const program::Program& program = ProgramOf(c);
    return pass == 0 ? program.prologue[instruction] : program.step[instruction];
  }
  std::uint32_t StreamCount() const { return static_cast<std::uint32_t>(streams_.size()); }

  std::span<const RankClass> classes_;
  Options options_;
  std::uint32_t passes_ = 0;  // the prologue and the steps
  Time now_;
  std::uint32_t unfinished_ = 0;  // streams and hosts
  std::uint32_t pending_ = 0;     // streams and hosts that have not ended the pass (barrier)
  // cut_last_step: those of the first class that have not ended the step before the last.
  std::uint32_t before_cut_ = 0;

  engine::EventQueue<Event> events_;
  SharedResources resources_;
  // One for all classes that run the same program at the same prices: hundreds of ranks then go
  // through the same lines of the cache.
  std::vector<Schedule> schedules_;
  std::vector<ClassRun> runs_;
  std::vector<StreamRun> streams_;
  std::vector<Work> work_;              // by runner
  std::vector<std::uint32_t> reached_;  // by record: how often
  std::vector<std::uint32_t> waiting_;  // by record: the first stream that waits for it
  std::vector<Rendezvous> rendezvous_;
  std::size_t rendezvous_count_ = 0;
  std::vector<std::uint32_t> rendezvous_of_;  // by class and communicator
  std::vector<std::uint32_t> ready_;
  std::size_t looked_at_ = 0;                          // so many of `ready_`
  std::unique_ptr<network::MessageNetwork> messages_;  // none: nothing goes message by message
  Time messages_awaited_;                              // the earliest of their events that counts
  std::vector<std::uint32_t> ended_;                   // rendezvous whose messages have arrived
  std::vector<Timeline> timelines_;
};

}  // namespace stepcast::simulate
