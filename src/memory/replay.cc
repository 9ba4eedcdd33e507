#include "src/memory/replay.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/stop.h"
#include "src/memory/account.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/micro_batch_blocks.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::memory {
namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::LongerStep;
using program::Opcode;
using program::Program;
using program::Timeline;

using Block = CachingAllocator::Block;
constexpr Block kNoBlock = CachingAllocator::kNoBlock;

bool ChangesMemory(const Instruction& instruction) {
  return instruction.opcode == Opcode::kAllocate || instruction.opcode == Opcode::kRelease;
}

// Returns the changes of a program's step, without times.
std::vector<program::MemoryRecord> ChangesOf(const Program& program) {
  std::vector<program::MemoryRecord> records;
  for (Index i = 0; i < program.step.size(); ++i) {
    if (ChangesMemory(program.step[i])) records.push_back({.instruction = i});
  }
  return records;
}

// The bytes of allocated buffers, and the time of their peak.
class Ledger {
 public:
  explicit Ledger(const Program& program) : program_(program) {}

  void Allocate(Index index) {
    const program::Buffer& buffer = program_.buffers[index];
    total_ += buffer.size;
    padding_ += buffer.padding;
    by_category_[static_cast<std::size_t>(buffer.category)] += buffer.size;
    if (total_ <= peak_) return;
    peak_ = total_;
    at_peak_ = by_category_;
    padding_at_peak_ = padding_;
  }

  void Free(Index index) {
    const program::Buffer& buffer = program_.buffers[index];
    total_ -= buffer.size;
    padding_ -= buffer.padding;
    by_category_[static_cast<std::size_t>(buffer.category)] -= buffer.size;
  }

  Bytes peak() const { return peak_; }
  Bytes total() const { return total_; }
  void AddTo(Usage& usage) const {
    usage.peak = peak_;
    usage.at_peak = at_peak_;
    usage.padding = padding_at_peak_;
  }

 private:
  const Program& program_;
  Bytes total_, peak_, padding_, padding_at_peak_;
  BytesByCategory by_category_{}, at_peak_{};
};

// Carries out the changes of a run one after another. Deferred frees and an account need the times
// at which the host issued them. Other figures depend only on the order of the changes, so all
// steps repeat the program's changes, at any times.
class Replay {
 public:
  // `changes`: receives every change, or null.
  Replay(const Program& program, const Timeline& timeline, const DeferredFrees& deferred,
         const Device& device, const Steps& steps, std::vector<Change>* changes)
      : program_(program),
        timeline_(timeline),
        deferred_(deferred),
        steps_asked_(steps),
        timed_(deferred.any() || changes != nullptr),
        repeated_(timed_ ? steps.repeated : 0),
        steps_(timeline.step_ends.size()),
        ledger_(program),
        blocks_(program.buffers.size(), kNoBlock),
        changes_(changes) {
    // Without times and an allocator, a longer step has the peak of the program's step.
    if (!timed_ && device.allocator == Allocator::kNone) steps_asked_.longer.reset();
    if (steps_asked_.longer) owners_ = OwnersOf(program);
    if (device.allocator == Allocator::kNone) return;
    allocator_.emplace(
        static_cast<int>(program.streams.size()),
        CachingAllocator::Settings{
            .capacity = device.capacity,
            .expandable_segments = device.allocator == Allocator::kCachingExpandable});
  }

