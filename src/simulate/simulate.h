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

// Runs step programs on a modeled cluster in virtual time.
//
// The model
//   Host      Issues the instructions in host order: the prologue once, then the step repeatedly
//             without a pause. An issue takes the host time of its price, and a host task its
//             duration; events and memory take no time. kHostWaitEvent makes the host wait. If
//             launches take time, the host runs at most as many launches ahead of the device as
//             fit into a stream's queue (compiled_program.h).
//   Stream    Runs its operations in order, one at a time, each after its issue.
//   Operation A kernel or copy starts when it is first on its stream. Its latency passes first and
//             uses no resources. Then its work proceeds at the available rate, because operations
//             of the same rank share compute, memory and links (engine/shared_resources.h).
//             An uncontended operation takes exactly latency + work.
//   Collective  Starts when its communicator has finished the earlier ones in host order and every
//             member has reached it. All members proceed at one rate, the slowest member's, and
//             end at the same time. If members' prices differ, the longest latency and the longest
//             work are used.
//             With Options::traffic, collectives of different ranks also share the cluster's
//             links. Flows share links like all other resources. If messages are simulated one by
//             one, a network of messages (network/message.h) transfers the data: a rank's shares
//             of links are then ignored, and its shares of compute and memory still apply. The
//             collective ends when its work is done and its last message has arrived.
//   Exchange  Takes its turn on its communicator like a collective. Each of its messages starts
//             when the exchange of the other end has also been reached; the k-th receive matches
//             the k-th send. A message proceeds at one rate for both ends, with the longer of
//             their latencies and works. The exchange's record starts with its last message, and
//             ends when all its messages have ended.
//   Waiting   A collective or exchange that waits for peers holds the multiprocessors on which it
//             will run, because NCCL's kernels spin until their peers arrive. Among the same ranks
//             only one operation holds at a time. A waiting operation, like a message, shares its
//             multiprocessors with kernels whose blocks take turns (cost::Occupancy); a running
//             collective does not share.
//   Step end  The time when everything issued in the step has finished, including host tasks.
//
// Detached and attached
//   A class of ranks without a pending collective with another class runs ahead by itself
//   (detached) until it reaches such a collective (simulated_class.h). Attached classes advance together,
//   in the order of time (simulation.h). Results do not depend on how far a class runs ahead.
namespace stepcast::simulate {

using cost::RankClass;

// The data that timelines contain in addition to step ends.
enum class Recording : std::uint8_t {
  kAll,
  kMarked,  // marked operations, and memory changes
  kNone,
};

struct Options {
  int steps = 1;         // number of times that Program::step is issued after the prologue
  bool barrier = false;  // all ranks finish a step before the next is issued
  Recording recording = Recording::kAll;
  int first_recorded = 0;  // of earlier steps only the end is recorded
  // Whether the run ends when a step ends in the same state as the step before it (Repetition),
  // because the rest is then known. The ends of later steps are filled in. Operations in flight
  // that would have been recorded are recorded as endless: their end, and the start of a waiting
  // collective, are Time::Max(). Ignored with a barrier, or if messages are simulated one by one.
  bool until_repetition = false;
  // Whether only the last part of the first step runs, as if the earlier part had finished
  // (simulated_class.h). The last part determines the state at the end of the step. Only this part
  // of the first step is recorded. Ignored without `until_repetition`, or if no such part is found.
  bool late_start = false;
  // The routes of collectives on links between ranks. Null: collectives use only the resources of
  // their ranks.
  const network::CollectiveTraffic* traffic = nullptr;
  // Whether detached classes run ahead. For tests; it affects only speed.
  bool run_ahead = true;
};

// States that all steps after `step` repeat it. The times of their operations and waits, relative
// to the end of each step, are the same.
struct Repetition {
  int step = 0;
  Time start;  // start of the step's interval: the end of the previous step or of the prologue
  // Whether host activity and memory changes also repeat. If not, the host runs further ahead in
  // each step. This never affects the device.
  bool host = true;
};

// The last times in a run at which the host's lead over its device mattered. Only instructions
// after the examined part of a step count (RankClass::looked_at). If the host waits for an event
// after that part, in the same step, its lead is reset. Instructions from there to the examined
// part of the next step are then ignored.
struct HostInfluence {
  Time held_up_by_issue;  // last time at which an operation on the device waited for its issue
  // The last time at which the host waited because a stream's queue was full. The host checks the
  // queue before each block of launches (compiled_program.h).
  Time waited_for_room;
};

// The reason why a run stopped with unfinished operations. There is one sentence for each blocked
// stream or host. It names the rank, the operation, and the event or peer for which the operation
// waits.
struct Deadlock {
  std::vector<std::string> blocked;
};

// Simulates the classes. Returns one timeline per class, in order. The prologue takes time but
// leaves no records. Times are exact and deterministic. Programs must have valid indices
// (Validate), and prices must cover every entry of their program's tables.
//
// Classes share the communicators with equal names and rank lists. The k-th collectives of all
// members are one collective, which starts when all members have reached it. If members disagree
// about it (kind, bytes, type), the result is a deadlock that names both. A class whose
// representative is in the rank list but does not have the communicator never arrives.
//
// A message connects the classes of its two ranks, on communicators of one name. Positions refer to
// the representative's own group (to the layout's, if there is one). A class may stand for several
// positions of a group that peers address. One message of each class is then shared with the peer,
// and the others proceed at the same rate.
tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options);

class Simulation;

// Like the function Simulate, but for many runs that reuse the same memory. Not thread-safe.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // Runs the classes. The returned timelines stay valid until the next run.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  // Repeats the last run with the same classes. Programs and prices must not have changed. The set
  // of recorded classes may differ.
  tl::expected<std::span<const program::Timeline>, Deadlock> RunAgain(const Options& options);
  // Returns the timelines of the last run and moves them out of the simulator.
  std::vector<program::Timeline> Take();
  // Returns how the last run ended early, or null if it did not end early.
  const Repetition* repetition() const;
  // Returns how the host influenced a class in the last run.
  HostInfluence host_influence(std::size_t rank_class) const;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace stepcast::simulate
