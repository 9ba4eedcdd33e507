#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/engine/event_queue.h"
#include "src/engine/shared_resources.h"
#include "src/network/message.h"
#include "src/simulate/class_run.h"
#include "src/simulate/compiled_program.h"
#include "src/simulate/concurrent_sets.h"
#include "src/simulate/simulate.h"

// A run of several classes of ranks: what happens between them. Detached classes go first, each as
// far as it can by itself; then the earliest of what attached classes, rendezvous and messages have
// to do. Operations of classes that a collective joins have their rates from one solver.
namespace stepcast::simulate {

class Simulation final : public Couplings {
 public:
  // One timeline for each class; they stay as they are until the next run, or until taken.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  std::vector<program::Timeline> Take() { return std::move(timelines_); }
  const Repetition* repetition() const { return repetition_ ? &*repetition_ : nullptr; }

  void Arrive(std::uint32_t rendezvous, ClassRun& rank_class) override;
  engine::SharedResources& joint_resources() override { return joint_; }

 private:
  // An event is four bytes: whose it is, and of which kind.
  enum class EventKind : std::uint32_t { kClass, kRendezvous, kMessages };
  class Event {
   public:
    Event(std::uint32_t owner, EventKind kind)
        : bits_(owner << 2 | static_cast<std::uint32_t>(kind)) {}
    std::uint32_t owner() const { return bits_ >> 2; }
    EventKind kind() const { return static_cast<EventKind>(bits_ & 3); }

   private:
    std::uint32_t bits_;
  };

  // The members of a communicator, one for each class.
  struct Member {
    std::uint32_t rank_class = 0;
    std::uint32_t communicator = 0;  // in its program
  };
  enum class Stage : std::uint8_t { kArriving, kComplete, kLatency, kShares, kFixed };
  struct Rendezvous {
    std::vector<Member> members;
    std::vector<std::uint32_t> absent;  // classes that should be members and are not
    std::uint32_t arrived = 0;
    Time last_arrival;
    Stage stage = Stage::kArriving;
    Time next = Time::Max();  // kComplete: it starts; else as an operation
    Time work;
    std::vector<engine::SharedResources::Use> uses;
    // Those that go message by message: their numbers in the carriage, ascending.
    std::vector<std::uint32_t> calls;
    // What the current one still waits for: its work, its messages.
    std::uint32_t open = 0;
  };
  // All that decides what comes, at the end of a pass.
  struct State {
    std::uint32_t ended = 0;  // passes; 0: this is no state
    Time time;
    Time end;  // of the pass
    std::vector<ClassRun::State> classes;
    std::vector<std::int64_t> rendezvous;
  };

  void SetUp();
  void Compile();
  void LinkCommunicators();
  void FindAbsentMembers();
  void SetUpMessages();

  // Where a class goes on: by itself, or in the order of time.
  void Follow(std::uint32_t c);
  void QueueClass(std::uint32_t c, Time next);
  void RunDetached();
  void OnClass(std::uint32_t c);
  // The next event of anything, and no later than where a pass that has ended is looked at.
  Time NextEvent() const;
  bool Held(const ClassRun& rank_class) const {
    return watch_passes_ && rank_class.ended() > watched_;
  }

  // The end of a pass, once all classes have come to it. True: the run is over.
  bool AllHaveEnded() const;
  bool OnPassEnd();
  bool Repeats();
  void TakeState(State& state);

  void SettleJoint();
  void QueueRendezvous(std::uint32_t r);
  void OnRendezvous(std::uint32_t r);
  void StartCollective(std::uint32_t r);
  void BeginWork(std::uint32_t r);
  // The current collective's work is done, or its messages have arrived.
  void PartEnds(std::uint32_t r);
  void EndCollective(std::uint32_t r);
  const program::Collective& CollectiveOf(const Member& member) const {
    return classes_[member.rank_class].CollectiveAt(member.communicator);
  }
  static bool SameCollective(const program::Collective& a, const program::Collective& b);
  const Cost& CostOf(const Member& member) const {
    const ClassRun& run = classes_[member.rank_class];
    return run.compiled().collective_costs[run.TargetAt(member.communicator)];
  }

  // Which of the carriage's collectives the member has reached.
  std::uint32_t CarriedAs(const Member& member) const;
  void SendMessages(std::uint32_t r, std::uint32_t number);
  void AwaitMessages();
  void OnMessages();

  void FinishTimelines(bool cut);
  Deadlock Explain() const;
  void ExplainStream(const ClassRun& run, const ClassRun::Stream& stream, Deadlock& deadlock) const;
  void ExplainCollective(const ClassRun& run, const ClassRun::Stream& stream,
                         const std::string& subject, Deadlock& deadlock) const;

  std::span<const RankClass> given_;
  Options options_;
  bool watch_passes_ = false;
  std::uint32_t passes_ = 0;   // the prologue and the steps
  std::uint32_t watched_ = 0;  // so many pass ends have been looked at
  Time now_;

  ConcurrentSets sets_;
  // One for all classes that run the same program at the same prices: hundreds of ranks then go
  // through the same lines of the cache.
  std::deque<CompiledProgram> compiled_;
  std::vector<std::uint32_t> compiled_of_;  // by class
  std::deque<ClassRun> classes_;
  std::vector<program::Timeline> timelines_;
  std::vector<std::uint32_t> detached_;  // that have not run yet
  std::vector<bool> is_detached_;        // by class: whether it is one of them
  std::vector<Time> queued_;             // by class: the earliest of its events that counts

  engine::EventQueue<Event> events_;
  engine::SharedResources joint_;
  std::vector<std::uint32_t> class_of_activity_;
  std::vector<Rendezvous> rendezvous_;
  std::size_t rendezvous_count_ = 0;
  std::vector<std::uint32_t> rendezvous_of_;           // by class and communicator
  std::unique_ptr<network::MessageNetwork> messages_;  // none: nothing goes message by message
  Time messages_awaited_;                              // the earliest of their events that counts
  std::vector<std::uint32_t> arrived_;                 // rendezvous whose messages have arrived

  State state_, state_before_;
  std::optional<Repetition> repetition_;
};

}  // namespace stepcast::simulate
