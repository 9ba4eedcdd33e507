#include "src/simulate/schedule.h"

#include <algorithm>
#include <array>

#include "src/base/check.h"
#include "src/program/description.h"

namespace stepcast::simulate {

using program::Instruction;
using program::Opcode;

void Schedule::Build(const program::Program& program, const cost::Prices& prices, bool links) {
  demands_.clear();
  AddCosts(program, prices, links);
  issue_kernel_ = prices.issue_kernel;
  issue_copy_ = prices.issue_copy;
  issue_collective_ = prices.issue_collective;
  dispatch_ = prices.dispatch;

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
  FindChains();
}

void Schedule::FindChains() {
  chains.clear();
  chain_costs.clear();
  chain_table_.assign(1024, kNone);
  for (const StreamRange& stream : streams) {
    for (std::uint32_t first = stream.begin; first < stream.end;) {
      const Item& item = items[first];
      std::uint32_t last = first + 1;
      if (item.kind == Item::Kind::kOperation) {
        const std::uint32_t end = first < stream.step ? stream.step : stream.end;
        while (last < end && items[last].kind == Item::Kind::kOperation &&
               items[last].segment == item.segment && items[last].phase == item.phase &&
               items[last].is_kernel == item.is_kernel) {
          ++last;
        }
        const std::uint32_t chain = ChainOf({items.data() + first, last - first});
        for (std::uint32_t i = first; i < last; ++i) {
          items[i].chain = chain;
          items[i].place = i - first;
        }
      }
      first = last;
    }
  }
}

std::uint32_t Schedule::ChainOf(std::span<const Item> operations) {
  std::uint64_t hash = operations.size();
  for (const Item& item : operations) {
    hash = (hash ^ item.target) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  if (2 * chains.size() > chain_table_.size()) {
    chain_table_.assign(4 * chain_table_.size(), kNone);
    for (std::uint32_t c = 0; c < chains.size(); ++c) {
      std::uint64_t known = chains[c].count;
      for (const std::uint32_t target : CostsOf(chains[c])) {
        known = (known ^ target) * 0x9e3779b97f4a7c15;
        known ^= known >> 32;
      }
      std::size_t at = known % chain_table_.size();
      while (chain_table_[at] != kNone) at = (at + 1) % chain_table_.size();
      chain_table_[at] = c;
    }
  }
  for (std::size_t at = hash % chain_table_.size();; at = (at + 1) % chain_table_.size()) {
    std::uint32_t& chain = chain_table_[at];
    if (chain == kNone) {
      chain = static_cast<std::uint32_t>(chains.size());
      chains.push_back({static_cast<std::uint32_t>(chain_costs.size()),
                        static_cast<std::uint32_t>(operations.size())});
      for (const Item& item : operations) chain_costs.push_back(item.target);
      return chain;
    }
    const auto known = CostsOf(chains[chain]);
    const bool same =
        std::equal(known.begin(), known.end(), operations.begin(), operations.end(),
                   [](std::uint32_t target, const Item& item) { return target == item.target; });
    if (same) return chain;
  }
}

void Schedule::Reprice(const program::Program& program, const cost::Prices& prices, bool links) {
  if (prices.issue_kernel == issue_kernel_ && prices.issue_copy == issue_copy_ &&
      prices.issue_collective == issue_collective_ && prices.dispatch == dispatch_) {
    AddCosts(program, prices, links);
  } else {
    Build(program, prices, links);
  }
}

void Schedule::AddCosts(const program::Program& program, const cost::Prices& prices, bool links) {
  STEPCAST_CHECK(prices.kernels.size() == program.kernels.size() &&
                     prices.copies.size() == program.copies.size() &&
                     prices.collectives.size() == program.collectives.size(),
                 "everything in a program has its price");
  const std::size_t count =
      prices.kernels.size() + prices.copies.size() + prices.collectives.size();
  if (demands_.size() != count || links != links_ || profiles.size() > kMostProfiles) {
    uses.clear();
    profiles.assign(1, 0);
    profile_table_.assign(1024, kNone);
    demands_.assign(count, {.latency = Time::Max()});
    costs.resize(prices.kernels.size() + prices.copies.size());
    collective_costs.resize(prices.collectives.size());
    links_ = links;
  }
  std::size_t i = 0;
  const auto set = [&](const cost::Demand& demand, bool on_links, Cost& cost) {
    cost::Demand& before = demands_[i++];
    if (before.latency == demand.latency && before.work == demand.work &&
        before.share == demand.share) {
      return;
    }
    before = demand;
    cost = CostOf(demand, on_links);
  };
  Cost* cost = costs.data();
  for (const cost::Demand& demand : prices.kernels) set(demand, true, *cost++);
  for (const cost::Demand& demand : prices.copies) set(demand, true, *cost++);
  cost = collective_costs.data();
  for (const cost::CollectivePrice& price : prices.collectives) set(price.demand, links, *cost++);
}

Cost Schedule::CostOf(const cost::Demand& demand, bool links) {
  STEPCAST_CHECK(demand.latency >= Time() && demand.work >= Time(), "a price is not negative");
  Cost cost;
  cost.latency = demand.latency;
  cost.work = demand.work;
  std::array<engine::SharedResources::Use, cost::kResources> own;
  std::uint32_t count = 0;
  if (demand.work > Time()) {
    for (std::size_t r = 0; r < demand.share.size(); ++r) {
      const auto resource = static_cast<cost::Resource>(r);
      const bool is_link =
          resource == cost::Resource::kScaleUp || resource == cost::Resource::kNetwork;
      if (is_link && !links) continue;
      const std::uint32_t share = engine::SharedResources::Share(demand.share[r]);
      if (share > 0) own[count++] = {static_cast<std::uint32_t>(r), share};
    }
  }
  if (count > 0) cost.profile = ProfileOf({own.data(), count});
  cost.first_use = profiles[cost.profile];
  cost.use_count = count;
  return cost;
}

std::uint32_t Schedule::ProfileOf(std::span<const engine::SharedResources::Use> own) {
  std::uint64_t hash = 0;
  for (const engine::SharedResources::Use& use : own) {
    hash = (hash ^ use.resource ^ std::uint64_t{use.share} << 8) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  if (2 * profiles.size() > profile_table_.size()) {
    // It is full: those who come find no like, which costs time and nothing else.
    profiles.push_back(static_cast<std::uint32_t>(uses.size()));
    uses.insert(uses.end(), own.begin(), own.end());
    return static_cast<std::uint32_t>(profiles.size() - 1);
  }
  for (std::size_t at = hash % profile_table_.size();; at = (at + 1) % profile_table_.size()) {
    std::uint32_t& profile = profile_table_[at];
    if (profile == kNone) {
      profile = static_cast<std::uint32_t>(profiles.size());
      profiles.push_back(static_cast<std::uint32_t>(uses.size()));
      uses.insert(uses.end(), own.begin(), own.end());
      return profile;
    }
    const auto known = UsesOf(profile);
    const bool same = std::equal(known.begin(), known.end(), own.begin(), own.end(),
                                 [](const auto& a, const auto& b) {
                                   return a.resource == b.resource && a.share == b.share;
                                 });
    if (same) return profile;
  }
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
    item.is_kernel = instruction.opcode == Opcode::kKernel;
    item.phase = instruction.phase;
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
