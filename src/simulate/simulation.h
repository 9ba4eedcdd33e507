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
#include "src/simulate/compiled_program.h"
#include "src/simulate/concurrent_sets.h"
#include "src/simulate/simulate.h"
#include "src/simulate/simulated_class.h"

// A run of several classes of ranks with their interactions. Detached classes run first, each until
// it depends on another class. Then events of attached classes, of joint collectives or transfers,
// and of messages are processed in order of time. One solver determines the rates of all operations
// of classes in a joint collective or transfer.
namespace stepcast::simulate {

class Simulation final : public OtherClasses {
 public:
  // Runs the classes and returns one timeline for each. The timelines are valid until the next run,
  // or until Take.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  // See Simulator.
  tl::expected<std::span<const program::Timeline>, Deadlock> RunAgain(const Options& options);
  std::vector<program::Timeline> Take() { return std::move(timelines_); }
  const Repetition* repetition() const { return repetition_ ? &*repetition_ : nullptr; }
  HostInfluence host_influence(std::size_t rank_class) const {
    return classes_[rank_class].host_influence();
  }

  void Arrive(std::uint32_t rendezvous, SimulatedClass& rank_class) override;
  void ArriveAtExchange(std::uint32_t communicator, SimulatedClass& rank_class) override;
  engine::SharedResources& joint_resources() override { return joint_; }

 private:
  // An event: its owner and its kind, in four bytes.
  enum class EventKind : std::uint32_t { kClass, kJoint, kMessages };
  class Event {
   public:
    Event(std::uint32_t owner, EventKind kind)
        : bits_(owner << 2 | static_cast<std::uint32_t>(kind)) {}
    std::uint32_t owner() const { return bits_ >> 2; }
    EventKind kind() const { return static_cast<EventKind>(bits_ & 3); }

   private:
    std::uint32_t bits_;
  };

  // The membership of a class in a communicator.
  struct Member {
    std::uint32_t rank_class = 0;
    std::uint32_t communicator = 0;  // index in the class's program
  };
  struct Rendezvous {
    std::vector<Member> members;
    std::vector<std::uint32_t> absent;  // classes in the rank list that do not have the
                                        // communicator
    std::uint32_t arrived = 0;
    Time last_arrival;
  };

  // The state of an endpoint of the compiled program: one class's side of the messages with a peer
  // in one direction.
  struct EndpointState {
    std::uint32_t rank_class = 0;
    // The matching endpoint in the peer's class. kNone: no such endpoint.
    std::uint32_t partner = kNone;
    bool mutual = false;  // the partner's partner is this endpoint
    int peer = 0;         // global rank
    // The endpoints of other ranks whose partner is this endpoint, except a mutual partner.
    std::vector<std::uint32_t> followers;
    std::uint32_t reached = 0;           // number of messages reached
    std::vector<Time> reached_at;        // times of these messages, if there are followers
    std::vector<std::uint32_t> waiting;  // places of messages that wait for their partner
  };
  // The state of a communicator of a class, and of its current exchange.
  struct ExchangeState {
    std::uint32_t first_place = 0;
    Time arrival{};
    std::uint32_t waiting = 0;  // number of messages that have not started
    std::uint32_t open = 0;     // number of messages that have not ended
    std::uint32_t held = 0;     // fraction of multiprocessors that waiting messages occupy
  };
  // The state of the i-th message of an exchange on a communicator of a class.
  struct Place {
    std::uint32_t rank_class = 0;
    std::uint32_t communicator = 0;
    std::uint32_t message = 0;         // index of the message in the compiled program
    std::uint32_t mismatched = kNone;  // place of the other end, if the two ends differ in bytes or
                                       // type
  };

  // The stage of a joint operation of several classes. Joint operations are numbered: first the
  // current collective of each rendezvous, then the messages between two classes, by sender.
  enum class Stage : std::uint8_t { kArriving, kComplete, kLatency, kShares, kFixed };
  struct Part {
    std::uint32_t rank_class = 0;
    const Cost* cost = nullptr;
  };
  struct Joint {
    Stage stage = Stage::kArriving;
    Time next = Time::Max();  // kComplete: start time; otherwise as SimulatedClass's next_
    Time work;
    std::vector<Part> parts;          // participating classes, while in flight
    std::vector<std::uint32_t> ends;  // one or two places of a message
    std::vector<engine::SharedResources::Use> uses;
    // If messages are simulated one by one: the indices in Options::traffic of all calls that this
    // joint operation may make, in ascending order.
    std::vector<std::uint32_t> calls;
    // The number of unfinished parts of the current call, which are its work and its messages.
    std::uint32_t open = 0;
  };
  // The state of the simulation at the end of a pass: all data that determines later events.
  struct State {
    std::uint32_t ended = 0;  // number of passes ended; 0: the state is invalid
    Time time;
    Time end;  // end of the pass
    std::vector<SimulatedClass::State> classes;
    std::vector<std::int64_t> joints;
  };

  tl::expected<std::span<const program::Timeline>, Deadlock> RunCompiled();
  void SetUp();
  void Compile();
  void LinkCommunicators();
  void FindAbsentMembers();
  void LinkEndpoints();
  void SetUpMessages();

