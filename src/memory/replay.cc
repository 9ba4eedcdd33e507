#include "src/memory/replay.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/memory/caching_allocator.h"
#include "src/program/instruction_head.h"

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

bool AnyFlush(const std::vector<DriverCallsAt>& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const DriverCallsAt& at) { return at.calls.flushes > 0; });
}

// The bytes of allocated buffers, and when they were most.
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

// --- Programs without deferred frees: the order of their requests is all that counts. ---

// An allocation or a free.
struct Request {
  Index buffer = 0;
  std::uint16_t stream = 0;
  bool allocates = false;
  friend bool operator==(const Request&, const Request&) = default;
};

// Those of one micro-batch.
struct Section {
  std::size_t first = 0, last = 0;
  std::size_t kind = 0;  // the first section with the same requests
  // It frees as often as it allocates. Others leave nothing as they find it.
  bool balanced = false;
};

// What a buffer is asked for with.
struct Sized {
  Bytes size, padding;
  program::Category category = program::Category::kParameter;
};

// Which allocation of a step a request is about: what a micro-batch has for one purpose, which is
// what others have at the same place of a layer's pass. Not of the step: what was allocated before
// it.
struct Owner {
  static constexpr std::uint32_t kBeforeStep = kNone;
  std::uint32_t micro_batch = kBeforeStep;
  std::uint32_t purpose = 0;
};

// Numbers purposes: the so-manieth allocation of a layer in a phase of a micro-batch.
class Purposes {
 public:
  std::uint32_t Of(const Instruction& allocation) {
    const bool same_pass = allocation.micro_batch == micro_batch_ && allocation.phase == phase_;
    if (!same_pass) ++pass_;
    micro_batch_ = allocation.micro_batch;
    phase_ = allocation.phase;
    // Not every instruction has a label.
    const std::size_t label = allocation.label == kNone ? 0 : std::size_t{allocation.label} + 1;
    std::vector<Place>& places = places_[static_cast<std::size_t>(phase_)];
    if (places.size() <= label) places.resize(label + 1);
    Place& place = places[label];
    if (std::exchange(place.pass, pass_) != pass_) place.next = 0;
    if (place.next == place.purposes.size()) place.purposes.push_back(count_++);
    return place.purposes[place.next++];
  }

 private:
  // Of a layer's allocations in a phase.
  struct Place {
    std::vector<std::uint32_t> purposes;
    std::size_t next = 0;  // of the pass at hand
    std::uint32_t pass = 0;
  };

  std::array<std::vector<Place>, program::kPhases> places_;  // by label
  std::uint32_t count_ = 0, pass_ = 0;
  std::uint16_t micro_batch_ = 0;
  program::Phase phase_ = program::Phase::kOptimizer;
};

// A program's requests, and nothing else of it.
struct Requests {
  std::size_t streams = 0;
  std::vector<Sized> buffers;
  std::vector<Request> prologue, step;
  std::vector<Section> sections;  // of `step`
  // Of a longer step:
  std::vector<Owner> owners;                     // of the requests of `step`
  std::size_t period_begin = 0, period_end = 0;  // requests of `step`

  void Take(const Program& program, const std::optional<LongerStep>& longer) {
    streams = program.streams.size();
    buffers.clear();
    for (const program::Buffer& buffer : program.buffers) {
      buffers.push_back({buffer.size, buffer.padding, buffer.category});
    }
    prologue.clear();
    step.clear();
    sections.clear();
    for (const Instruction& instruction : program.prologue) Take(instruction, prologue);
    std::uint16_t micro_batch = 0;
    for (const Instruction& instruction : program.step) {
      if (!ChangesMemory(instruction)) continue;
      if (sections.empty() || instruction.micro_batch != micro_batch) {
        sections.push_back({.first = step.size()});
        micro_batch = instruction.micro_batch;
      }
      Take(instruction, step);
      sections.back().last = step.size();
    }
    for (Section& section : sections) {
      const auto own = Of(section);
      const auto allocations = std::count_if(
          own.begin(), own.end(), [](const Request& request) { return request.allocates; });
      section.balanced = 2 * static_cast<std::size_t>(allocations) == own.size();
      if (!section.balanced) continue;
      while (!Same(sections[section.kind], section)) ++section.kind;
    }
    if (longer) TakeOwners(program, *longer);
  }

