#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/simulate/concurrent_sets.h"

// A program at its prices, made ready to be run: what can be told before is told once, so that the
// run itself goes through plain arrays.
namespace stepcast::simulate {

using program::Index;
using program::kNone;

// An operation's cost, in the solver's terms.
struct Cost {
  Time latency;
  Time work;
  ConcurrentSets::Profile profile = ConcurrentSets::kUsesNothing;  // nothing slows its work
};

// One entry of a stream's queue.
struct Item {
  enum class Kind : std::uint8_t { kOperation, kCollective, kExchange, kRecord, kWait };

  Time issued;            // after the begin of its host span
  Index instruction = 0;  // in the step, or in the prologue
  std::uint32_t span = 0;
  // kOperation: costs. kCollective, kExchange: the program's collectives, exchanges. kRecord: its
  // slot. kWait: the slot of the record in the step, or kNone.
  std::uint32_t target = 0;
  // kCollective, kExchange: which of its communicator's in this prologue or step. kWait: the slot
  // of the record in the prologue, or kNone.
  std::uint32_t other = 0;
  // kOperation: the item after the operations that follow it, issued in the same span.
  std::uint32_t run_end = 0;
  Kind kind = Kind::kOperation;
  std::uint8_t steps_before = 0;  // kWait: `target` means that of so many steps before
};

// Of a collective or an exchange.
inline Index CommunicatorOf(const program::Program& program, const Item& item) {
  return item.kind == Item::Kind::kExchange ? program.exchanges[item.target].communicator
                                            : program.collectives[item.target].communicator;
}

// Operations one after another on a stream, issued in one span, of which the last alone may be
// recorded: from an item on.
struct Stretch {
  Time rest;                // what they take one after the other if nothing interrupts them
  Time latest;              // the most of: when one is issued, and what it and those behind it take
  std::uint32_t end = 0;    // item
  std::uint32_t build = 0;  // the one that it is known of
};

// Items [begin, step) are the prologue's, [step, end) the step's.
struct StreamRange {
  std::uint32_t begin = 0;
  std::uint32_t step = 0;
  std::uint32_t end = 0;
};

// CUDA queues about so many launches on a stream; the host waits for room before it issues more.
// Measured by users, and documented nowhere: about 1,000 launches go by without a wait, on each of
// several streams (forums.developer.nvidia.com/t/68937). It is looked at once for a block of
// launches.
inline constexpr std::uint32_t kLaunchQueue = 1024;
inline constexpr std::uint32_t kLaunchBlock = 128;

// A host operation: a host task, or a change of memory (no duration).
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
  // Its end: a kHostWaitEvent; a full launch queue (kNone); or the prologue's or step's end.
  Index wait = program::kNone;
  bool ends_pass = false;
  Index first_instruction = 0;
  std::uint32_t target = program::kNone;  // as in Item
  std::uint32_t other = program::kNone;
  std::uint8_t steps_before = 0;
};

// An event record, or the end of a block of launches: where it stands.
struct EventRecord {
  Index instruction = program::kNone;  // kNone: of launches
  std::uint32_t stream = 0;
  std::uint32_t item = 0;
};

// One end of all messages that a rank sends to, or receives from, one peer on a communicator.
struct Endpoint {
  std::uint32_t communicator = 0;
  program::MessageDirection direction = program::MessageDirection::kSend;
  program::PeerNaming peers = program::PeerNaming::kPosition;
  int peer = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Records are numbered through, prologue first: their slots. A wait is satisfied when the record in
// `slot` has been reached `count` times; count 0: at once.
struct WaitFor {
  std::uint32_t slot = program::kNone;
  std::uint32_t count = 0;
};

// The record that a wait (of a stream or the host) waits for in `pass`: 0 is the prologue, s + 1
// step s.
inline WaitFor Resolve(std::uint32_t target, std::uint32_t other, std::uint8_t steps_before,
                       std::uint32_t pass) {
  if (pass > steps_before && target != program::kNone) return {target, pass - steps_before};
  return {other, other == program::kNone ? 0u : 1u};
}

// A digest of 128 bits of the words that queues follow from. Two programs hardly ever have the same
// one by chance. It is kept in the place of the words, which take as much memory as the queues.
class QueueKey {
 public:
  void Add(std::uint64_t word) {
    a_ = (a_ ^ word) * 0x9E3779B97F4A7C15U;
    a_ ^= a_ >> 32;
    b_ = (b_ + word) * 0xD6E8FEB86659FD93U;
    b_ ^= b_ >> 29;
  }
  friend bool operator==(const QueueKey&, const QueueKey&) = default;

