#include "src/simulate/compiled_program.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/cost/demand.h"
#include "src/engine/shared_resources.h"
#include "src/program/description.h"
#include "src/program/instruction.h"

namespace stepcast::simulate {

using engine::SharedResources;
using program::Instruction;
using program::Opcode;

namespace {

using cost::Resource;

SharedResources::Use::Way WayOf(cost::Occupancy occupancy) {
  using Way = SharedResources::Use::Way;
  switch (occupancy) {
    case cost::Occupancy::kTurns:
      return Way::kDivides;
    case cost::Occupancy::kPersistent:
      return Way::kPersists;
    case cost::Occupancy::kHolds:
      return Way::kHolds;
  }
  return Way::kDivides;
}

// `both_ways`: links are used equally in both directions.
Cost CostOf(const cost::Demand& demand, bool links, bool both_ways, ConcurrentSets& sets) {
  STEPCAST_CHECK(demand.latency >= Time() && demand.work >= Time(), "a cost must not be negative");
  Cost cost{.latency = demand.latency, .work = demand.work};
  if (demand.work == Time()) return cost;
  // Beyond the solver's range, the operation is treated as slower.
  const double slower = std::max(1.0, demand.hindrance() / SharedResources::kMostShare);
  if (slower > 1) {
    cost.work = Picoseconds(
        static_cast<std::int64_t>(static_cast<double>(cost.work.picoseconds()) * slower));
  }
  std::array<SharedResources::Use, cost::kResources> uses;
  std::size_t count = 0;
  for (std::size_t r = 0; r < demand.share.size(); ++r) {
    const auto resource = static_cast<Resource>(r);
    const Resource kind = cost::KindOf(resource);
    if ((kind == Resource::kScaleUp || kind == Resource::kNetwork) && !links) continue;
    // A collective receives as much as it sends.
    const bool ingress = resource == Resource::kScaleUpIn || resource == Resource::kNetworkIn;
    const std::size_t from = ingress && both_ways ? static_cast<std::size_t>(kind) : r;
    const std::uint32_t share = SharedResources::Share(demand.share[from] / slower);
    if (share == 0) continue;
    uses[count++] = {.resource = static_cast<std::uint32_t>(r),
                     .share = share,
                     .way = resource == Resource::kCompute ? WayOf(demand.occupancy)
                                                           : SharedResources::Use::Way::kDivides};
  }
  cost.profile = sets.Intern({uses.data(), count});
  return cost;
}

std::uint32_t HoldOf(const cost::Demand& demand) {
  const double share = demand.share[static_cast<std::size_t>(Resource::kCompute)];
  return demand.work == Time() ? 0 : SharedResources::Share(std::min(share, 1.0));
}

// Whether both have the same result of CostOf.
bool SameCost(const cost::Demand& a, const cost::Demand& b) {
  return a.latency == b.latency && a.work == b.work && a.share == b.share &&
         a.occupancy == b.occupancy;
}

// The digest of everything in a program and its prices that BuildQueues reads.
QueueKey KeyOf(const program::Program& program, const cost::Prices& prices) {
  QueueKey key;
  const auto count = [&](const auto& table) { key.Add(table.size()); };
  count(program.streams);
  count(program.communicators);
  count(program.events);
  count(program.kernels);
  count(program.collectives);
  count(program.exchanges);
  count(program.host_tasks);
  count(program.prologue);
  count(program.step);
  for (const Time time : {prices.issue_kernel, prices.issue_copy, prices.issue_collective,
                          prices.dispatch.module, prices.dispatch.autograd}) {
    key.Add(static_cast<std::uint64_t>(time.picoseconds()));
  }
  for (const Kernel& kernel : program.kernels) key.Add(static_cast<std::uint64_t>(kernel.issuer));
  for (const program::Collective& collective : program.collectives) {
    key.Add(collective.communicator);
  }
  for (const program::Exchange& exchange : program.exchanges) key.Add(exchange.communicator);
  for (const program::HostTask& task : program.host_tasks) {
    key.Add(static_cast<std::uint64_t>(task.duration.picoseconds()));
  }
  for (const auto* instructions : {&program.prologue, &program.step}) {
    for (const Instruction& instruction : *instructions) key.Add(program::HeadOf(instruction));
  }
  return key;
}

}  // namespace

void CompiledProgram::Build(const program::Program& program, const cost::Prices& prices,
                            const std::vector<bool>* marked, bool links, bool records_host,
                            ConcurrentSets& sets, BuildRoom& room) {
  const bool as_before = BuildCosts(program, prices, links, sets);
  const QueueKey key = KeyOf(program, prices);
  const bool same_queues = key == queues_of_ && (records_host_ || !records_host);
  if (!same_queues) {
    records_host_ = records_host;
    BuildQueues(program, prices, room);
    queues_of_ = key;
  }
  if (!as_before || !same_queues || marked != nullptr || marked_ != nullptr) ++build_;
  marked_ = marked;
}

void CompiledProgram::FindRuns() {
  const auto find = [this](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = end; i-- > begin;) {
      const bool goes_on = i + 1 < end && items[i + 1].kind == Item::Kind::kOperation &&
                           items[i + 1].span == items[i].span;
      items[i].run_end = goes_on ? items[i + 1].run_end : i + 1;
    }
  };
  for (const StreamRange& range : streams) {
    find(range.begin, range.step);
    find(range.step, range.end);
  }
}