  std::span<const Request> Of(const Section& section) const {
    return std::span(step).subspan(section.first, section.last - section.first);
  }

 private:
  static void Take(const Instruction& instruction, std::vector<Request>& to) {
    if (!ChangesMemory(instruction)) return;
    to.push_back({.buffer = instruction.operand,
                  .stream = instruction.stream,
                  .allocates = instruction.opcode == Opcode::kAllocate});
  }

  void TakeOwners(const Program& program, const LongerStep& longer) {
    owners.clear();
    std::vector<Owner> of_buffer(program.buffers.size());
    Purposes purposes;
    for (Index i = 0; i < program.step.size(); ++i) {
      if (i == longer.begin) period_begin = owners.size();
      if (i == longer.end) period_end = owners.size();
      const Instruction& instruction = program.step[i];
      if (!ChangesMemory(instruction)) continue;
      Owner& owner = of_buffer[instruction.operand];
      if (instruction.opcode == Opcode::kAllocate) {
        owner = {instruction.micro_batch, purposes.Of(instruction)};
      }
      owners.push_back(owner);
    }
  }

  bool Same(const Section& a, const Section& b) const {
    const auto of_a = Of(a), of_b = Of(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end());
  }
};

// The peak of what is allocated: of totals first, then what they were made of.
void FindPeak(const Requests& requests, std::size_t steps, Usage& usage) {
  Bytes total;
  std::size_t at = 0, peak_at = 0;  // requests
  const auto run = [&](const std::vector<Request>& list) {
    for (const Request& request : list) {
      ++at;
      if (!request.allocates) {
        total -= requests.buffers[request.buffer].size;
        continue;
      }
      total += requests.buffers[request.buffer].size;
      if (total <= usage.peak) continue;
      usage.peak = total;
      peak_at = at;
    }
  };
  run(requests.prologue);
  for (std::size_t step = 0; step < steps; ++step) {
    const Bytes before = total;
    run(requests.step);
    if (total == before) break;  // those to come are like it
  }
  const auto count = [&](const std::vector<Request>& list) {
    for (const Request& request : std::span(list).first(std::min(list.size(), peak_at))) {
      const Sized& buffer = requests.buffers[request.buffer];
      const std::int64_t sign = request.allocates ? 1 : -1;
      usage.at_peak[static_cast<std::size_t>(buffer.category)] += sign * buffer.size;
      usage.padding += sign * buffer.padding;
    }
    peak_at -= std::min(list.size(), peak_at);
  };
  count(requests.prologue);
  while (peak_at > 0) count(requests.step);
}

// What the allocator does with requests in program order.
class ProgramOrderReplay {
 public:
  // False: out of memory.
  bool Run(const Requests& requests, std::size_t steps, std::uint32_t described,
           const Device& device, const std::optional<LongerStep>& longer) {
    requests_ = &requests;
    of_longer_ = true;
    allocator_.Reset(static_cast<int>(requests.streams),
                     {.capacity = device.capacity,
                      .expandable_segments = device.allocator == Allocator::kCachingExpandable});
    blocks_.assign(requests.buffers.size(), kNoBlock);
    live_ = 0;
    unchanging_.clear();
    unchanging_.resize(requests.sections.size());
    step_calls_.clear();
    noting_ = false;
    if (!Carry(requests.prologue)) return false;
    State before = StateNow();
    for (std::size_t step = 0; step < steps; ++step) {
      noting_ = step == described;
      if (longer) {
        if (!CarryLonger(*longer)) return false;
      } else {
        for (const Section& section : requests.sections) {
          if (!CarrySection(section)) return false;
        }
      }
      State after = StateNow();
      // This step changed nothing, so those to come do the same.
      if (Same(before, after)) return true;
      before = std::move(after);
    }
    return true;
  }

  // Of the calls in a step, `instruction` is the number of the request.
  void AddTo(Usage& usage) const {
    usage.reserved = allocator_.peak_reserved();
    usage.flushes = allocator_.calls().flushes;
    usage.of_longer = of_longer_;
    if (AnyFlush(step_calls_)) usage.step_calls = step_calls_;
  }

 private:
  struct LiveBlock {
    std::size_t buffer = 0;
    std::int64_t address = 0, size = 0;
    friend bool operator==(const LiveBlock&, const LiveBlock&) = default;
  };
  // Decides what any requests from here on come to (CachingAllocator::calls).
  struct State {
    DriverCalls calls;
    std::vector<LiveBlock> blocks;
  };

