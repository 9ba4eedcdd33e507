#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/cost/prices.h"
#include "src/network/collective_traffic.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "tl/expected.hpp"

// Runs step programs on a modelled cluster in virtual time.
//
// The model
//   Host      Issues the instructions in host order: first the prologue, then the step again and
//             again, without a pause in between. An issue takes the host time that the prices say;
//             a host task its duration; events and memory nothing. It runs ahead of the device
//             by as many launches as a stream's queue holds (compiled_program.h), where a launch
//             takes time; kHostWaitEvent makes it wait.
//   Stream    Runs what is issued on it in order, one at a time, and nothing before it is issued.
//   Operation A kernel or copy starts when its stream lets it go. First its latency passes, which
//             uses nothing; then its work is done at the rate that is left for it, as operations of
//             the same rank share compute, memory and links (engine/shared_resources.h).
//             Undisturbed it takes exactly latency + work.
//   Collective  Starts when its communicator has finished those before it in host order and every
//             member has reached it. It goes on at one rate for all its members, the slowest
//             member's, and ends for all at the same time. Where members' prices differ, the
//             longest latency and the longest work count.
//             Options::traffic puts collectives on links, too, where those of different ranks
//             meet. As flows they share links like everything else. Message by message, a network
//             of messages (network/message.h) carries them: a rank's shares of links then count
//             for nothing, those of compute and memory as ever, and the collective ends when its
//             work is done and its last message has arrived.
//   Exchange  Takes its turn on its communicator like a collective. Each of its messages starts
//             when the exchange of the other end, the k-th receive for the k-th send, has been
//             reached, too, and then goes on at one rate for its two ends, with the longer of their
//             latencies and works. Its record starts when its last message does, and ends when all
//             have ended.
//   Waiting   What has reached a collective or an exchange and waits for others holds the
//             multiprocessors that it will run on: NCCL's kernels spin there until their peers come.
//             Among the same ranks one of them does at a time. As messages do, it shares them with
//             what takes turns there; a collective that runs does not (cost::Occupancy).
//   Step end  When everything that was issued in the step has finished, the host's part included.
//
// Detached and attached
//   A class of ranks that no collective ties to another class at the moment runs ahead by itself to
//   where it next reaches one (class_run.h); classes that are tied advance together, in the order
//   of time (simulation.h). Nothing that is seen depends on how far a class may run ahead.
namespace stepcast::simulate {

// Ranks that run the same program under equivalent surroundings: simulated once.
struct RankClass {
  const program::Program* program = nullptr;
  const cost::Prices* prices = nullptr;
  int representative = 0;  // the lowest of its global ranks
  // All its ranks, ascending: in which class the peers of exchanges are. Empty: the representative,
  // and the peers of its own exchanges that are in no class.
  std::span<const int> ranks{};
  // Its process groups, where they are others than the program's.
  const std::vector<program::ProcessGroup>* groups = nullptr;
  bool records = true;  // false: its timeline has step ends alone
  // Recording::kMarked: the operations, by instruction of the step, that are recorded.
  const std::vector<bool>* marked = nullptr;
  // Instructions [begin, end) of the step: HostInfluence is of what is issued behind `begin`. At
  // first: of everything.
  struct Part {
    program::Index begin = 0, end = 0;
  } looked_at{};
};

// Contents of timelines beside the ends of steps.
enum class Recording : std::uint8_t {
  kAll,
  kMarked,  // marked operations, and when memory changes
  kNone,
};

struct Options {
  int steps = 1;         // how often Program::step is issued after the prologue; at least 1
  bool barrier = false;  // every rank waits for all work of a step before the next is issued
  Recording recording = Recording::kAll;
  int first_recorded = 0;  // nothing of the steps before it is recorded but their ends
  // Ends the run when a step has ended in the same state as the one before it (Repetition): what
  // would come is known. The ends of later steps are filled in; what is in flight then, and would
  // have been recorded, is recorded as if it went on for ever (its end, and the start of a
  // collective that waits, are Time::Max()). Without effect with a barrier, or message by message.
  bool until_repetition = false;
  // Goes through the last part of the first step only, as if all before it were over
  // (class_run.h): that is enough to find out in which state a step leaves everything. Nothing of
  // the first step is recorded but its end. Without effect unless `until_repetition` has one, and
  // where no such part is found.
  bool late_start = false;
  // How collectives go over the links between ranks; null: they only use what is their ranks' own.
  const network::CollectiveTraffic* traffic = nullptr;
  // Whether detached classes run ahead. For tests: it shows in nothing but speed.
  bool run_ahead = true;
};

// All steps after `step` repeat it: their operations and waits are at the same distances from the
// step's end as this one's.
struct Repetition {
  int step = 0;
  Time start;  // of its interval: the end of the step before it, or of the prologue
  // So are what hosts do, and changes of memory. Else a host runs ahead further in each step, which
  // nothing on the device ever notices.
  bool host = true;
};

// In a run, until when it mattered how far a host was ahead of its device behind the part of a step
// that is looked at (RankClass::looked_at). An event behind that part, in the same step, that the
// host waited for sets it back to its device: what is issued from there on, up to that part of the
// next step, does not count.
struct HostInfluence {
  Time held_up_by_issue;  // something on the device began when its host had issued it
  // The host waited for room in the queue of a stream, which it looks at before each block of
  // launches (compiled_program.h).
  Time waited_for_room;
};

// Operations were left and no event could happen: one sentence for each blocked stream or host,
// naming the rank, the operation and what it waits for.
struct Deadlock {
  std::vector<std::string> blocked;
};

// Classes meet in the communicators whose name and rank list they have in common: the k-th
// collective of each member is the same one and starts when all have reached it. Members that
// disagree about it (kind, bytes, type) are a deadlock that names both. A class whose
// representative is in the rank list but has no such communicator is a member that never comes.
// Messages go between the classes of the two ranks, on communicators of one name; positions are
// those in the group that the representative itself is in (the layout's, where there is one). Where
// a class stands for several positions of a group that peers name by position, one of each class of
// messages is shared with the peer, and the others have its rate. Times are exact and
// deterministic: same input, same records. Programs must be free of wrong indices (Validate), and
// prices have an entry for each entry of their program's tables.
//
// One timeline for each class, in their order. The prologue takes its time but leaves no records.
tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options);

class Simulation;

// The same, run after run in the same memory: for simulating many programs. Not to be used by two
// threads at once.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // The timelines stay as they are until the next run.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  // The last run's classes, whose programs and prices are as they were, once more. Which of them
  // record may differ.
  tl::expected<std::span<const program::Timeline>, Deadlock> RunAgain(const Options& options);
  // Those of the last run, for good.
  std::vector<program::Timeline> Take();
  // How the last run ended; null: it was not cut short.
  const Repetition* repetition() const;
  // Of a class in the last run.
  HostInfluence host_influence(std::size_t rank_class) const;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace stepcast::simulate