  // Returns false if memory runs out.
  bool Run() {
    for (const Instruction& instruction : program_.prologue) {
      if (instruction.opcode == Opcode::kAllocate) {
        if (!Allocate(instruction.operand, instruction.stream)) return false;
      } else if (instruction.opcode == Opcode::kRelease) {
        Free(instruction.operand, blocks_[instruction.operand]);
      }
    }
    FindEnds();
    if (!repeated_) return Carry(timeline_.memory, {});
    const std::vector<program::MemoryRecord> untimed =
        timed_ ? std::vector<program::MemoryRecord>() : ChangesOf(program_);
    const Records of_step = timed_ ? RecordsOf(*repeated_) : Records(untimed);
    // A first step that began late ends at another time than a whole one. All steps are placed at
    // the distance between the repeated step and its neighbour.
    const std::vector<Time>& ends = timeline_.step_ends;
    const std::size_t second = std::max<std::size_t>(*repeated_, 1);
    const Time interval = steps_ > 1 ? ends[second] - ends[second - 1] : Time();
    Time longer;  // by which steps are longer so far
    for (step_ = 0; step_ < steps_; ++step_) {
      StopPoint();
      const Time later = (std::int64_t{step_} - *repeated_) * interval + longer;
      if (steps_asked_.longer) {
        const auto more = CarryLonger(of_step, later, *steps_asked_.longer);
        if (!more) return false;
        longer += *more;
        if (IsAsBefore(0, ends[*repeated_] + later + *more)) return true;
        continue;
      }
      std::size_t begin = 0;
      for (std::size_t part = 0; part < kParts.size(); ++part) {
        const std::size_t end = of_step.size() * kParts[part] / kParts.back();
        if (!Carry(of_step.subspan(begin, end - begin), {.time = later})) return false;
        begin = end;
        if (IsAsBefore(part, ends[*repeated_] + later)) return true;
      }
    }
    return true;
  }

  void AddTo(Usage& usage) const {
    ledger_.AddTo(usage);
    if (!allocator_) {
      usage.reserved = usage.peak;
      return;
    }
    usage.reserved = allocator_->peak_reserved();
    usage.flushes = allocator_->calls().flushes;
    if (AnyFlush(step_calls_)) usage.step_calls = step_calls_;
  }

  std::size_t peak_changes() const { return peak_changes_; }
  // The largest sum of buffers that were allocated, and not waiting to be freed, at the same time.
  // They must fit at once, whatever the device's capacity.
  Bytes held() const { return held_; }
  bool of_longer() const { return of_longer_; }

 private:
  // A free that takes effect at a later time.
  using Pending = std::tuple<Time, Index, Block>;
  using Records = std::span<const program::MemoryRecord>;
  // All state that determines the result of further changes.
  struct State {
    DriverCalls calls;
    std::vector<std::int64_t> pending, blocks;
    friend bool operator==(const State&, const State&) = default;
  };
  // A step is compared with the one before after these 64ths of its changes. Most steps are equal
  // from the first changes on; some become equal later.
  static constexpr std::array<std::size_t, 4> kParts = {1, 8, 32, 64};
  // Delay of a change relative to its record, for a micro-batch that follows the record's by
  // `micro_batches`.
  struct Later {
    Time time;
    std::int64_t micro_batches = 0;
  };

  DriverCalls Calls() const { return allocator_ ? allocator_->calls() : DriverCalls{}; }

  // Finds the end of each operation that a deferred free waits for: in each step, or in the
  // repeated one.
  void FindEnds() {
    ends_.assign(deferred_.operations().size() * (repeated_ ? 1 : steps_), Time());
    if (ends_.empty()) return;
    for (const program::OperationRecord& record : timeline_.operations) {
      if (record.step >= steps_ || (repeated_ && record.step != *repeated_)) continue;
      const std::uint32_t number = deferred_.NumberOf(record.instruction);
      if (number != kNone) EndOf(number, record.step) = record.end;
    }
  }

  Time& EndOf(std::uint32_t number, std::uint32_t step) {
    return repeated_ ? ends_[number] : ends_[number * steps_ + step];
  }

  Records RecordsOf(std::uint32_t step) const {
    const auto is_before = [](const auto& record, std::uint32_t before) {
      return record.step < before;
    };
    const auto& all = timeline_.memory;
    const auto first = std::lower_bound(all.begin(), all.end(), step, is_before);
    return {first, std::lower_bound(first, all.end(), step + 1, is_before)};
  }