  static bool Same(const State& a, const State& b) {
    return a.calls == b.calls && a.blocks == b.blocks;
  }

  State StateNow() const {
    State state{.calls = allocator_.calls(), .blocks = {}};
    state.blocks.reserve(live_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block block = blocks_[i];
      if (block == kNoBlock) continue;
      state.blocks.push_back({i, allocator_.AddressOf(block), allocator_.SizeOf(block)});
    }
    return state;
  }

  // A micro-batch that left everything as it found it does so again when it finds the same.
  bool CarrySection(const Section& section) {
    if (requests_->sections.size() == 1 || !section.balanced) return Carry(requests_->Of(section));
    State before = StateNow();
    std::optional<State>& known = unchanging_[section.kind];
    if (known && Same(*known, before)) return true;
    if (!Carry(requests_->Of(section))) return false;
    if (Same(before, StateNow())) known = std::move(before);
    return true;
  }

  // The program's step up to the end of the period, the period again for later micro-batches, and
  // the rest for the last of them.
  bool CarryLonger(const LongerStep& longer) {
    const Requests& all = *requests_;
    of_micro_batches_.clear();
    std::int64_t later = 0;  // micro-batches
    for (std::size_t r = 0; r < all.period_end; ++r) {
      if (!CarryFor(r, 0)) return false;
    }
    const DriverCalls before = allocator_.calls();
    std::vector<LiveBlock> live;
    for (std::int64_t period = 1; period <= longer.more; ++period) {
      later = period * longer.micro_batches;
      for (std::size_t r = all.period_begin; r < all.period_end; ++r) {
        if (!CarryFor(r, later)) return false;
      }
      // Often the first period already leaves everything as it found it.
      constexpr std::int64_t kLooks = 2;
      if (period > kLooks || allocator_.calls() != before) continue;
      if (std::vector<LiveBlock> now = LiveOf(later); std::exchange(live, now) == now) break;
    }
    if (allocator_.calls().flushes > before.flushes) of_longer_ = false;
    for (std::size_t r = all.period_end; r < all.step.size(); ++r) {
      if (!CarryFor(r, later)) return false;
    }
    return true;
  }

  // The blocks of micro-batches, as `later` ones before.
  std::vector<LiveBlock> LiveOf(std::int64_t later) const {
    std::vector<LiveBlock> live;
    for (std::size_t m = static_cast<std::size_t>(later); m < of_micro_batches_.size(); ++m) {
      for (std::size_t n = 0; n < of_micro_batches_[m].size(); ++n) {
        const Block block = of_micro_batches_[m][n];
        if (block == kNoBlock) continue;
        live.push_back({(m - static_cast<std::size_t>(later)) << 32 | n,
                        allocator_.AddressOf(block), allocator_.SizeOf(block)});
      }
    }
    return live;
  }

  // A request of the program's step, for a micro-batch so much later. What the first one allocates
  // stays for all of them.
  bool CarryFor(std::size_t request, std::int64_t later) {
    const Request& own = requests_->step[request];
    const Owner& owner = requests_->owners[request];
    if (owner.micro_batch == Owner::kBeforeStep || owner.micro_batch == 0) {
      if (later > 0 && request < requests_->period_end) of_longer_ = false;
      return Carry({&own, 1});
    }
    const std::size_t micro_batch = owner.micro_batch + static_cast<std::size_t>(later);
    if (of_micro_batches_.size() <= micro_batch) of_micro_batches_.resize(micro_batch + 1);
    std::vector<Block>& blocks = of_micro_batches_[micro_batch];
    if (blocks.size() <= owner.purpose) blocks.resize(owner.purpose + 1U, kNoBlock);
    if (own.allocates) {
      if (!Carry({&own, 1})) return false;
      blocks[owner.purpose] = blocks_[own.buffer];
      return true;
    }
    blocks_[own.buffer] = std::exchange(blocks[owner.purpose], kNoBlock);
    if (blocks_[own.buffer] != kNoBlock) return Carry({&own, 1});
    of_longer_ = false;  // the period's micro-batches are not alike
    return true;
  }