  // Continues a class after its next event has changed.
  void Follow(std::uint32_t c) { Follow(c, classes_[c].next()); }
  void Follow(std::uint32_t c, Time next);
  void QueueClass(std::uint32_t c, Time next);
  void RunDetached();
  void OnClass(std::uint32_t c);
  // Returns the time of the next event or of the end of a watched pass, whichever is earlier.
  Time NextEvent();
  bool Held(const SimulatedClass& rank_class) const {
    return watch_passes_ && rank_class.ended() > watched_;
  }

  // Handles the end of a pass that all classes have reached. Returns true if the run is over.
  bool AllHaveEnded();
  bool OnPassEnd();
  bool Repeats();
  void TakeState(State& state);

  void SettleJoint();
  std::uint32_t ActivityOf(std::uint32_t joint) const {
    return static_cast<std::uint32_t>(class_of_activity_.size()) + joint;
  }
  void QueueJoint(std::uint32_t joint);
  void OnJoint(std::uint32_t joint);
  // Starts a joint operation whose parts are known. `number` is the operation's index in
  // Options::traffic.
  void Start(std::uint32_t joint, std::uint32_t number);
  void BeginWork(std::uint32_t joint);
  // Called when a part of a joint operation ends: its work is done, or its messages have arrived.
  void PartEnds(std::uint32_t joint);
  void End(std::uint32_t joint);
  void StartCollective(std::uint32_t r);
  void EndCollective(std::uint32_t r);
  const program::Collective& CollectiveOf(const Member& member) const {
    return classes_[member.rank_class].CollectiveAt(member.communicator);
  }
  static bool SameCollective(const program::Collective& a, const program::Collective& b);
  const Cost& CostOf(const Member& member) const {
    const SimulatedClass& run = classes_[member.rank_class];
    return run.compiled().collective_costs[run.TargetAt(member.communicator)];
  }

  // Exchanges.
  std::uint32_t EndpointAt(std::uint32_t place) const;
  const program::Message& MessageAt(std::uint32_t place) const;
  DataType TypeAt(std::uint32_t place) const;
  const ExchangeState& ExchangeAt(std::uint32_t place) const;
  bool Agree(std::uint32_t place, std::uint32_t other) const;
  void Reach(std::uint32_t place, Time now);
  void Match(std::uint32_t place, std::uint32_t other, Time start);
  void StartTransfer(std::uint32_t joint);
  void EndTransfer(std::uint32_t joint);
  void ExplainExchange(const SimulatedClass& run, std::uint32_t communicator,
                       const std::string& subject, Deadlock& deadlock) const;

  // Returns the index in Options::traffic of the collective that the member has reached.
  std::uint32_t TrafficNumberOf(const Member& member) const;
  void SendMessages(std::uint32_t joint, std::uint32_t number);
  void AwaitMessages();
  void OnMessages();

  // Finds the position of each class's late start. Returns false if a class has nothing left to run
  // in the step.
  bool FindLateStart();
  void ReachLateStart();  // processes the messages of the finished part

  void FinishTimelines(bool cut);
  Deadlock Explain() const;
  void ExplainStream(const SimulatedClass& run, const SimulatedClass::Stream& stream,
                     Deadlock& deadlock) const;
  void ExplainCollective(const SimulatedClass& run, const SimulatedClass::Stream& stream,
                         const std::string& subject, Deadlock& deadlock) const;

  std::span<const RankClass> given_;
  Options options_;
  bool watch_passes_ = false;
  bool starts_late_ = false;
  std::uint32_t passes_ = 0;   // the prologue and the steps
  std::uint32_t watched_ = 0;  // number of pass ends that have been handled
  std::uint32_t last_ = 0;     // a class that had not ended the pass at the last check
  Time now_;

  ConcurrentSets sets_;
  // The compiled programs. Classes with the same program and prices share one compiled program and
  // its cached data.
  std::deque<CompiledProgram> compiled_;
  BuildRoom build_room_;
  bool compiled_host_ = false;              // the compiled programs include host items
  std::vector<std::uint32_t> compiled_of_;  // [class]
  std::deque<SimulatedClass> classes_;
  std::vector<program::Timeline> timelines_;
  std::vector<std::uint32_t> detached_;  // classes that have not run yet
  std::vector<bool> is_detached_;        // [class]: whether the class is in detached_
  std::vector<Time> queued_;             // [class]: time of its earliest valid event

  engine::EventQueue<Event> events_;
  engine::SharedResources joint_;
  std::vector<std::uint32_t> class_of_activity_;
  std::vector<Rendezvous> rendezvous_;
  std::size_t rendezvous_count_ = 0;
  std::vector<std::uint32_t> first_communicator_;  // [class]: index of its first communicator in
                                                   // the next two arrays
  std::vector<std::uint32_t> rendezvous_of_;       // indexed by class and communicator
  std::vector<ExchangeState> exchanges_;           // indexed by class and communicator
  std::vector<std::uint32_t> first_endpoint_;      // [class]
  std::vector<EndpointState> endpoints_;
  std::size_t endpoint_count_ = 0;
  std::vector<StepPosition> late_starts_;  // [class]; empty without a late start
  std::vector<Place> places_;
  std::vector<Joint> joints_;
  std::size_t joint_count_ = 0;
  std::unique_ptr<network::MessageNetwork> messages_;  // null unless messages are simulated one by
                                                       // one
  Time messages_awaited_;                              // time of the network's earliest valid event
  std::vector<std::uint32_t> arrived_;                 // joints whose messages have arrived

  State state_, state_before_;
  std::optional<Repetition> repetition_;
};

}  // namespace stepcast::simulate