  // `owners`: for each record of a longer step; otherwise empty. Returns false if memory runs out
  // or the result is unknown.
  bool Carry(Records records, const Later& later, std::span<const Owner> owners = {}) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!repeated_) step_ = records[i].step;
      if (!Carry(records[i], later, owners.empty() ? nullptr : &owners[i])) return false;
    }
    return true;
  }

  // Applies the changes up to the end of the period, then the period's changes repeatedly, each
  // time one period later, then the rest. Returns by how much the step is longer.
  std::optional<Time> CarryLonger(Records records, Time later, const LongerStep& longer) {
    of_micro_batches_.Clear();
    const auto count_before = [&](Index instruction) {
      return static_cast<std::size_t>(std::lower_bound(records.begin(), records.end(), instruction,
                                                       [](const auto& record, Index before) {
                                                         return record.instruction < before;
                                                       }) -
                                      records.begin());
    };
    STEPCAST_CHECK(records.size() == owners_.size(),
                   "every allocation and every free of a step "
                   "must be recorded");
    const std::span<const Owner> owners(owners_);
    const std::size_t begin = count_before(longer.begin), end = count_before(longer.end);
    const auto carry = [&](std::size_t from, std::size_t to, const Later& by) {
      return Carry(records.subspan(from, to - from), by, owners.subspan(from, to - from));
    };
    if (timed_ && !Repeats(records.subspan(count_before(longer.first_begin))
                               .first(end - count_before(longer.first_begin)),
                           end - begin)) {
      of_longer_ = false;
      return std::nullopt;
    }
    if (!carry(0, end, {.time = later})) return std::nullopt;
    const int flushes = Calls().flushes;
    LongerPeriods periods(longer);
    in_later_period_ = true;
    while (periods.Next()) {
      const Time now = later + periods.number() * steps_asked_.period;
      if (!carry(begin, end, {.time = now, .micro_batches = periods.later()})) return std::nullopt;
      if (allocator_ && periods.looks()) periods.Look(LeftAt(now, periods.later()));
    }
    in_later_period_ = false;
    if (Calls().flushes > flushes) of_longer_ = false;
    const Time more = periods.number() * steps_asked_.period;
    if (!carry(end, records.size(), {.time = later + more, .micro_batches = periods.later()})) {
      return std::nullopt;
    }
    return more;
  }

  // Whether each change recurs `of_period` changes later, one period apart, and so do the
  // operations that its free waits for. That the last operations of micro-batches repeat does not
  // imply this.
  bool Repeats(Records records, std::size_t of_period) {
    for (std::size_t i = 0; i + of_period < records.size(); ++i) {
      const program::MemoryRecord &one = records[i], &next = records[i + of_period];
      const Instruction &change = program_.step[one.instruction],
                        &again = program_.step[next.instruction];
      if (change.opcode != again.opcode || change.stream != again.stream ||
          program_.buffers[change.operand].size != program_.buffers[again.operand].size ||
          next.time - one.time != steps_asked_.period ||
          FreedAt(next) - FreedAt(one) != steps_asked_.period) {
        return false;
      }
    }
    return true;
  }

  // The time at which the buffer that a record frees is free on all streams.
  Time FreedAt(const program::MemoryRecord& record) {
    Time until = record.time;
    for (const std::uint32_t number : deferred_.Of(record.instruction)) {
      until = std::max(until, EndOf(number, step_));
    }
    return until;
  }

  // `owner`: null if the step is no longer than the program's.
  bool Carry(const program::MemoryRecord& record, const Later& later, const Owner* owner) {
    const Instruction& instruction = program_.step[record.instruction];
    const Index buffer = instruction.operand;
    const Time time = record.time + later.time;
    time_ = time;
    instruction_ = record.instruction;
    if (owner != nullptr && owner->is_of_all()) {
      of_longer_ = of_longer_ && !in_later_period_;
      owner = nullptr;
    }
    if (instruction.opcode == Opcode::kAllocate) {
      while (!pending_.empty() && std::get<Time>(pending_.front()) <= time) FreeFirstPending();
      if (!Allocate(buffer, instruction.stream)) return false;
      if (owner != nullptr) of_micro_batches_.Add(*owner, later.micro_batches, blocks_[buffer]);
      return true;
    }
    if (instruction.opcode != Opcode::kRelease) return true;
    Block block = blocks_[buffer];
    if (owner != nullptr) {
      block = of_micro_batches_.Take(*owner, later.micro_batches);
      // The micro-batches of the period are not all alike.
      if (block == kNoBlock) {
        of_longer_ = false;
        return false;
      }
    }
    const Time until = FreedAt(record) + later.time;
    if (until > time) {
      pending_bytes_ += program_.buffers[buffer].size;
      pending_.emplace_back(until, buffer, block);
      std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
    } else {
      Free(buffer, block);
    }
    return true;
  }

  bool Allocate(Index buffer, std::uint16_t stream) {
    Block block = 0;
    if (allocator_) {
      const Bytes size = program_.buffers[buffer].size;
      const DriverCalls before = allocator_->calls();
      block = allocator_->TryAllocate(stream, size);
      if (block == kNoBlock) {
        // release_cached_blocks begins with synchronize_and_free_events.
        while (!pending_.empty()) FreeFirstPending();
        block = allocator_->FlushAndAllocate(stream, size);
      }
      if (block == kNoBlock) return false;
      if (step_ == steps_asked_.described && instruction_ != kNone &&
          allocator_->calls() != before) {
        step_calls_.push_back({instruction_, allocator_->calls() - before});
      }
    }
    blocks_[buffer] = block;
    const Bytes peak = ledger_.peak();
    ledger_.Allocate(buffer);
    held_ = std::max(held_, ledger_.total() - pending_bytes_);
    if (changes_ != nullptr) Note(buffer, true);
    if (changes_ != nullptr && ledger_.peak() > peak) peak_changes_ = changes_->size();
    return true;
  }

  void FreeFirstPending() {
    std::pop_heap(pending_.begin(), pending_.end(), std::greater<>());
    const auto [until, buffer, block] = pending_.back();
    pending_.pop_back();
    pending_bytes_ -= program_.buffers[buffer].size;
    Free(buffer, block);
  }

  // `block`: names the block, because a later allocation of the buffer may meanwhile have another
  // one.
  void Free(Index buffer, Block block) {
    if (allocator_) {
      allocator_->Free(block);
      if (blocks_[buffer] == block) blocks_[buffer] = kNoBlock;
    }
    ledger_.Free(buffer);
    if (changes_ != nullptr) Note(buffer, false);
  }

  void Note(Index buffer, bool allocates) {
    changes_->push_back({.time = time_,
                         .step = step_,
                         .instruction = instruction_,
                         .buffer = buffer,
                         .allocates = allocates,
                         .reserved = allocator_ ? allocator_->reserved() : Bytes()});
  }

  // Whether a repeated step has the same state as the previous step had after the same changes. If
  // so, all further changes repeat. `now`: the step's end.
  bool IsAsBefore(std::size_t part, Time now) {
    if (changes_ != nullptr) return false;
    State state = StateAt(now);
    const bool same = step_ > 0 && state == behind_parts_[part];
    behind_parts_[part] = std::move(state);
    return same;
  }

  // The state with times relative to `now`.
  State StateAt(Time now) {
    State state{.calls = Calls(), .pending = {}, .blocks = {}};
    AddPending(now, state.pending);
    for (std::size_t buffer = 0; allocator_ && buffer < blocks_.size(); ++buffer) {
      const Block block = blocks_[buffer];
      if (block == kNoBlock) continue;
      state.blocks.insert(state.blocks.end(), {static_cast<std::int64_t>(buffer), AddressOf(block),
                                               allocator_->SizeOf(block)});
    }
    return state;
  }

  // The state of micro-batches from `later` on, with times relative to `now`. Requires an
  // allocator.
  std::vector<std::int64_t> LeftAt(Time now, std::int64_t later) {
    std::vector<std::int64_t> state = of_micro_batches_.StateFrom(later, *allocator_);
    AddPending(now, state);
    return state;
  }

  void AddPending(Time now, std::vector<std::int64_t>& to) {
    std::sort(pending_.begin(), pending_.end());  // a sorted list is a heap
    for (const auto& [until, buffer, block] : pending_) {
      to.insert(to.end(),
                {(until - now).picoseconds(), static_cast<std::int64_t>(buffer), AddressOf(block)});
    }
  }

  std::int64_t AddressOf(Block block) const {
    return block == kNoBlock || !allocator_ ? -1 : allocator_->AddressOf(block);
  }

  const Program& program_;
  const Timeline& timeline_;
  const DeferredFrees& deferred_;
  Steps steps_asked_;
  const bool timed_;
  const std::optional<std::uint32_t> repeated_;  // without times: any
  const std::size_t steps_;
  Ledger ledger_;
  std::optional<CachingAllocator> allocator_;
  std::vector<Block> blocks_;     // by buffer: the last one
  std::vector<Time> ends_;        // by number, then step where these are not alike
  std::vector<Pending> pending_;  // a heap, the earliest first
  Bytes pending_bytes_, held_;
  std::vector<DriverCallsAt> step_calls_;  // of the described step
  std::vector<Change>* const changes_;
  std::size_t peak_changes_ = 0;
  // The time, step and instruction of the current change.
  Time time_;
  std::uint32_t step_ = 0;
  Index instruction_ = kNone;
  std::array<State, kParts.size()> behind_parts_;  // of the last step
  // For longer steps.
  std::vector<Owner> owners_;  // of the records of a step
  MicroBatchBlocks of_micro_batches_;
  bool in_later_period_ = false;
  bool of_longer_ = true;
};

