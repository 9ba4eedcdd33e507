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
//             without a pause. An issue takes the host time of its price, and a host task takes its
//             duration. Events and memory take no time. kHostWaitEvent makes the host wait. If
//             launches take time, the host can be ahead of the device by at most the number of
//             launches that fit into a stream's queue (compiled_program.h).
//   Stream    Runs its operations in order, one at a time, each after its issue.
//   Operation A kernel or copy starts when it is first on its stream. The latency comes first
//             and uses no resources. Then the operation's work proceeds at the available rate,
//             because operations of the same rank share compute, memory and links
//             (engine/shared_resources.h).
//             An uncontended operation takes exactly latency + work.
//   Collective  Starts when its communicator has finished all earlier collectives and exchanges,
//             and every member has reached it. All members proceed at the rate of the slowest
//             member and end at the same time. If members' prices differ, the longest latency and
//             the longest work are used.
//             With Options::traffic, collectives of different ranks also share the cluster's
//             links. Flows share links like all other resources. If messages are simulated one by
//             one, a network of messages (network/message.h) transfers the data. A rank's shares
//             of links are then ignored, and its shares of compute and memory still apply. The
//             collective ends when its work is done and its last message has arrived.
//   Exchange  Runs in host order on its communicator, like a collective. Each message of the
//             exchange starts when both ends have been reached; the k-th receive matches the k-th
//             send. A message has one rate, and the longer of its ends' latencies and works. The
//             exchange's record starts with its last message, and ends when all its messages have
//             ended.
//   Waiting   A collective or exchange that waits for peers occupies the multiprocessors on which
//             it will run, because NCCL's kernels spin until their peers arrive. Among the same
//             ranks, only one waiting operation occupies multiprocessors. Waiting operations and
//             messages share their multiprocessors with kernels whose blocks take turns
//             (cost::Occupancy). A running collective does not share its multiprocessors.
//   Step end  The time when all work issued in the step, including host tasks, has finished.
//
// Detached and attached
//   A class of ranks without a pending collective with another class runs ahead (detached) until
//   it reaches a collective with another class (simulated_class.h). Attached classes advance
//   together, in the order of time (simulation.h). Results do not depend on how far a class runs
//   ahead.
namespace stepcast::simulate {

using cost::RankClass;

// The records that timelines contain in addition to step ends.
enum class Recording : std::uint8_t {
  kAll,
  kMarked,  // marked operations, and memory changes
  kNone,
};

struct Options {
  int steps = 1;         // number of times that Program::step is issued after the prologue
  bool barrier = false;  // all ranks finish a step before the next is issued
  Recording recording = Recording::kAll;
  int first_recorded = 0;  // first step with records; earlier steps have only their ends
  // Whether the run ends when a step ends in the same state as the previous step, because all later
  // steps then repeat this step (Repetition). The timeline contains the ends of the later steps.
  // For operations in flight, the recorded end, and the start of a waiting collective, are
  // Time::Max(). Ignored with a barrier, or if messages are simulated one by one.
  bool until_repetition = false;
  // Whether the simulation begins in the middle of the first step, as if the earlier part had
  // finished (simulated_class.h). The later part determines the state at the end of the step, and
  // is the only part of the first step that is recorded. Ignored without `until_repetition`, or if
  // the step cannot be divided in this way.
  bool late_start = false;
  // The routes of collectives on links between ranks. Null: collectives use only the resources of
  // their ranks.
  const network::CollectiveTraffic* traffic = nullptr;
  // Whether detached classes run ahead. Affects only speed; for tests.
  bool run_ahead = true;
};

// A run in which all steps after `step` repeat `step`: relative to the end of the step, operations
// and waits have the same times.
struct Repetition {
  int step = 0;
  Time start;  // start of the step's interval: the end of the previous step or of the prologue
  // Whether host activity and memory changes also repeat. If false, the host is further ahead in
  // each step, which does not affect the device.
  bool host = true;
};

// The last times in a run at which the device waited for the host, or the host for a full queue.
// Only instructions after the examined part of a step are considered (RankClass::looked_at), up to
// the first host wait for an event, which resets the host's lead over the device.
struct HostInfluence {
  Time held_up_by_issue;  // last time at which a device operation waited for its issue
  // The last time at which the host waited because a stream's queue was full. The host checks the
  // queue before each block of launches (compiled_program.h).
  Time waited_for_room;
};

// Why a run stopped with unfinished operations: one sentence per blocked stream or host, with the
// rank, the operation, and the event or peer for which it waits.
struct Deadlock {
  std::vector<std::string> blocked;
};

// Simulates the classes. Returns one timeline per class, in order. The prologue takes time but
// leaves no records. Times are exact and deterministic. Programs must have valid indices
// (Validate), and prices must cover every entry of their program's tables.
//
// Classes share communicators with equal names and rank lists. The k-th collectives of all members
// are one collective, which starts when all members have reached it. If kind, bytes or type differ
// between members, the result is a deadlock with both descriptions. If a class's representative is
// in the rank list without the communicator, the collective never starts.
//
// A message has two ends, one in the class of the sender and one in the class of the receiver, on
// communicators of the same name. Peers are positions in the group of the class's representative
// (or in the layout's group). If the ranks of a class have several positions in a group, only one
// message of the class is matched with a message of the peer's class. The other messages of the
// class proceed at the same rate.
tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options);

class Simulation;

// Simulates like the function Simulate, but reuses its memory in later runs. Not thread-safe.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // Runs the classes. The returned timelines stay valid until the next run.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  // Repeats the last run with the same classes. Programs and prices must not have changed; the set
  // of recorded classes may have changed.
  tl::expected<std::span<const program::Timeline>, Deadlock> RunAgain(const Options& options);
  // Moves the timelines of the last run out of the simulator and returns them.
  std::vector<program::Timeline> Take();
  // Returns the repetition at which the last run ended early, or null if it did not end early.
  const Repetition* repetition() const;
  // Returns how the host influenced a class in the last run.
  HostInfluence host_influence(std::size_t rank_class) const;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace stepcast::simulate
