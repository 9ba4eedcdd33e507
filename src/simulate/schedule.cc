#include "src/simulate/schedule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/program/description.h"

namespace stepcast::simulate {

using program::Instruction;
using program::Opcode;

namespace {

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

void Schedule::Build(const program::Program& program, const cost::Prices& prices, bool links) {
  demands_.clear();
  id = NextId();
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
    records.push_back({.instruction = i});
  }
  prologue_records = static_cast<std::uint32_t>(records.size());
  for (Index i = 0; i < program.step.size(); ++i) {
    if (program.step[i].opcode != Opcode::kRecordEvent) continue;
    step_slots_[i] = static_cast<std::uint32_t>(records.size());
    records.push_back({.instruction = i});
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
  FindRepeats();
  chain_rounds.assign(chains.size(), 0);
}

void Schedule::FindChains() {
  chains.clear();
  chain_costs.clear();
  chain_issues_.clear();
  chain_table_.assign(1024, kNone);
  for (const StreamRange& stream : streams) {
    const Item* before = nullptr;  // the step's chain before
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
        items[first].begins_phase = before != nullptr && before->phase != item.phase;
        if (first >= stream.step) before = &item;
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
      for (const Item& item : operations) {
        chain_costs.push_back(item.target);
        chain_issues_.push_back(item.issued - operations.front().issued);
      }
      return chain;
    }
    const Chain& known = chains[chain];
    bool same = known.count == operations.size();
    for (std::uint32_t i = 0; same && i < known.count; ++i) {
      same = chain_costs[known.first + i] == operations[i].target &&
             chain_issues_[known.first + i] == operations[i].issued - operations.front().issued;
    }
    if (same) return chain;
  }
}

// Where a stream's queue goes on for some items as it does once more after them: layers. Found
// among the distances from chains to where they come next; of several the shortest counts.
void Schedule::FindRepeats() {
  constexpr std::size_t kMostCandidates = 64;
  constexpr std::size_t kMostDistances = 6;
  struct Distance {
    std::uint32_t blocks = 0;
    std::uint32_t count = 0;
  };
  // The others follow the stream that has most to do.
  const StreamRange* stream = nullptr;
  std::ptrdiff_t most = 0;
  for (const StreamRange& other : streams) {
    const std::ptrdiff_t operations =
        std::count_if(items.begin() + other.step, items.begin() + other.end,
                      [](const Item& item) { return item.kind == Item::Kind::kOperation; });
    if (operations > most) stream = &other;
    most = std::max(most, operations);
  }
  if (stream == nullptr) return;
  std::vector<Distance> distances;
  blocks_.clear();
  for (std::uint32_t i = stream->step; i < stream->end;) {
    const Item& item = items[i];
    const bool chain = item.kind == Item::Kind::kOperation;
    const std::uint64_t of_kind = chain                                  ? item.chain
                                  : item.kind == Item::Kind::kCollective ? item.target
                                                                         : 0;
    blocks_.push_back({i, of_kind << 2 | static_cast<std::uint64_t>(item.kind)});
    i += chain ? chains[item.chain].count : 1;
  }
  last_.assign(chains.size(), kNone);
  const auto count = static_cast<std::uint32_t>(blocks_.size());
  for (std::uint32_t b = 0; b < count; ++b) {
    const Item& item = items[blocks_[b].item];
    if (item.kind != Item::Kind::kOperation) continue;
    const std::uint32_t last = std::exchange(last_[item.chain], b);
    if (last == kNone) continue;
    const auto known = std::find_if(distances.begin(), distances.end(),
                                    [&](const Distance& d) { return d.blocks == b - last; });
    if (known == distances.end()) {
      if (distances.size() < kMostCandidates) distances.push_back({b - last, 1});
    } else {
      ++known->count;
    }
  }
  std::sort(distances.begin(), distances.end(), [](const Distance& a, const Distance& b) {
    return std::pair(b.count, a.blocks) < std::pair(a.count, b.blocks);
  });
  distances.resize(std::min(distances.size(), kMostDistances));
  std::sort(distances.begin(), distances.end(),
            [](const Distance& a, const Distance& b) { return a.blocks < b.blocks; });
  for (const Distance& distance : distances) {
    // By block: so many from it on are alike those at this distance.
    alike_.assign(count + 1, 0);
    for (std::uint32_t b = count - std::min(count, distance.blocks); b-- > 0;) {
      const Block& block = blocks_[b];
      if (block.likeness != blocks_[b + distance.blocks].likeness) continue;
      alike_[b] = alike_[b + 1] + 1;
      Item& item = items[block.item];
      if (item.kind == Item::Kind::kOperation && item.other == 0 && alike_[b] > distance.blocks) {
        item.other = blocks_[b + distance.blocks].item - block.item;
      }
    }
  }
}

void Schedule::Reprice(const program::Program& program, const cost::Prices& prices, bool links) {
  if (prices.issue_kernel == issue_kernel_ && prices.issue_copy == issue_copy_ &&
      prices.issue_collective == issue_collective_ && prices.dispatch == dispatch_) {
    AddCosts(program, prices, links);
    CountRounds();
  } else {
    Build(program, prices, links);
  }
}

void Schedule::CountRounds() {
  if (!any_changed_) return;
  for (std::uint32_t c = 0; c < chains.size(); ++c) {
    const auto own = CostsOf(chains[c]);
    if (std::any_of(own.begin(), own.end(), [this](auto cost) { return changed_[cost]; })) {
      ++chain_rounds[c];
    }
  }
}

void Schedule::AddCosts(const program::Program& program, const cost::Prices& prices, bool links) {
  STEPCAST_CHECK(prices.kernels.size() == program.kernels.size() &&
                     prices.copies.size() == program.copies.size() &&
                     prices.collectives.size() == program.collectives.size(),
                 "everything in a program has its price");
  const std::size_t count =
      prices.kernels.size() + prices.copies.size() + prices.collectives.size();
  if (demands_.size() != count || links != links_ || own_profiles > kMostProfiles) {
    id = NextId();
    uses.clear();
    profiles.assign(1, 0);
    own_profiles = 1;
    profile_table_.assign(1024, kNone);
    collective_entries_.clear();
    demands_.assign(count, {.latency = Time::Max()});
    costs.resize(prices.kernels.size() + prices.copies.size());
    collective_costs.resize(prices.collectives.size());
    links_ = links;
  }
  changed_.assign(costs.size(), false);
  any_changed_ = false;
  const auto same = [](const cost::Demand& a, const cost::Demand& b) {
    return a.latency == b.latency && a.work == b.work && a.share == b.share;
  };
  bool forgotten = false;
  const auto forget = [&] {
    if (!forgotten) ForgetCollectives();
    forgotten = true;
  };
  std::uint32_t i = 0;
  const auto set = [&](const cost::Demand& demand) {
    if (!same(demands_[i], demand)) {
      forget();  // their profiles come after these
      demands_[i] = demand;
      costs[i] = CostOf(demand, true);
      changed_[i] = any_changed_ = true;
    }
    ++i;
  };
  for (const cost::Demand& demand : prices.kernels) set(demand);
  for (const cost::Demand& demand : prices.copies) set(demand);
  cost::Demand* const before = demands_.data() + i;
  for (std::size_t c = 0; c < prices.collectives.size() && !forgotten; ++c) {
    if (!same(before[c], prices.collectives[c].demand)) forget();
  }
  if (!forgotten) return;
  own_profiles = static_cast<std::uint32_t>(profiles.size());
  for (std::size_t c = 0; c < prices.collectives.size(); ++c) {
    before[c] = prices.collectives[c].demand;
    collective_costs[c] = CostOf(before[c], links);
  }
}

// What comes after the profiles of kernels and copies.
void Schedule::ForgetCollectives() {
  ++profile_rounds;
  for (auto entry = collective_entries_.rbegin(); entry != collective_entries_.rend(); ++entry) {
    profile_table_[*entry] = kNone;
  }
  collective_entries_.clear();
  uses.resize(own_profiles < profiles.size() ? profiles[own_profiles] : uses.size());
  profiles.resize(own_profiles);
  own_profiles = std::numeric_limits<std::uint32_t>::max();  // until they have been counted
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
      if (own_profiles <= profile) collective_entries_.push_back(static_cast<std::uint32_t>(at));
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
        segment.wait = i;
        segment.target = slot_of(step_slots_, targets[i].record);
        segment.other = slot_of(prologue_slots_, targets[i].prologue_record);
        segment.step_before = targets[i].step_before;
        close();
        continue;
      case Opcode::kHostTask: {
        const Time duration = program.host_tasks[instruction.operand].duration;
        host_items.push_back({segment.length, duration, i, true});
        segment.has_tasks = true;
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