// Replaces instruction indices of driver calls by numbers of requests, or numbers by indices.
void Renumber(const Program& program, bool to_numbers, std::vector<DriverCallsAt>& calls) {
  Index request = 0;
  auto next = calls.begin();
  for (Index i = 0; i < program.step.size() && next != calls.end(); ++i) {
    if (!ChangesMemory(program.step[i])) continue;
    if (next->instruction == (to_numbers ? i : request)) {
      (next++)->instruction = to_numbers ? request : i;
    }
    ++request;
  }
}

// `account`: receives every change, or null.
Usage Replayed(const Program& program, const Timeline& timeline, const DeferredFrees& deferred,
               const Device& device, const Steps& steps, Account* account) {
  struct Outcome {
    bool fits = false;
    Bytes held;  // at least, at once
    Usage usage;
    std::vector<Change> changes;
    std::size_t peak_changes = 0;
  };
  const auto run = [&](Bytes capacity) {
    Outcome outcome;
    Replay replay(program, timeline, deferred,
                  {.capacity = capacity, .allocator = device.allocator}, steps,
                  account != nullptr ? &outcome.changes : nullptr);
    outcome.fits = replay.Run();
    outcome.held = replay.held();
    outcome.peak_changes = replay.peak_changes();
    if (outcome.fits) replay.AddTo(outcome.usage);
    outcome.usage.of_longer = replay.of_longer();
    return outcome;
  };
  Outcome outcome = run(kUnlimited.capacity);
  outcome.fits = outcome.usage.reserved <= device.capacity;
  // If the sum of live buffers exceeds the capacity, memory returned by the allocator does not
  // help.
  if (!outcome.fits && device.allocator != Allocator::kNone && outcome.held <= device.capacity) {
    if (Outcome limited = run(device.capacity); limited.fits) outcome = std::move(limited);
  }
  outcome.usage.fits = outcome.fits;
  if (account != nullptr) {
    account->changes = std::move(outcome.changes);
    account->peak_changes = outcome.peak_changes;
  }
  return std::move(outcome.usage);
}

}  // namespace