  bool Carry(std::span<const Request> requests) {
    for (const Request& request : requests) {
      Block& block = blocks_[request.buffer];
      if (request.allocates) {
        const DriverCalls before = allocator_.calls();
        block = allocator_.Allocate(request.stream, requests_->buffers[request.buffer].size);
        if (block == kNoBlock) return false;
        if (noting_ && allocator_.calls() != before) {
          step_calls_.push_back(
              {static_cast<Index>(&request - requests_->step.data()), allocator_.calls() - before});
        }
        ++live_;
      } else {
        allocator_.Free(std::exchange(block, kNoBlock));
        --live_;
      }
    }
    return true;
  }

  const Requests* requests_ = nullptr;
  CachingAllocator allocator_{1, {}};
  std::vector<Block> blocks_;                     // by buffer
  std::size_t live_ = 0;                          // of blocks_
  std::vector<std::optional<State>> unchanging_;  // by kind of section
  std::vector<DriverCallsAt> step_calls_;
  bool noting_ = false;  // the step at hand is the described one
  // Of a longer step: by micro-batch and purpose.
  std::vector<std::vector<Block>> of_micro_batches_;
  bool of_longer_ = true;
};

Usage InProgramOrder(const Requests& requests, std::size_t count, const Steps& steps,
                     const Device& device, ProgramOrderReplay& replay) {
  Usage usage;
  FindPeak(requests, count, usage);
  if (device.allocator == Allocator::kNone) {
    usage.reserved = usage.peak;
    usage.fits = usage.peak <= device.capacity;
    return usage;
  }
  const auto run = [&](Bytes capacity) {
    return replay.Run(requests, count, steps.described,
                      {.capacity = capacity, .allocator = device.allocator}, steps.longer);
  };
  run(kUnlimited.capacity);
  Usage unlimited = usage;
  replay.AddTo(unlimited);
  unlimited.fits = unlimited.reserved <= device.capacity;
  // Where all of it was alive at once nothing that the allocator gives back helps.
  if (unlimited.fits || usage.peak > device.capacity || !run(device.capacity)) return unlimited;
  usage.fits = true;
  replay.AddTo(usage);
  return usage;
}

// --- Any program, change by change. ---

class TimedReplay {
 public:
  // `changes`: null, or where to note every change.
  TimedReplay(const Program& program, const Timeline& timeline, const DeferredFrees& deferred,
              const Device& device, const Steps& steps, std::vector<Change>* changes)
      : program_(program),
        timeline_(timeline),
        deferred_(deferred),
        steps_asked_(steps),
        repeated_(steps.repeated),
        steps_(timeline.step_ends.size()),
        ledger_(program),
        blocks_(program.buffers.size(), kNoBlock),
        changes_(changes),
        longer_(steps.longer) {
    if (device.allocator == Allocator::kNone) return;
    allocator_.emplace(
        static_cast<int>(program.streams.size()),
        CachingAllocator::Settings{
            .capacity = device.capacity,
            .expandable_segments = device.allocator == Allocator::kCachingExpandable});
  }