void CompiledProgram::FindChain(std::uint32_t item) const {
  std::uint32_t end = items[item].run_end;
  if (marked_ != nullptr && items[item].span >= prologue_spans) {
    std::uint32_t last = item;
    while (last + 1 < end && !(*marked_)[items[last].instruction]) ++last;
    end = last + 1;
  }
  OperationChain behind = {.rest = Time(), .latest = Time(), .end = end, .build = build_};
  std::uint32_t i = end;
  // The last chain may be known already.
  if (chains_[end - 1].build == build_) {
    for (i = item; chains_[i].build != build_;) ++i;
    behind = chains_[i];
  }
  while (i-- > item) {
    const Cost& cost = costs[items[i].target];
    behind.rest += cost.latency + cost.work;
    behind.latest = std::max(items[i].issued + behind.rest, behind.latest);
    chains_[i] = behind;
  }
}

bool CompiledProgram::BuildCosts(const program::Program& program, const cost::Prices& prices,
                                 bool links, ConcurrentSets& sets) {
  STEPCAST_CHECK(prices.kernels.size() == program.kernels.size() &&
                     prices.copies.size() == program.copies.size() &&
                     prices.collectives.size() == program.collectives.size() &&
                     prices.exchanges.size() == program.exchanges.size(),
                 "every entry of a program must have a cost");
  // Rows of a sweep share most of them.
  const std::size_t count = prices.kernels.size() + prices.copies.size();
  bool as_before = costs.size() == count && profiles_of_ == sets.cleared();
  if (profiles_of_ != sets.cleared()) costs.clear();
  profiles_of_ = sets.cleared();
  const std::size_t known = std::min(costs.size(), count);
  costs.resize(count);
  priced_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const cost::Demand& demand =
        i < prices.kernels.size() ? prices.kernels[i] : prices.copies[i - prices.kernels.size()];
    if (i < known && SameCost(priced_[i], demand)) continue;
    priced_[i] = demand;
    const Cost cost = CostOf(demand, true, false, sets);
    as_before = as_before && cost.latency == costs[i].latency && cost.work == costs[i].work;
    costs[i] = cost;
  }
  // Ingress matters only if messages are received concurrently with collectives.
  const bool both_ways = !program.exchanges.empty();
  collective_costs.clear();
  collective_holds.clear();
  for (const cost::CollectivePrice& price : prices.collectives) {
    collective_costs.push_back(CostOf(price.demand, links, both_ways, sets));
    collective_holds.push_back(HoldOf(price.demand));
  }
  AddExchanges(program, prices, links, sets);
  LinkRanks(program);
  return as_before;
}

// Converts the instructions of the prologue or step into host spans and items of stream queues.
class CompiledProgram::InstructionQueues {
 public:
  InstructionQueues(CompiledProgram& compiled, const program::Program& program,
                    const cost::Prices& prices, bool in_prologue, BuildRoom& room)
      : compiled_(compiled),
        program_(program),
        prices_(prices),
        in_prologue_(in_prologue),
        room_(room),
        slots_(in_prologue ? room.prologue_slots : room.step_slots),
        targets_(in_prologue ? room.wait_targets.prologue : room.wait_targets.step),
        blocks_(in_prologue ? room.prologue_blocks : room.step_blocks),
        collectives_(in_prologue ? compiled.prologue_collectives : compiled.step_collectives),
        queues_(prices.issue_kernel > Time()) {}

