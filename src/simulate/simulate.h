#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/cost/prices.h"
#include "src/network/carriage.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "tl/expected.hpp"

// Runs step programs on a modelled cluster in virtual time.
//
// The model
//   Host      Issues the instructions in host order: first the prologue, then the step again and
//             again, without a pause in between. An issue takes the host time that the prices say;
//             a host task its duration; events and memory nothing. It runs ahead of the device as
//             far as it likes; kHostWaitEvent alone makes it wait.
//   Stream    Runs what is issued on it in order, one at a time, and nothing before it is issued.
//   Operation A kernel or copy starts when its stream lets it go. First its latency passes, which
//             uses nothing; then its work is done at the rate that is left for it, as operations of
//             the same rank share compute, memory and links (engine/shared_resources.h).
//             Undisturbed it takes exactly latency + work.
//   Collective  Starts when its communicator has finished those before it in host order and every
//             member has reached it. It goes on at one rate for all its members, the slowest
//             member's, and ends for all at the same time. Where members' prices differ, the
//             longest latency and the longest work count.
//              Options::carriage puts collectives on links, too, where those of different ranks
//              meet. As flows they share links like everything else. Message by message, a network
//              of messages (network/message.h) carries them: a rank's shares of links then count
//              for nothing, those of compute and memory as ever, and the collective ends when its
//              work is done and its last message has arrived.
//   Step end  When everything that was issued in the step has finished, the host's part included.
namespace stepcast::simulate {

struct Schedule;

// Ranks that run the same program under equivalent surroundings: simulated once.
struct RankClass {
  const program::Program* program = nullptr;
  const cost::Prices* prices = nullptr;
  int representative = 0;  // the lowest of its global ranks
  // Its process groups, where they are others than the program's.
  const std::vector<program::ProcessGroup>* groups = nullptr;
  bool records = true;  // false: its timeline has step ends alone
  // What was built of `program` at `prices` (schedule.h), for those who have it; else it is built.
  const Schedule* schedule = nullptr;
};

enum class Records : std::uint8_t {
  kAll,
  // Kernels of one phase that a stream ran one after the other, with nothing that began or ended
  // meanwhile, are kept together (Simulator::rows).
  kRowsOfKernels,
  kNoKernels,  // neither kernels nor waits
  kEnds,       // nor of others more than when they ended (Simulator::ends)
  kStepEnds,   // nothing else
};

struct Options {
  int steps = 1;         // how often Program::step is issued after the prologue; at least 1
  bool barrier = false;  // every rank waits for all work of a step before the next is issued
  // The timelines have records of this step and later ones; `steps` or more: none, only step ends.
  int first_recorded_step = 0;
  // The last step runs only until the step before it has ended on the first class: long enough to
  // show what overlaps that one's end. What is under way then is recorded as if it went on for ever
  // (its end, and the start of a collective that waits, are Time::Max()), and the last of
  // step_ends means nothing. Requires two steps, and no barrier.
  bool cut_last_step = false;
  // The timelines have records of when memory changes.
  bool memory = true;
  // What else they have records of. Less than all only where one class runs by itself; without
  // effect elsewhere.
  Records records = Records::kAll;
  // Ends the run when a step has ended in the same state as the one before it (Repetition): what
  // would come is known. The ends of later steps are filled in, and what is under way is recorded
  // as above. The step that stands for the others is one that is recorded. With records of
  // kNoKernels or less, the run may end in that step: its records are complete, of later ones there
  // are any. Only where one class runs by itself; without effect elsewhere.
  bool until_repetition = false;
  // How collectives go over the links between ranks; null: they only use what is their ranks' own.
  const network::Carriage* carriage = nullptr;
};

// Kernels in a row. In their timeline they would be as many records, without a gap.
struct KernelRow {
  std::uint32_t step = 0;
  std::uint16_t stream = 0;
  program::Phase phase = program::Phase::kForward;
  Time start, end;
  // Which: for Simulator::Expand.
  std::uint32_t first = 0, count = 0, beside = 0;
};
// When an operation of a step ended.
struct EndRecord {
  program::Index instruction = program::kNone;
  std::uint32_t step = 0;
  Time end;
};
struct KernelRun {
  program::Index instruction = program::kNone;
  Time start, end;
};

// All steps after `step` repeat it: their operations and waits are at the same distances from the
// step's end as this one's.
struct Repetition {
  int step = 0;
  Time start;  // of its interval: the end of the step before it, or of the prologue
  // So are what the host does, and changes of memory. Else it runs ahead further in each step,
  // which nothing on the device ever notices.
  bool host = true;
  // When the first operation of the step after `step` started; Max: none has.
  Time next_begins = Time::Max();
};

// Work was left and nothing could happen any more: one sentence for each blocked stream or host,
// naming the rank, the operation and what it waits for.
struct Deadlock {
  std::vector<std::string> blocked;
};

// Classes meet in the communicators whose name and rank list they have in common: the k-th
// collective of each member is the same one and starts when all have reached it. Members that
// disagree about it (kind, bytes, type) are a deadlock that names both. A class whose
// representative is in the rank list but has no such communicator is a member that never comes.
// Times are exact and deterministic: same input, same records. Programs must be free of wrong
// indices (Validate), and prices have an entry for each entry of their program's tables.
//
// One timeline for each class, in their order. The prologue takes its time but leaves no records.
tl::expected<std::vector<program::Timeline>, Deadlock> Simulate(std::span<const RankClass> classes,
                                                                const Options& options);

class ProgramRun;
class SoloRun;

// The same, run after run in the same memory: for those who simulate many programs. Not to be used
// by two threads at once.
class Simulator {
 public:
  Simulator();
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // The timelines stay as they are until the next run.
  tl::expected<std::span<const program::Timeline>, Deadlock> Run(std::span<const RankClass> classes,
                                                                 const Options& options);
  // How the last run ended; null: it was not cut short.
  const Repetition* repetition() const;
  // When the host began its segments (Schedule::segments) in the last run, those of the first step
  // first, as far as they are known: in a step that was run, or repeats itself with all that its
  // host does, all of them. What it does in a segment comes so long after its begin as the schedule
  // says. Only where one class ran by itself; else nothing.
  std::span<const Time> segment_begins() const;
  // Of the last run, in any order; with kEnds, where one class ran by itself.
  std::span<const EndRecord> ends() const;
  // Of the first class in the last run, in the order of their ends; with kRowsOfKernels.
  std::span<const KernelRow> rows() const;
  // Appends a row's kernels, the first one first.
  void Expand(const KernelRow& row, std::vector<KernelRun>& kernels) const;
  // Adds how long each of a row's kernels took, by entry of Program::kernels.
  void AddDurations(const KernelRow& row, std::span<Time> by_kernel) const;

 private:
  std::unique_ptr<ProgramRun> run_;
  std::unique_ptr<SoloRun> solo_;
  bool was_solo_ = false;  // the last run
};

}  // namespace stepcast::simulate