  // False: out of memory.
  bool Run() {
    for (const Instruction& instruction : program_.prologue) {
      if (instruction.opcode == Opcode::kAllocate) {
        if (!Allocate(instruction.operand, instruction.stream)) return false;
      } else if (instruction.opcode == Opcode::kRelease) {
        Free(instruction.operand, blocks_[instruction.operand]);
      }
    }
    FindEnds();
    const auto& records = timeline_.memory;
    if (!repeated_) {
      return std::all_of(records.begin(), records.end(), [this](const auto& record) {
        return Carry(record.instruction, record.time, record.step);
      });
    }
    const auto is_before = [](const auto& record, std::uint32_t step) {
      return record.step < step;
    };
    const auto first = std::lower_bound(records.begin(), records.end(), *repeated_, is_before);
    const auto last = std::lower_bound(first, records.end(), *repeated_ + 1, is_before);
    State before;
    for (std::uint32_t step = 0; step < steps_; ++step) {
      const Time later = timeline_.step_ends[step] - timeline_.step_ends[*repeated_];
      for (auto record = first; record != last; ++record) {
        if (!Carry(record->instruction, record->time + later, step)) return false;
      }
      if (changes_ != nullptr) continue;
      // A step that leaves everything as it found it is like those to come.
      State after = StateAt(timeline_.step_ends[step]);
      if (step > 0 && Same(before, after)) return true;
      before = std::move(after);
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
    usage.of_longer = of_longer_;
    if (AnyFlush(step_calls_)) usage.step_calls = step_calls_;
  }

  std::size_t peak_changes() const { return peak_changes_; }
  // The most bytes of buffers that were allocated and not to be freed at the same time: whatever the
  // device's capacity is, they have room at once.
  Bytes held() const { return held_; }

 private:
  // A free that waits until then.
  using Pending = std::tuple<Time, Index, Block>;
  struct State {
    DriverCalls calls;
    std::vector<std::int64_t> pending, blocks;
  };

  DriverCalls Calls() const { return allocator_ ? allocator_->calls() : DriverCalls{}; }

  // When each operation that a deferred free waits for ended, in each step.
  void FindEnds() {
    ends_.assign(deferred_.operations().size() * steps_, Time());
    if (ends_.empty()) return;
    for (const program::OperationRecord& record : timeline_.operations) {
      if (record.step >= steps_ || (repeated_ && record.step != *repeated_)) continue;
      const std::uint32_t number = deferred_.NumberOf(record.instruction);
      if (number == kNone) continue;
      if (!repeated_) {
        ends_[number * steps_ + record.step] = record.end;
        continue;
      }
      for (std::size_t step = 0; step < steps_; ++step) {
        ends_[number * steps_ + step] =
            record.end + (timeline_.step_ends[step] - timeline_.step_ends[record.step]);
      }
    }
  }

  bool Carry(Index index, Time time, std::uint32_t step) {
    const Instruction& instruction = program_.step[index];
    if (longer_) LookAt(index, time, step);
    time_ = time;
    step_ = step;
    instruction_ = index;
    if (instruction.opcode == Opcode::kAllocate) {
      while (!pending_.empty() && std::get<Time>(pending_.front()) <= time) FreeFirstPending();
      return Allocate(instruction.operand, instruction.stream);
    }
    if (instruction.opcode != Opcode::kRelease) return true;
    Time until = time;
    for (const std::uint32_t number : deferred_.Of(index)) {
      until = std::max(until, ends_[number * steps_ + step]);
    }
    const Index buffer = instruction.operand;
    if (until > time) {
      pending_bytes_ += program_.buffers[buffer].size;
      pending_.emplace_back(until, buffer, blocks_[buffer]);
      std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
    } else {
      Free(buffer, blocks_[buffer]);
    }
    return true;
  }

  bool Allocate(Index buffer, std::uint16_t stream) {
    if (allocator_) {
      const Bytes size = program_.buffers[buffer].size;
      const DriverCalls before = allocator_->calls();
      Block block = allocator_->TryAllocate(stream, size);
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
      blocks_[buffer] = block;
    }
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

  // `block`: which one, for a later allocation of the buffer may have got another meanwhile.
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

  static bool Same(const State& a, const State& b) {
    return a.calls == b.calls && a.pending == b.pending && a.blocks == b.blocks;
  }

  // Before the first change behind the begin of the period, and behind its end: whether it finds
  // the allocator as it leaves it.
  void LookAt(Index index, Time time, std::uint32_t step) {
    if (step != looked_step_) {
      looked_step_ = step;
      looks_ = 0;
    }
    if (looks_ == 0 && index >= longer_->begin) {
      ++looks_;
      at_begin_ = StateAt(time);
    } else if (looks_ == 1 && index >= longer_->end) {
      ++looks_;
      of_longer_ = of_longer_ && Same(at_begin_, StateAt(time));
    }
  }

  // Times as seen from this one.
  State StateAt(Time now) {
    State state{.calls = Calls(), .pending = {}, .blocks = {}};
    std::sort(pending_.begin(), pending_.end());  // a sorted list is a heap
    const auto address = [&](Block block) {
      return block == kNoBlock || !allocator_ ? std::int64_t{-1} : allocator_->AddressOf(block);
    };
    const auto size = [&](Block block) {
      return block == kNoBlock || !allocator_ ? std::int64_t{0} : allocator_->SizeOf(block);
    };
    for (const auto& [until, buffer, block] : pending_) {
      state.pending.insert(
          state.pending.end(),
          {(until - now).picoseconds(), static_cast<std::int64_t>(buffer), address(block)});
    }
    for (const Block block : blocks_) {
      state.blocks.push_back(address(block));
      state.blocks.push_back(size(block));
    }
    return state;
  }

  const Program& program_;
  const Timeline& timeline_;
  const DeferredFrees& deferred_;
  const Steps steps_asked_;
  const std::optional<std::uint32_t> repeated_;
  const std::size_t steps_;
  Ledger ledger_;
  std::optional<CachingAllocator> allocator_;
  std::vector<Block> blocks_;              // by buffer: the last one
  std::vector<Time> ends_;                 // by number, then step
  std::vector<Pending> pending_;           // a heap, the earliest first
  Bytes pending_bytes_, held_;
  std::vector<DriverCallsAt> step_calls_;  // of the described step
  std::vector<Change>* const changes_;
  std::size_t peak_changes_ = 0;
  // Of the change at hand.
  Time time_;
  std::uint32_t step_ = 0;
  Index instruction_ = kNone;
  const std::optional<LongerStep> longer_;
  std::uint32_t looked_step_ = kNone;
  int looks_ = 0;  // in that step
  State at_begin_;
  bool of_longer_ = true;
};

Usage Timed(const Program& program, const Timeline& timeline, const DeferredFrees& deferred,
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
    TimedReplay replay(program, timeline, deferred,
                       {.capacity = capacity, .allocator = device.allocator}, steps,
                       account != nullptr ? &outcome.changes : nullptr);
    outcome.fits = replay.Run();
    outcome.held = replay.held();
    outcome.peak_changes = replay.peak_changes();
    if (outcome.fits) replay.AddTo(outcome.usage);
    return outcome;
  };
  Outcome outcome = run(kUnlimited.capacity);
  outcome.fits = outcome.usage.reserved <= device.capacity;
  // Where all of it was held at once nothing that the allocator gives back helps.
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

// The requests that calls of the driver were numbered by, as instructions of a program with these.
void NameInstructions(const Program& program, std::vector<DriverCallsAt>& calls) {
  Index request = 0;
  auto next = calls.begin();
  for (Index i = 0; i < program.step.size() && next != calls.end(); ++i) {
    if (!ChangesMemory(program.step[i])) continue;
    if (request++ == next->instruction) (next++)->instruction = i;
  }
}

}  // namespace

// What was replayed last, by all that its figures depend on.
struct Replayer::Workspace {
  using Key = std::vector<std::int64_t>;
  struct Known {
    Key key;
    Usage usage;
  };