  // To be called once.
  void Add(std::span<const Instruction> instructions);

 private:
  static std::uint32_t SlotOf(const std::vector<std::uint32_t>& slots, Index instruction) {
    return instruction == kNone ? kNone : slots[instruction];
  }
  // Sets the target of an event's wait, in an item of a stream or a span of the host.
  template <typename Waiter>
  void SetTarget(Index wait, Waiter& waiter) const {
    const program::WaitTarget& target = targets_[wait];
    waiter.target = SlotOf(room_.step_slots, target.record);
    waiter.other = SlotOf(room_.prologue_slots, target.prologue_record);
    waiter.steps_before = target.step_before ? 1 : 0;
  }

  void BeginSpan(Index instruction);
  void EndSpan(Index next);
  // Before a block of launches on a stream, the host waits for room. It waits for the end of the
  // block one queue length before this block's end, which may be in an earlier step.
  void AwaitRoom(std::uint32_t stream, Index next);
  // Adds the host's activity at this point of its span, if the run records it.
  void Note(Index i, Time duration, bool is_task) {
    if (!compiled_.records_host_) return;
    HostItem& item = compiled_.host_items.emplace_back();
    item.begin = span_.length;
    item.duration = duration;
    item.instruction = i;
    item.is_task = is_task;
  }
  // Adds an instruction that the host executes itself.
  void AddHostInstruction(Index i, const Instruction& instruction);
  void AddStreamInstruction(Index i, const Instruction& instruction);
  // Adds the record of a block of launches after its last launch, the item `last`.
  void EndLaunchBlock(std::uint32_t stream, std::uint32_t last);
  // Writes the instruction to item `at`.
  void Write(Index i, const Instruction& instruction, std::uint32_t at);

  CompiledProgram& compiled_;
  const program::Program& program_;
  const cost::Prices& prices_;
  bool in_prologue_;
  BuildRoom& room_;
  const std::vector<std::uint32_t>& slots_;
  const std::vector<program::WaitTarget>& targets_;
  const std::vector<std::uint32_t>& blocks_;
  std::vector<std::uint32_t>& collectives_;
  bool queues_;  // launches take time, so that queues may be full
  HostSpan span_;
};

void CompiledProgram::BuildQueues(const program::Program& program, const cost::Prices& prices,
                                  BuildRoom& room) {
  // Each stream's items are contiguous: first count, then place.
  streams.assign(program.streams.size(), {});
  records.clear();
  // If issuing takes no time, the host never waits for room.
  const bool queues = prices.issue_kernel > Time();
  std::size_t most_spans = 2, most_host_items = 0;
  const auto count = [&](std::span<const Instruction> instructions,
                         std::uint32_t StreamRange::*items_of, std::vector<std::uint32_t>& slots,
                         std::vector<std::uint32_t>& blocks) {
    room.launches.assign(streams.size(), 0);
    slots.assign(instructions.size(), kNone);
    for (Index i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (!program::RunsOnStream(instruction.opcode)) {
        ++(instruction.opcode == Opcode::kHostWaitEvent ? most_spans : most_host_items);
        continue;
      }
      ++(streams[instruction.stream].*items_of);
      if (instruction.opcode == Opcode::kRecordEvent) {
        slots[i] = static_cast<std::uint32_t>(records.size());
        records.push_back({.instruction = i});
      } else if (queues && program::IsLaunched(instruction.opcode)) {
        ++room.launches[instruction.stream];
      }
    }
    // The slots of blocks of launches follow, stream by stream.
    blocks.assign(streams.size() + 1, 0);
    auto slot = static_cast<std::uint32_t>(records.size());
    for (std::size_t s = 0; s < streams.size(); ++s) {
      const std::uint32_t own = room.launches[s] / kLaunchBlock;
      streams[s].*items_of += own;
      blocks[s] = slot;
      slot += own;
      most_spans += own + 1;
    }
    blocks.back() = slot;
    records.resize(slot);
    return blocks.front();
  };
  prologue_launches =
      count(program.prologue, &StreamRange::step, room.prologue_slots, room.prologue_blocks);
  prologue_records = static_cast<std::uint32_t>(records.size());
  step_launches = count(program.step, &StreamRange::end, room.step_slots, room.step_blocks);
  std::uint32_t position = 0;
  for (StreamRange& stream : streams) {
    stream.begin = position;
    stream.step += stream.begin;
    stream.end += stream.step;
    position = stream.end;
  }
  items.resize(position);
  room.next_item.resize(streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s) room.next_item[s] = streams[s].begin;

  FindWaitTargets(program, room.wait_targets);
  spans.clear();
  spans.reserve(most_spans);
  host_items.clear();
  if (records_host_) host_items.reserve(most_host_items);
  host_waits = false;
  prologue_collectives.assign(program.communicators.size(), 0);
  step_collectives.assign(program.communicators.size(), 0);
  InstructionQueues(*this, program, prices, true, room).Add(program.prologue);
  prologue_spans = static_cast<std::uint32_t>(spans.size());
  InstructionQueues(*this, program, prices, false, room).Add(program.step);
  FindRuns();
}

