#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/engine/shared_resources.h"
#include "src/program/program.h"
#include "src/program/wait_target.h"

// A program made ready to be run: what can be told before is told once, so that the run itself goes
// through plain arrays.
namespace stepcast::simulate {

using program::Index;
using program::kNone;

// What an operation takes, in the engine's terms. No uses: nothing slows it.
struct Cost {
  Time latency;
  Time work;
  std::uint32_t first_use = 0;  // Schedule::uses
  std::uint32_t use_count = 0;
  std::uint32_t profile = 0;  // costs with the same uses have the same

  Time alone() const { return latency + work; }
};

// One entry of a stream's queue.
struct Item {
  enum class Kind : std::uint8_t { kOperation, kCollective, kRecord, kWait };

  Time issued;            // after the begin of its host segment
  Index instruction = 0;  // in the step, or in the prologue
  std::uint32_t segment = 0;
  // kOperation: costs. kCollective: the program's collectives. kRecord: its slot. kWait: the slot
  // of the record in the step, or kNone.
  std::uint32_t target = 0;
  // kCollective: which of its communicator's in this prologue or step. kWait: the slot of the
  // record in the prologue, or kNone. kOperation: at the first of a chain, how many items further
  // on the stream all until there comes again; 0: nowhere (FindRepeats).
  std::uint32_t other = 0;
  Kind kind = Kind::kOperation;
  bool step_before = false;  // kWait: `target` means that of the step before
  // kOperation:
  bool is_kernel = false;
  bool begins_phase = false;  // the first of a chain, in another phase than the one before it
  program::Phase phase = program::Phase::kForward;
  std::uint32_t chain = 0;  // of which it is part
  std::uint32_t place = 0;  // in it
};

// Operations that follow each other on a stream with nothing in between: kernels of one phase, or
// copies, that the host issues without waiting. Layers repeat, and chains with the same costs in
// the same order, issued at the same distances, are one.
struct Chain {
  std::uint32_t first = 0;  // Schedule::chain_costs
  std::uint32_t count = 0;
};

// Items [begin, step) are the prologue's, [step, end) the step's.
struct StreamRange {
  std::uint32_t begin = 0;
  std::uint32_t step = 0;
  std::uint32_t end = 0;
};

// What the host does by itself: a host task, or a change of memory (no duration).
struct HostItem {
  Time begin;  // after the begin of its segment
  Time duration;
  Index instruction = 0;
  bool is_task = false;
};

// The host's way from one wait to the next. Within it, time passes by issue costs and host tasks
// alone, so all is known once the begin is.
struct Segment {
  Time length;
  std::uint32_t first_item = 0;  // Schedule::host_items
  std::uint32_t item_count = 0;
  bool has_tasks = false;  // among these items
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

struct Schedule {
  // No two that were built differently have the same.
  std::uint64_t id = 0;
  std::vector<StreamRange> streams;
  std::vector<Item> items;
  std::vector<Segment> segments;  // the prologue's, then the step's
  std::uint32_t prologue_segments = 0;
  std::vector<HostItem> host_items;
  std::vector<Cost> costs;  // of kernels, then copies
  std::vector<Chain> chains;
  std::vector<std::uint32_t> chain_costs;   // indices into `costs`
  std::vector<std::uint32_t> chain_rounds;  // by chain: how often its costs have changed
  std::vector<Cost> collective_costs;
  std::vector<engine::SharedResources::Use> uses;  // the rank's resources count from 0
  std::vector<std::uint32_t> profiles;             // by profile: where its uses begin
  std::uint32_t own_profiles = 0;    // so many are of `costs`; the others are of collectives alone,
  std::uint32_t profile_rounds = 0;  // ... which have changed so often
  std::vector<EventRecord> records;  // by slot
  std::uint32_t prologue_records = 0;
  // How many collectives a communicator has in the prologue and in a step.
  std::vector<std::uint32_t> prologue_collectives;
  std::vector<std::uint32_t> step_collectives;

  std::span<const std::uint32_t> CostsOf(const Chain& chain) const {
    return {chain_costs.data() + chain.first, chain.count};
  }

  std::span<const engine::SharedResources::Use> UsesOf(const Cost& cost) const {
    return {uses.data() + cost.first_use, cost.use_count};
  }

  // The uses of a profile. They begin where the profile does, and end where the next one begins.
  std::span<const engine::SharedResources::Use> UsesOf(std::uint32_t profile) const {
    const std::size_t end = profile + 1 < profiles.size() ? profiles[profile + 1] : uses.size();
    return {uses.data() + profiles[profile], end - profiles[profile]};
  }

  // Replaces what was there. `links`: whether collectives use the rank's shares of links.
  void Build(const program::Program& program, const cost::Prices& prices, bool links = true);
  // The same for what was built of this program, whose instructions are as they were: other prices.
  void Reprice(const program::Program& program, const cost::Prices& prices, bool links = true);
  // The next prices have little in common with those before.
  void ForgetPrices() { demands_.clear(); }

 private:
  void AddCosts(const program::Program& program, const cost::Prices& prices, bool links);
  std::uint32_t ProfileOf(std::span<const engine::SharedResources::Use> own);
  Cost CostOf(const cost::Demand& demand, bool links);
  void ForgetCollectives();
  void AddInstructions(const program::Program& program, const cost::Prices& prices,
                       std::span<const program::Instruction> instructions,
                       std::span<const program::WaitTarget> targets, bool in_prologue);
  void FindChains();
  std::uint32_t ChainOf(std::span<const Item> operations);
  void FindRepeats();
  void CountRounds();

  // What `costs` and `collective_costs` were made of. Where a row of a sweep has the same, they
  // stay; of profiles that no cost has any more so many may be left.
  static constexpr std::size_t kMostProfiles = 192;
  std::vector<cost::Demand> demands_;
  std::vector<char> changed_;  // by cost: whether AddCosts has changed it
  bool any_changed_ = false;
  std::vector<std::uint32_t> profile_table_;       // by a hash of their uses; open addressing
  std::vector<std::uint32_t> collective_entries_;  // in it: of collectives alone
  bool links_ = true;

  // Only while building.
  program::WaitTargets wait_targets_;
  std::vector<std::uint32_t> prologue_slots_;  // by instruction
  std::vector<std::uint32_t> step_slots_;
  std::vector<std::uint32_t> next_item_;    // by stream
  std::vector<std::uint32_t> chain_table_;  // by a hash of their costs; likewise
  std::vector<Time> chain_issues_;          // as chain_costs: issued after the chain's first
  struct Block {
    std::uint32_t item = 0;
    std::uint64_t likeness = 0;  // blocks that have the same are alike
  };
  std::vector<Block> blocks_;        // of a stream: chains, and what stands between them
  std::vector<std::uint32_t> last_;  // by chain: where it came last
  std::vector<std::uint32_t> alike_;
  Time issue_kernel_, issue_copy_, issue_collective_;
  Dispatch dispatch_;
};

}  // namespace stepcast::simulate
