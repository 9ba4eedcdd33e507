#include "src/simulate/compiled_program.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/cost/demand.h"
#include "src/engine/shared_resources.h"
#include "src/program/description.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::Instruction;
using program::Opcode;

namespace {

bool IsLaunch(Opcode opcode) {
  return opcode == Opcode::kKernel || opcode == Opcode::kCopy || opcode == Opcode::kCollective;
}

Cost CostOf(const cost::Demand& demand, bool links, ConcurrentSets& sets) {
  STEPCAST_CHECK(demand.latency >= Time() && demand.work >= Time(), "a price is not negative");
  Cost cost{.latency = demand.latency, .work = demand.work};
  if (demand.work == Time()) return cost;
  // Beyond the solver's range the operation is a slower one.
  const double slower = std::max(1.0, demand.hindrance() / SharedResources::kMostShare);
  if (slower > 1) {
    cost.work = Picoseconds(
        static_cast<std::int64_t>(static_cast<double>(cost.work.picoseconds()) * slower));
  }
  std::array<SharedResources::Use, cost::kResources> uses;
  std::size_t count = 0;
  for (std::size_t r = 0; r < demand.share.size(); ++r) {
    const auto resource = cost::KindOf(static_cast<cost::Resource>(r));
    const bool is_link =
        resource == cost::Resource::kScaleUp || resource == cost::Resource::kNetwork;
    if (is_link && !links) continue;
    const std::uint32_t share = SharedResources::Share(demand.share[r] / slower);
    if (share > 0) uses[count++] = {static_cast<std::uint32_t>(r), share};
  }
  cost.profile = sets.Intern({uses.data(), count});
  return cost;
}

}  // namespace

void CompiledProgram::Build(const program::Program& program, const cost::Prices& prices, bool links,
                            ConcurrentSets& sets) {
  STEPCAST_CHECK(prices.kernels.size() == program.kernels.size() &&
                     prices.copies.size() == program.copies.size() &&
                     prices.collectives.size() == program.collectives.size(),
                 "everything in a program has its price");
  costs.clear();
  for (const cost::Demand& demand : prices.kernels) costs.push_back(CostOf(demand, true, sets));
  for (const cost::Demand& demand : prices.copies) costs.push_back(CostOf(demand, true, sets));
  collective_costs.clear();
  for (const cost::CollectivePrice& price : prices.collectives) {
    collective_costs.push_back(CostOf(price.demand, links, sets));
  }

  // Each stream's items lie together: count first, then place.
  streams.assign(program.streams.size(), {});
  for (const Instruction& instruction : program.prologue) {
    if (program::RunsOnStream(instruction.opcode)) ++streams[instruction.stream].step;
  }
  for (const Instruction& instruction : program.step) {
    if (program::RunsOnStream(instruction.opcode)) ++streams[instruction.stream].end;
  }
  // Where issuing takes no time there is no host to hold up.
  const bool queues = prices.issue_kernel > Time();
  const auto count_blocks = [&](std::span<const Instruction> instructions,
                                std::vector<std::uint32_t>& blocks) {
    launches_.assign(streams.size(), 0);
    for (const Instruction& instruction : instructions) {
      if (queues && IsLaunch(instruction.opcode)) ++launches_[instruction.stream];
    }
    blocks.assign(streams.size() + 1, 0);  // counts for now
    for (std::size_t s = 0; s < streams.size(); ++s) blocks[s] = launches_[s] / kLaunchBlock;
  };
  count_blocks(program.prologue, prologue_blocks_);
  count_blocks(program.step, step_blocks_);
  for (std::size_t s = 0; s < streams.size(); ++s) {
    streams[s].step += prologue_blocks_[s];
    streams[s].end += step_blocks_[s];
  }
  std::uint32_t position = 0;
  for (StreamRange& stream : streams) {
    stream.begin = position;
    stream.step += stream.begin;
    stream.end += stream.step;
    position = stream.end;
  }
  items.resize(position);
  next_item_.resize(streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s) next_item_[s] = streams[s].begin;

  records.clear();
  prologue_slots_.assign(program.prologue.size(), kNone);
  step_slots_.assign(program.step.size(), kNone);
  for (Index i = 0; i < program.prologue.size(); ++i) {
    if (program.prologue[i].opcode != Opcode::kRecordEvent) continue;
    prologue_slots_[i] = static_cast<std::uint32_t>(records.size());
    records.push_back({.instruction = i});
  }
  // A count of blocks by stream becomes the number of its first slot.
  const auto place_blocks = [this](std::vector<std::uint32_t>& blocks) {
    auto slot = static_cast<std::uint32_t>(records.size());
    for (std::uint32_t& first : blocks) slot += std::exchange(first, slot);
    records.resize(slot);
  };
  place_blocks(prologue_blocks_);
  prologue_records = static_cast<std::uint32_t>(records.size());
  for (Index i = 0; i < program.step.size(); ++i) {
    if (program.step[i].opcode != Opcode::kRecordEvent) continue;
    step_slots_[i] = static_cast<std::uint32_t>(records.size());
    records.push_back({.instruction = i});
  }
  place_blocks(step_blocks_);

  FindWaitTargets(program, wait_targets_);
  spans.clear();
  host_items.clear();
  host_waits = false;
  prologue_collectives.assign(program.communicators.size(), 0);
  step_collectives.assign(program.communicators.size(), 0);
  AddInstructions(program, prices, program.prologue, wait_targets_.prologue, true);
  prologue_spans = static_cast<std::uint32_t>(spans.size());
  AddInstructions(program, prices, program.step, wait_targets_.step, false);
}

