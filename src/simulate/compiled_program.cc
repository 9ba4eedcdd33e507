#include "src/simulate/compiled_program.h"

#include <array>

#include "src/base/check.h"
#include "src/cost/demand.h"
#include "src/engine/shared_resources.h"
#include "src/program/description.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::Instruction;
using program::Opcode;

namespace {

Cost CostOf(const cost::Demand& demand, bool links, ConcurrentSets& sets) {
  STEPCAST_CHECK(demand.latency >= Time() && demand.work >= Time(), "a price is not negative");
  Cost cost{.latency = demand.latency, .work = demand.work};
  if (demand.work == Time()) return cost;
  std::array<SharedResources::Use, cost::kResources> uses;
  std::size_t count = 0;
  for (std::size_t r = 0; r < demand.share.size(); ++r) {
    const auto resource = static_cast<cost::Resource>(r);
    const bool is_link =
        resource == cost::Resource::kScaleUp || resource == cost::Resource::kNetwork;
    if (is_link && !links) continue;
    const std::uint32_t share = SharedResources::Share(demand.share[r]);
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
  prologue_records = static_cast<std::uint32_t>(records.size());
  for (Index i = 0; i < program.step.size(); ++i) {
    if (program.step[i].opcode != Opcode::kRecordEvent) continue;
    step_slots_[i] = static_cast<std::uint32_t>(records.size());
    records.push_back({.instruction = i});
  }

  FindWaitTargets(program, wait_targets_);
  spans.clear();
  host_items.clear();
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

  for (Index i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
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
        item.step_before = targets[i].step_before;
        break;
      case Opcode::kHostWaitEvent:
        span.wait = i;
        span.target = slot_of(step_slots_, targets[i].record);
        span.other = slot_of(prologue_slots_, targets[i].prologue_record);
        span.step_before = targets[i].step_before;
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
  }
  close();
}

}  // namespace stepcast::simulate