 private:
  std::uint64_t a_ = 0, b_ = 1;
};

// What building takes room for, one program after the other.
struct BuildRoom {
  program::WaitTargets wait_targets;
  std::vector<std::uint32_t> prologue_slots;  // by instruction
  std::vector<std::uint32_t> step_slots;
  std::vector<std::uint32_t> next_item;  // by stream
  // By stream: where the slots of its blocks of launches begin, and after the last stream's.
  std::vector<std::uint32_t> prologue_blocks, step_blocks;
  std::vector<std::uint32_t> launches;  // by stream, so far
};

struct CompiledProgram {
  std::vector<StreamRange> streams;
  std::vector<Item> items;
  std::vector<HostSpan> spans;  // the prologue's, then the step's
  std::uint32_t prologue_spans = 0;
  std::vector<HostItem> host_items;  // where they are recorded
  std::vector<Cost> costs;           // of kernels, then copies
  std::vector<Cost> collective_costs;
  // Messages are numbered through, exchange by exchange: [exchange], and after the last.
  std::vector<std::uint32_t> first_message;
  std::vector<Cost> message_costs;
  // By communicator: the next one among the same ranks, round and round.
  std::vector<std::uint32_t> next_among_ranks;
  // The share of the multiprocessors that each holds from when it is reached on.
  std::vector<std::uint32_t> collective_holds, message_holds;
  std::vector<std::uint32_t> message_endpoints;
  std::vector<Endpoint> endpoints;
  // By communicator: the messages of its largest exchange.
  std::vector<std::uint32_t> most_messages;
  std::vector<EventRecord> records;  // by slot
  std::uint32_t prologue_records = 0;
  // The slots of blocks of launches: those of the prologue end where the step's slots begin, those
  // of the step are the last.
  std::uint32_t prologue_launches = 0, step_launches = 0;
  bool host_waits = false;  // for events, somewhere in the step
  // How many collectives and exchanges a communicator has in the prologue and in a step.
  std::vector<std::uint32_t> prologue_collectives;
  std::vector<std::uint32_t> step_collectives;

  std::uint32_t step_spans() const {
    return static_cast<std::uint32_t>(spans.size()) - prologue_spans;
  }

  // Replaces what was there. The costs' profiles are those of `sets`. `links`: whether collectives
  // use the rank's shares of links. Programs that differ in sizes and in what operations take, as
  // rows of a sweep do, have the same queues and spans: these are then left as they are. `marked`:
  // by instruction of the step, what is recorded where not everything is; null: nothing.
  // It is read until the next call. `records_host`: whether host items are wanted.
  void Build(const program::Program& program, const cost::Prices& prices,
             const std::vector<bool>* marked, bool links, bool records_host, ConcurrentSets& sets,
             BuildRoom& room);

  // Records of blocks of launches have numbers of their own. These say how many there are, whether
  // a slot has one, and which number that one has.
  std::uint32_t launch_records() const {
    return prologue_records - prologue_launches + static_cast<std::uint32_t>(records.size()) -
           step_launches;
  }
  bool IsOfLaunches(std::uint32_t slot) const {
    return slot >= step_launches || (slot >= prologue_launches && slot < prologue_records);
  }
  std::uint32_t LaunchRecordIn(std::uint32_t slot) const {
    return slot < prologue_records ? slot - prologue_launches
                                   : prologue_records - prologue_launches + slot - step_launches;
  }

  // Before stretches are asked for: not where all is recorded.
  void MakeRoomForStretches() { stretches_.resize(items.size()); }
  // From an item on, which is an operation. Found when it is first asked for: beside what runs at
  // the same time it is not asked for.
  const Stretch& StretchFrom(std::uint32_t item) const {
    if (stretches_[item].build != build_) FindStretch(item);
    return stretches_[item];
  }

 private:
  // True: kernels and copies take what they took before.
  bool BuildCosts(const program::Program& program, const cost::Prices& prices, bool links,
                  ConcurrentSets& sets);
  void BuildQueues(const program::Program& program, const cost::Prices& prices, BuildRoom& room);
  void FindStretch(std::uint32_t item) const;
  void FindRuns();
  void LinkRanks(const program::Program& program);
  void AddExchanges(const program::Program& program, const cost::Prices& prices, bool links,
                    ConcurrentSets& sets);
  // Fills the queues of hosts and streams, instruction by instruction (compiled_program.cc).
  class InstructionQueues;

  QueueKey queues_of_;                // all that queues and spans follow from
  std::vector<cost::Demand> priced_;  // what `costs` are of
  std::uint32_t profiles_of_ = 0;     // ConcurrentSets::cleared()
  const std::vector<bool>* marked_ = nullptr;
  mutable std::vector<Stretch> stretches_;  // by item; of operations alone
  std::uint32_t build_ = 0;
  bool records_host_ = false;
};

}  // namespace stepcast::simulate