void CompiledProgram::AddInstructions(const program::Program& program, const cost::Prices& prices,
                                      std::span<const Instruction> instructions,
                                      std::span<const program::WaitTarget> targets,
                                      bool in_prologue) {
  std::vector<std::uint32_t>& collectives = in_prologue ? prologue_collectives : step_collectives;
  const std::vector<std::uint32_t>& slots = in_prologue ? prologue_slots_ : step_slots_;
  const auto slot_of = [](const std::vector<std::uint32_t>& from, Index instruction) {
    return instruction == kNone ? kNone : from[instruction];
  };

  HostSpan span;
  span.first_item = static_cast<std::uint32_t>(host_items.size());
  const auto close = [this, &span] {
    span.item_count = static_cast<std::uint32_t>(host_items.size()) - span.first_item;
    spans.push_back(span);
    span = HostSpan();
    span.first_item = static_cast<std::uint32_t>(host_items.size());
  };

  // Before a block of launches on a stream the host waits for room: for the end of the block that
  // lies a queue's length before this one's own end, be it in a step before.
  const std::vector<std::uint32_t>& blocks = in_prologue ? prologue_blocks_ : step_blocks_;
  const bool queues = prices.issue_kernel > Time();
  launches_.assign(streams.size(), 0);
  const auto wait_for_room = [&](std::uint32_t stream) {
    const std::int64_t count = blocks[stream + 1] - blocks[stream];
    std::int64_t block =
        std::int64_t{launches_[stream] / kLaunchBlock} - std::int64_t{kLaunchQueue / kLaunchBlock};
    std::int64_t steps_before = 0;
    if (block < 0) {
      if (in_prologue || count == 0) return;
      steps_before = (-block + count - 1) / count;
      block += steps_before * count;
      if (steps_before > std::numeric_limits<std::uint8_t>::max()) return;
    }
    span.target = in_prologue ? kNone : blocks[stream] + static_cast<std::uint32_t>(block);
    span.other = in_prologue ? blocks[stream] + static_cast<std::uint32_t>(block) : kNone;
    span.steps_before = static_cast<std::uint8_t>(steps_before);
    close();
  };

  for (Index i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    const bool launch = queues && IsLaunch(instruction.opcode);
    if (launch && launches_[instruction.stream] % kLaunchBlock == 0) {
      wait_for_room(instruction.stream);
    }
    Item item;
    item.instruction = i;
    item.span = static_cast<std::uint32_t>(spans.size());
    switch (instruction.opcode) {
      case Opcode::kKernel:
        span.length += prices.IssueOf(program.kernels[instruction.operand]);
        item.kind = Item::Kind::kOperation;
        item.target = instruction.operand;
        break;
      case Opcode::kCopy:
        span.length += prices.issue_copy;
        item.kind = Item::Kind::kOperation;
        item.target = static_cast<std::uint32_t>(program.kernels.size()) + instruction.operand;
        break;
      case Opcode::kCollective:
        span.length += prices.issue_collective;
        item.kind = Item::Kind::kCollective;
        item.target = instruction.operand;
        item.other = collectives[program.collectives[instruction.operand].communicator]++;
        break;
      case Opcode::kRecordEvent:
        item.kind = Item::Kind::kRecord;
        item.target = slots[i];
        records[item.target].stream = instruction.stream;
        records[item.target].item = next_item_[instruction.stream];
        break;
      case Opcode::kWaitEvent:
        item.kind = Item::Kind::kWait;
        item.target = slot_of(step_slots_, targets[i].record);
        item.other = slot_of(prologue_slots_, targets[i].prologue_record);
        item.steps_before = targets[i].step_before ? 1 : 0;
        break;
      case Opcode::kHostWaitEvent:
        span.wait = i;
        span.target = slot_of(step_slots_, targets[i].record);
        span.other = slot_of(prologue_slots_, targets[i].prologue_record);
        span.steps_before = targets[i].step_before ? 1 : 0;
        host_waits = host_waits || !in_prologue;
        close();
        continue;
      case Opcode::kHostTask: {
        const Time duration = program.host_tasks[instruction.operand].duration;
        host_items.push_back({span.length, duration, i, true});
        span.length += duration;
        continue;
      }
      case Opcode::kAllocate:
      case Opcode::kRelease:
        host_items.push_back({span.length, Time(), i, false});
        continue;
      case Opcode::kRecordStream:
        continue;
    }
    item.issued = span.length;
    items[next_item_[instruction.stream]++] = item;
    if (!launch || ++launches_[instruction.stream] % kLaunchBlock != 0) continue;
    // The end of a block of launches.
    const std::uint32_t slot =
        blocks[instruction.stream] + launches_[instruction.stream] / kLaunchBlock - 1;
    records[slot] = {kNone, instruction.stream, next_item_[instruction.stream]};
    item.kind = Item::Kind::kRecord;
    item.target = slot;
    item.other = 0;
    items[next_item_[instruction.stream]++] = item;
  }
  span.ends_pass = true;
  close();
}

}  // namespace stepcast::simulate