// Caches the last replays without times by everything that their figures depend on. In
// Usage::step_calls of a cached replay, `instruction` is the number of an allocation or free.
struct Replayer::Workspace {
  using Key = std::vector<std::int64_t>;
  struct Known {
    Key key;
    Usage usage;
  };

  // Sets `key`; its first `key_size` words are significant.
  void TakeKey(const Program& program, std::size_t count, const Steps& steps,
               const Device& device) {
    const LongerStep longer = steps.longer.value_or(LongerStep{});
    const std::initializer_list<std::int64_t> first = {
        longer.begin,
        longer.end,
        longer.micro_batches,
        longer.more,
        static_cast<std::int64_t>(count),
        steps.described,
        device.capacity.count(),
        static_cast<std::int64_t>(device.allocator),
        static_cast<std::int64_t>(program.streams.size()),
        static_cast<std::int64_t>(program.buffers.size())};
    const std::size_t most = first.size() + 2 * program.buffers.size() + program.prologue.size() +
                             program.step.size() + 1;
    if (key.size() < most) key.resize(most);
    auto at = std::copy(first.begin(), first.end(), key.begin());
    for (const program::Buffer& buffer : program.buffers) {
      *at++ = buffer.size.count();
      *at++ = buffer.padding.count() << 3 | static_cast<std::int64_t>(buffer.category);
    }
    // It is unpredictable which instructions change memory, so each is written, and the next one
    // overwrites it if it does not.
    const auto add = [&at](const std::vector<Instruction>& instructions) {
      for (const Instruction& instruction : instructions) {
        *at = static_cast<std::int64_t>(program::HeadOf(instruction));
        at += ChangesMemory(instruction) ? 1 : 0;
      }
    };
    add(program.prologue);
    *at++ = -1;
    add(program.step);
    key_size = static_cast<std::size_t>(at - key.begin());
  }

