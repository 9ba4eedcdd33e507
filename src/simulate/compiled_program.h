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

// A program with its prices, compiled for the simulator: all data that does not change during a
// simulation, in arrays.
namespace stepcast::simulate {

using program::Index;
using program::kNone;

// The cost of an operation, in the units of engine::SharedResources.
struct Cost {
  Time latency;
  Time work;
  // kUsesNothing: concurrent operations do not slow this operation.
  ConcurrentSets::Profile profile = ConcurrentSets::kUsesNothing;
};

// One entry of a stream's queue.
struct Item {
  enum class Kind : std::uint8_t { kOperation, kCollective, kExchange, kRecord, kWait };

  Time issued;            // issue time since the beginning of the item's host span
  Index instruction = 0;  // index in the step or in the prologue
  std::uint32_t span = 0;
  // For kOperation: the index in costs. For kCollective and kExchange: the index in the program's
  // table. For kRecord: the slot of the record. For kWait: the slot of a record in the step, or
  // kNone.
  std::uint32_t target = 0;
  // For kCollective and kExchange: the index of the operation among the operations of its
  // communicator in this prologue or step. For kWait: the slot of a record in the prologue, or
  // kNone.
  std::uint32_t other = 0;
  // For kOperation: this item begins a run of consecutive operations of one span. `run_end` is the
  // first item after the run.
  std::uint32_t run_end = 0;
  Kind kind = Kind::kOperation;
  std::uint8_t steps_before = 0;  // kWait: the number of steps between the record and the wait
};

// Returns the communicator of a collective or an exchange.
inline Index CommunicatorOf(const program::Program& program, const Item& item) {
  return item.kind == Item::Kind::kExchange ? program.exchanges[item.target].communicator
                                            : program.collectives[item.target].communicator;
}

// Consecutive operations of a stream that are issued in one span. Only the last operation may be
// recorded.
struct OperationChain {
  Time rest;                // total time of the operations if nothing interrupts them
  Time latest;              // maximum over operations: issue time + remaining time of the chain
  std::uint32_t end = 0;    // the item after the last item of the chain
  std::uint32_t build = 0;  // number of the build for which the values are valid
};

// The items of one stream. Items [begin, step) belong to the prologue, items [step, end) to the
// step.
struct StreamRange {
  std::uint32_t begin = 0;
  std::uint32_t step = 0;
  std::uint32_t end = 0;
};

// The number of launches in a stream's queue at which the host must wait, as with CUDA. CUDA does
// not document this limit; users have measured about 1,000 on each of several streams
// (forums.developer.nvidia.com/t/68937). The host checks the queue once per block of launches.
inline constexpr std::uint32_t kLaunchQueue = 1024;
inline constexpr std::uint32_t kLaunchBlock = 128;

// A host operation: a host task, or a change of memory (which takes no time).
struct HostItem {
  Time begin;  // relative to the beginning of the span
  Time duration;
  Index instruction = 0;
  bool is_task = false;
};

// The host's work between two waits. In a span, only issue costs and host tasks take time, so times
// are relative to the span's beginning.
struct HostSpan {
  Time length;
  std::uint32_t first_item = 0;  // index in CompiledProgram::host_items
  std::uint32_t item_count = 0;
  // The kHostWaitEvent that ends the span. kNone: the span ends at a full launch queue, or at the
  // end of the prologue or step.
  Index wait = program::kNone;
  bool ends_pass = false;
  Index first_instruction = 0;
  std::uint32_t target = program::kNone;  // like Item::target
  std::uint32_t other = program::kNone;
  std::uint8_t steps_before = 0;
};

// The position of an event record, or of the end of a block of launches.
struct EventRecord {
  Index instruction = program::kNone;  // kNone: end of a block of launches
  std::uint32_t stream = 0;
  std::uint32_t item = 0;
};

// One rank's side of all messages with one peer, in one direction, on one communicator.
struct Endpoint {
  std::uint32_t communicator = 0;
  program::MessageDirection direction = program::MessageDirection::kSend;
  program::PeerNaming peers = program::PeerNaming::kPosition;
  int peer = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// A wait ends when the record in `slot` has been reached `count` times. If `count` is 0, the wait
// ends at once. Slots number the records consecutively, starting with the prologue.
struct WaitFor {
  std::uint32_t slot = program::kNone;
  std::uint32_t count = 0;
};

// Returns the record for which a stream or the host waits in `pass`. Pass 0 is the prologue, pass s
// + 1 is step s.
inline WaitFor Resolve(std::uint32_t target, std::uint32_t other, std::uint8_t steps_before,
                       std::uint32_t pass) {
  if (pass > steps_before && target != program::kNone) return {target, pass - steps_before};
  return {other, other == program::kNone ? 0u : 1u};
}

// A 128-bit digest of the data that determines the queues. The digest replaces a copy of the data.
// Collisions are improbable.
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

// Scratch memory for building a program, reused for the next program.
struct BuildRoom {
  program::WaitTargets wait_targets;
  std::vector<std::uint32_t> prologue_slots;  // [instruction]
  std::vector<std::uint32_t> step_slots;
  std::vector<std::uint32_t> next_item;  // [stream]
  // The slots of stream s's launch blocks begin at entry s and end before entry s + 1.
  std::vector<std::uint32_t> prologue_blocks, step_blocks;
  std::vector<std::uint32_t> launches;  // [stream]: number of launches so far
};

struct CompiledProgram {
  std::vector<StreamRange> streams;
  std::vector<Item> items;
  std::vector<HostSpan> spans;  // spans of the prologue, then of the step
  std::uint32_t prologue_spans = 0;
  std::vector<HostItem> host_items;  // empty unless host items are recorded
  std::vector<Cost> costs;           // costs of kernels, then of copies
  std::vector<Cost> collective_costs;
  // The messages of exchange i have the indices first_message[i] to first_message[i + 1] - 1 in
  // message_costs.
  std::vector<std::uint32_t> first_message;
  std::vector<Cost> message_costs;
  // The next communicator of the same ranks, indexed by communicator. Communicators of the same
  // ranks form a circular list.
  std::vector<std::uint32_t> next_among_ranks;
  // The fraction of the multiprocessors that a collective or message occupies from the time at
  // which the rank reaches it.
  std::vector<std::uint32_t> collective_holds, message_holds;
  std::vector<std::uint32_t> message_endpoints;
  std::vector<Endpoint> endpoints;
  // The number of messages in the largest exchange of each communicator, indexed by communicator.
  std::vector<std::uint32_t> most_messages;
  std::vector<EventRecord> records;  // [slot]
  std::uint32_t prologue_records = 0;
  // The first slots of launch blocks in the prologue and in the step. The prologue's launch blocks
  // are directly before the step's slots; the step's launch blocks are last.
  std::uint32_t prologue_launches = 0, step_launches = 0;
  bool host_waits = false;  // whether the host waits for events in the step
  // The number of collectives and exchanges of each communicator, in the prologue and in a step.
  // Indexed by communicator.
  std::vector<std::uint32_t> prologue_collectives;
  std::vector<std::uint32_t> step_collectives;

