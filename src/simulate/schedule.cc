#include "src/simulate/schedule.h"

#include <algorithm>
#include <array>

#include "src/base/check.h"
#include "src/program/description.h"

namespace stepcast::simulate {

using program::Instruction;
using program::kNone;
using program::Opcode;

void Schedule::Build(const program::Program& program, const cost::Prices& prices, bool links) {
  STEPCAST_CHECK(prices.kernels.size() == program.kernels.size() &&
                     prices.copies.size() == program.copies.size() &&
                     prices.collectives.size() == program.collectives.size(),
                 "everything in a program has its price");
  uses.clear();
  costs.clear();
  collective_costs.clear();
  for (const cost::Demand& demand : prices.kernels) AddCost(demand, true, costs);
  for (const cost::Demand& demand : prices.copies) AddCost(demand, true, costs);
  for (const cost::CollectivePrice& price : prices.collectives) {
    AddCost(price.demand, links, collective_costs);
  }

  // Each stream's items lie together: count first, then place.
  streams.assign(program.streams.size(), {});
  for (const Instruction& instruction : program.prologue) {
    if (program::RunsOnStream(instruction.opcode)) ++streams[instruction.stream].step;
  }
  for (const Instruction& instruction : program.step) {
    if (program::RunsOnStream(instruction.opcode)) ++streams[instruction.stream].end;
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
    records.push_back(i);
  }
  prologue_records = static_cast<std::uint32_t>(records.size());
  for (Index i = 0; i < program.step.size(); ++i) {
    if (program.step[i].opcode != Opcode::kRecordEvent) continue;
    step_slots_[i] = static_cast<std::uint32_t>(records.size());
    records.push_back(i);
  }

  FindWaitTargets(program, wait_targets_);
  segments.clear();
  host_items.clear();
  prologue_collectives.assign(program.communicators.size(), 0);
  step_collectives.assign(program.communicators.size(), 0);
  AddInstructions(program, prices, program.prologue, wait_targets_.prologue, true);
  prologue_segments = static_cast<std::uint32_t>(segments.size());
  AddInstructions(program, prices, program.step, wait_targets_.step, false);
}

void Schedule::AddCost(const cost::Demand& demand, bool links, std::vector<Cost>& to) {
  STEPCAST_CHECK(demand.latency >= Time() && demand.work >= Time(), "a price is not negative");
  Cost cost;
  cost.latency = demand.latency;
  cost.work = demand.work;
  cost.first_use = static_cast<std::uint32_t>(uses.size());
  if (demand.work > Time()) {
    for (std::size_t r = 0; r < demand.share.size(); ++r) {
      const auto resource = static_cast<cost::Resource>(r);
      const bool is_link =
          resource == cost::Resource::kScaleUp || resource == cost::Resource::kNetwork;
      if (is_link && !links) continue;
      const std::uint32_t share = engine::SharedResources::Share(demand.share[r]);
      if (share > 0) uses.push_back({static_cast<std::uint32_t>(r), share});
    }
  }
  cost.use_count = static_cast<std::uint32_t>(uses.size()) - cost.first_use;
  to.push_back(cost);
}

void Schedule::AddInstructions(const program::Program& program, const cost::Prices& prices,
                               std::span<const Instruction> instructions,
                               std::span<const program::WaitTarget> targets, bool in_prologue) {
  std::vector<std::uint32_t>& collectives = in_prologue ? prologue_collectives : step_collectives;
  const std::vector<std::uint32_t>& slots = in_prologue ? prologue_slots_ : step_slots_;
  const auto slot_of = [](const std::vector<std::uint32_t>& from, Index instruction) {
    return instruction == kNone ? kNone : from[instruction];
  };

  Segment segment;
  segment.first_item = static_cast<std::uint32_t>(host_items.size());
  const auto close = [this, &segment] {
    segment.item_count = static_cast<std::uint32_t>(host_items.size()) - segment.first_item;
    segments.push_back(segment);
    segment = Segment();
    segment.first_item = static_cast<std::uint32_t>(host_items.size());
  };

  for (Index i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    Item item;
    item.instruction = i;
    item.segment = static_cast<std::uint32_t>(segments.size());
    switch (instruction.opcode) {
      case Opcode::kKernel:
        segment.length += prices.IssueOf(program.kernels[instruction.operand]);
        item.kind = Item::Kind::kOperation;
        item.target = instruction.operand;
        break;
      case Opcode::kCopy:
        segment.length += prices.issue_copy;
        item.kind = Item::Kind::kOperation;
        item.target = static_cast<std::uint32_t>(program.kernels.size()) + instruction.operand;
        break;
      case Opcode::kCollective: {
        segment.length += prices.issue_collective;
        item.kind = Item::Kind::kCollective;
        item.target = instruction.operand;
        item.other = collectives[program.collectives[instruction.operand].communicator]++;
        break;
      }
      case Opcode::kRecordEvent:
        item.kind = Item::Kind::kRecord;
        item.target = slots[i];
        break;
      case Opcode::kWaitEvent:
        item.kind = Item::Kind::kWait;
        item.target = slot_of(step_slots_, targets[i].record);
        item.other = slot_of(prologue_slots_, targets[i].prologue_record);
        item.step_before = targets[i].step_before;
        break;
      case Opcode::kHostWaitEvent:
        segment.wait = i;
        segment.target = slot_of(step_slots_, targets[i].record);
        segment.other = slot_of(prologue_slots_, targets[i].prologue_record);
        segment.step_before = targets[i].step_before;
        close();
        continue;
      case Opcode::kHostTask: {
        const Time duration = program.host_tasks[instruction.operand].duration;
        host_items.push_back({segment.length, duration, i, true});
        segment.length += duration;
        continue;
      }
      case Opcode::kAllocate:
      case Opcode::kRelease:
        host_items.push_back({segment.length, Time(), i, false});
        continue;
      case Opcode::kRecordStream:
        continue;
    }
    item.issued = segment.length;
    items[next_item_[instruction.stream]++] = item;
  }
  close();
}

}  // namespace stepcast::simulate