  // Rows differ at the beginning of their keys: in sizes of buffers.
  const Usage* Find() const {
    for (const Known& one : known) {
      if (one.key.size() == key_size && std::equal(one.key.begin(), one.key.end(), key.begin())) {
        return &one.usage;
      }
    }
    return nullptr;
  }

  // Replaces the oldest entry.
  void Keep(const Usage& usage) {
    Known& oldest = known[next];
    next = (next + 1) % known.size();
    oldest.key.assign(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(key_size));
    oldest.usage = usage;
  }

  Key key;
  std::size_t key_size = 0;
  // In a sweep, rows with equal memory use are usually close to each other.
  std::array<Known, 16> known;
  std::size_t next = 0;
};

Replayer::Replayer() : workspace_(std::make_unique<Workspace>()) {}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;
Replayer& Replayer::operator=(Replayer&&) noexcept = default;

Usage Replayer::Figures(const Program& program, const Timeline& timeline,
                        const DeferredFrees& deferred, const Device& device, const Steps& steps) {
  const auto replay = [&] { return Replayed(program, timeline, deferred, device, steps, nullptr); };
  if (deferred.any() || device.allocator == Allocator::kNone) return replay();
  Workspace& workspace = *workspace_;
  workspace.TakeKey(program, timeline.step_ends.size(), steps, device);
  const Usage* known = workspace.Find();
  Usage usage = known != nullptr ? *known : replay();
  if (known == nullptr) {
    Renumber(program, /*to_numbers=*/true, usage.step_calls);
    workspace.Keep(usage);
  }
  Renumber(program, /*to_numbers=*/false, usage.step_calls);
  return usage;
}

Account Record(const Program& program, const Timeline& timeline, const Device& device,
               const Steps& steps) {
  Account account;
  const DeferredFrees deferred(program);
  account.usage = Replayed(program, timeline, deferred, device, steps, &account);
  return account;
}

}  // namespace stepcast::memory