void CompiledProgram::LinkRanks(const program::Program& program) {
  const auto ranks_of = [&](std::uint32_t c) -> const std::vector<int>& {
    return program.groups[program.communicators[c].group].ranks;
  };
  const auto count = static_cast<std::uint32_t>(program.communicators.size());
  next_among_ranks.resize(count);
  for (std::uint32_t c = 0; c < count; ++c) {
    std::uint32_t before = c;
    while (before > 0 && ranks_of(before - 1) != ranks_of(c)) --before;
    next_among_ranks[c] = c;
    if (before > 0) std::swap(next_among_ranks[c], next_among_ranks[before - 1]);
  }
}

void CompiledProgram::AddExchanges(const program::Program& program, const cost::Prices& prices,
                                   bool links, ConcurrentSets& sets) {
  first_message.assign(1, 0);
  message_costs.clear();
  message_holds.clear();
  message_endpoints.clear();
  endpoints.clear();
  most_messages.assign(program.communicators.size(), 0);
  for (std::size_t e = 0; e < program.exchanges.size(); ++e) {
    const program::Exchange& exchange = program.exchanges[e];
    STEPCAST_CHECK(prices.exchanges[e].size() == exchange.messages.size(),
                   "every message must have a cost");
    for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
      const program::Message& message = exchange.messages[i];
      const cost::Demand& demand = prices.exchanges[e][i].demand;
      message_costs.push_back(CostOf(demand, links, false, sets));
      message_holds.push_back(HoldOf(demand));
      const Endpoint endpoint = {.communicator = exchange.communicator,
                                 .direction = message.direction,
                                 .peers = exchange.peers,
                                 .peer = message.peer};
      const auto found = std::find(endpoints.begin(), endpoints.end(), endpoint);
      message_endpoints.push_back(static_cast<std::uint32_t>(found - endpoints.begin()));
      if (found == endpoints.end()) endpoints.push_back(endpoint);
    }
    first_message.push_back(static_cast<std::uint32_t>(message_costs.size()));
    std::uint32_t& most = most_messages[exchange.communicator];
    most = std::max(most, static_cast<std::uint32_t>(exchange.messages.size()));
  }
}

void CompiledProgram::InstructionQueues::Add(std::span<const Instruction> instructions) {
  room_.launches.assign(compiled_.streams.size(), 0);
  BeginSpan(0);
  for (Index i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (program::RunsOnStream(instruction.opcode)) {
      AddStreamInstruction(i, instruction);
    } else {
      AddHostInstruction(i, instruction);
    }
  }
  span_.ends_pass = true;
  EndSpan(0);
}

void CompiledProgram::InstructionQueues::BeginSpan(Index instruction) {
  span_ = HostSpan();
  span_.first_instruction = instruction;
  span_.first_item = static_cast<std::uint32_t>(compiled_.host_items.size());
}

void CompiledProgram::InstructionQueues::EndSpan(Index next) {
  span_.item_count = static_cast<std::uint32_t>(compiled_.host_items.size()) - span_.first_item;
  compiled_.spans.push_back(span_);
  BeginSpan(next);
}