  std::uint32_t step_spans() const {
    return static_cast<std::uint32_t>(spans.size()) - prologue_spans;
  }

  // Builds a new program in this object. `sets` owns the cost profiles. `links`: whether
  // collectives use the rank's shares of links. `marked` states for each instruction of the step
  // whether the operation is recorded. If null, either all operations or none are recorded.
  // `marked` must remain valid until after the next call of Build. `records_host`: whether host
  // items are recorded.
  //
  // If the previous program differs only in sizes and times of operations, as in the rows of a
  // sweep, the queues and spans are reused.
  void Build(const program::Program& program, const cost::Prices& prices,
             const std::vector<bool>* marked, bool links, bool records_host, ConcurrentSets& sets,
             BuildRoom& room);

  // Launch records are the records at the ends of launch blocks, and have consecutive indices. The
  // functions return how many launch records exist, whether a slot is a launch record, and the
  // index of the launch record in a slot.
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

  // Allocates memory for chains. Call this function before ChainFrom, unless everything is
  // recorded.
  void ReserveChains() { chains_.resize(items.size()); }
  // Returns the chain that starts at `item`, which must be an operation. Chains are computed at
  // first use, because they are not needed while other operations run.
  const OperationChain& ChainFrom(std::uint32_t item) const {
    if (chains_[item].build != build_) FindChain(item);
    return chains_[item];
  }

 private:
  // Computes the costs of kernels and copies. Returns true if all costs are the same as before.
  bool BuildCosts(const program::Program& program, const cost::Prices& prices, bool links,
                  ConcurrentSets& sets);
  void BuildQueues(const program::Program& program, const cost::Prices& prices, BuildRoom& room);
  void FindChain(std::uint32_t item) const;
  void FindRuns();
  void LinkRanks(const program::Program& program);
  void AddExchanges(const program::Program& program, const cost::Prices& prices, bool links,
                    ConcurrentSets& sets);
  // Fills the queues of the host and the streams, instruction by instruction (compiled_program.cc).
  class InstructionQueues;

  QueueKey queues_of_;                // digest of the data that determines queues and spans
  std::vector<cost::Demand> priced_;  // the demands from which `costs` were computed
  std::uint32_t profiles_of_ = 0;     // value of cleared() when the profiles were interned
  const std::vector<bool>* marked_ = nullptr;
  mutable std::vector<OperationChain> chains_;  // [item]: the chain; only for operations
  std::uint32_t build_ = 0;
  bool records_host_ = false;
};

}  // namespace stepcast::simulate