  // Sets `key`, of which `key_size` words count.
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
    // Which instructions change memory cannot be foreseen: all are written, the others over again.
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

  // Rows differ where their keys begin: in sizes of buffers.
  const Usage* Find() const {
    for (const Known& one : known) {
      if (one.key.size() == key_size && std::equal(one.key.begin(), one.key.end(), key.begin())) {
        return &one.usage;
      }
    }
    return nullptr;
  }

  // In place of the one that was kept first.
  void Keep(const Usage& usage) {
    Known& oldest = known[next];
    next = (next + 1) % known.size();
    oldest.key.assign(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(key_size));
    oldest.usage = usage;
  }

  Requests requests;
  ProgramOrderReplay replay;
  Key key;
  std::size_t key_size = 0;
  // Rows of a sweep that need the same are near one another.
  std::array<Known, 16> known;
  std::size_t next = 0;
};

Replayer::Replayer() : workspace_(std::make_unique<Workspace>()) {}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;
Replayer& Replayer::operator=(Replayer&&) noexcept = default;

Usage Replayer::Figures(const Program& program, const Timeline& timeline,
                        const DeferredFrees& deferred, const Device& device, const Steps& steps) {
  if (deferred.any()) return Timed(program, timeline, deferred, device, steps, nullptr);
  Workspace& workspace = *workspace_;
  const std::size_t count = timeline.step_ends.size();
  const auto replay = [&] {
    workspace.requests.Take(program, steps.longer);
    return InProgramOrder(workspace.requests, count, steps, device, workspace.replay);
  };
  if (device.allocator == Allocator::kNone) return replay();
  workspace.TakeKey(program, count, steps, device);
  const Usage* known = workspace.Find();
  Usage usage = known != nullptr ? *known : replay();
  if (known == nullptr) workspace.Keep(usage);
  NameInstructions(program, usage.step_calls);
  return usage;
}

Account Record(const Program& program, const Timeline& timeline, const Device& device,
               const Steps& steps) {
  Account account;
  const DeferredFrees deferred(program);
  account.usage = Timed(program, timeline, deferred, device, steps, &account);
  return account;
}

}  // namespace stepcast::memory