void CompiledProgram::InstructionQueues::AwaitRoom(std::uint32_t stream, Index next) {
  const std::int64_t count = blocks_[stream + 1] - blocks_[stream];
  std::int64_t block = std::int64_t{room_.launches[stream] / kLaunchBlock} -
                       std::int64_t{kLaunchQueue / kLaunchBlock};
  std::int64_t steps_before = 0;
  if (block < 0) {
    if (in_prologue_ || count == 0) return;
    steps_before = (-block + count - 1) / count;
    block += steps_before * count;
    if (steps_before > std::numeric_limits<std::uint8_t>::max()) return;
  }
  const std::uint32_t slot = blocks_[stream] + static_cast<std::uint32_t>(block);
  span_.target = in_prologue_ ? kNone : slot;
  span_.other = in_prologue_ ? slot : kNone;
  span_.steps_before = static_cast<std::uint8_t>(steps_before);
  EndSpan(next);
}

inline void CompiledProgram::InstructionQueues::AddHostInstruction(Index i,
                                                                   const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kHostWaitEvent:
      span_.wait = i;
      SetTarget(i, span_);
      compiled_.host_waits = compiled_.host_waits || !in_prologue_;
      EndSpan(i + 1);
      return;
    case Opcode::kHostTask: {
      const Time duration = program_.host_tasks[instruction.operand].duration;
      Note(i, duration, true);
      span_.length += duration;
      return;
    }
    case Opcode::kAllocate:
    case Opcode::kRelease:
      Note(i, Time(), false);
      return;
    default:
      return;
  }
}

inline void CompiledProgram::InstructionQueues::AddStreamInstruction(
    Index i, const Instruction& instruction) {
  const std::uint32_t stream = instruction.stream;
  const bool launch = queues_ && program::IsLaunched(instruction.opcode);
  if (launch && room_.launches[stream] % kLaunchBlock == 0) AwaitRoom(stream, i);
  const std::uint32_t at = room_.next_item[stream]++;
  Write(i, instruction, at);
  if (launch && ++room_.launches[stream] % kLaunchBlock == 0) EndLaunchBlock(stream, at);
}

void CompiledProgram::InstructionQueues::EndLaunchBlock(std::uint32_t stream, std::uint32_t last) {
  const std::uint32_t slot = blocks_[stream] + room_.launches[stream] / kLaunchBlock - 1;
  const std::uint32_t at = room_.next_item[stream]++;
  compiled_.records[slot] = {kNone, stream, at};
  Item& item = compiled_.items[at];
  item = compiled_.items[last];
  item.kind = Item::Kind::kRecord;
  item.target = slot;
  item.other = 0;
}

inline void CompiledProgram::InstructionQueues::Write(Index i, const Instruction& instruction,
                                                      std::uint32_t at) {
  Item& item = compiled_.items[at];
  item = Item();
  item.instruction = i;
  item.span = static_cast<std::uint32_t>(compiled_.spans.size());
  item.target = instruction.operand;
  span_.length += prices_.IssueOf(program_, instruction);
  switch (instruction.opcode) {
    case Opcode::kKernel:
      item.kind = Item::Kind::kOperation;
      break;
    case Opcode::kCopy:
      item.kind = Item::Kind::kOperation;
      item.target += static_cast<std::uint32_t>(program_.kernels.size());
      break;
    case Opcode::kCollective:
      item.kind = Item::Kind::kCollective;
      item.other = collectives_[program_.collectives[instruction.operand].communicator]++;
      break;
    case Opcode::kExchange:
      item.kind = Item::Kind::kExchange;
      item.other = collectives_[program_.exchanges[instruction.operand].communicator]++;
      break;
    case Opcode::kRecordEvent:
      item.kind = Item::Kind::kRecord;
      item.target = slots_[i];
      compiled_.records[item.target].stream = instruction.stream;
      compiled_.records[item.target].item = at;
      break;
    case Opcode::kWaitEvent:
      item.kind = Item::Kind::kWait;
      SetTarget(i, item);
      break;
    default:
      STEPCAST_CHECK(false,
                     "a stream cannot execute this kind of instruction; the host must "
                     "execute it");
  }
  item.issued = span_.length;
}

}  // namespace stepcast::simulate
