#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/program/wait_target.h"
#include "src/simulate/concurrent_sets.h"

// A program at its prices, made ready to be run: what can be told before is told once, so that the
// run itself goes through plain arrays.
namespace stepcast::simulate {

using program::Index;
using program::kNone;

// What an operation takes, in the solver's terms.
struct Cost {
  Time latency;
  Time work;
  ConcurrentSets::Profile profile = ConcurrentSets::kUsesNothing;  // nothing slows its work
};

// One entry of a stream's queue.
struct Item {
  enum class Kind : std::uint8_t { kOperation, kCollective, kRecord, kWait };

  Time issued;            // after the begin of its host span
  Index instruction = 0;  // in the step, or in the prologue
  std::uint32_t span = 0;
  // kOperation: costs. kCollective: the program's collectives. kRecord: its slot. kWait: the slot
  // of the record in the step, or kNone.
  std::uint32_t target = 0;
  // kCollective: which of its communicator's in this prologue or step. kWait: the slot of the
  // record in the prologue, or kNone.
  std::uint32_t other = 0;
  Kind kind = Kind::kOperation;
  bool step_before = false;  // kWait: `target` means that of the step before
};

// Items [begin, step) are the prologue's, [step, end) the step's.
struct StreamRange {
  std::uint32_t begin = 0;
  std::uint32_t step = 0;
  std::uint32_t end = 0;
};

// What the host does by itself: a host task, or a change of memory (no duration).
struct HostItem {
  Time begin;  // after the begin of its span
  Time duration;
  Index instruction = 0;
  bool is_task = false;
};

// The host's way from one wait to the next. Within it, time passes by issue costs and host tasks
// alone, so all is known once the begin is.
struct HostSpan {
  Time length;
  std::uint32_t first_item = 0;  // CompiledProgram::host_items
  std::uint32_t item_count = 0;
  // What ends it: a kHostWaitEvent, or else (kNone) the prologue's or step's end.
  Index wait = program::kNone;
  std::uint32_t target = program::kNone;  // as in Item
  std::uint32_t other = program::kNone;
  bool step_before = false;
};

// An event record: where it stands.
struct EventRecord {
  Index instruction = 0;
  std::uint32_t stream = 0;
  std::uint32_t item = 0;
};

// Records are numbered through, prologue first: their slots. A wait is satisfied when the record in
// `slot` has been reached `count` times; count 0: at once.
struct WaitFor {
  std::uint32_t slot = program::kNone;
  std::uint32_t count = 0;
};

// What a wait (of a stream or the host) waits for in `pass`: 0 is the prologue, s + 1 step s.
inline WaitFor Resolve(std::uint32_t target, std::uint32_t other, bool step_before,
                       std::uint32_t pass) {
  if (pass > 0 && target != program::kNone) {
    if (!step_before) return {target, pass};
    if (pass > 1) return {target, pass - 1};
  }
  return {other, other == program::kNone ? 0u : 1u};
}

struct CompiledProgram {
  std::vector<StreamRange> streams;
  std::vector<Item> items;
  std::vector<HostSpan> spans;  // the prologue's, then the step's
  std::uint32_t prologue_spans = 0;
  std::vector<HostItem> host_items;
  std::vector<Cost> costs;  // of kernels, then copies
  std::vector<Cost> collective_costs;
  std::vector<EventRecord> records;  // by slot
  std::uint32_t prologue_records = 0;
  // How many collectives a communicator has in the prologue and in a step.
  std::vector<std::uint32_t> prologue_collectives;
  std::vector<std::uint32_t> step_collectives;

  std::uint32_t step_spans() const {
    return static_cast<std::uint32_t>(spans.size()) - prologue_spans;
  }

  // Replaces what was there. The costs' profiles are those of `sets`. `links`: whether collectives
  // use the rank's shares of links.
  void Build(const program::Program& program, const cost::Prices& prices, bool links,
             ConcurrentSets& sets);

 private:
  void AddInstructions(const program::Program& program, const cost::Prices& prices,
                       std::span<const program::Instruction> instructions,
                       std::span<const program::WaitTarget> targets, bool in_prologue);

  // Room for building.
  program::WaitTargets wait_targets_;
  std::vector<std::uint32_t> prologue_slots_;  // by instruction
  std::vector<std::uint32_t> step_slots_;
  std::vector<std::uint32_t> next_item_;  // by stream
};

}  // namespace stepcast::simulate
