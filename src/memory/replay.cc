#include "src/memory/replay.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/timed_replay.h"
#include "src/program/instruction.h"
#include "src/program/program.h"

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::LongerStep;
using program::Opcode;
using program::Program;
using program::Timeline;

namespace {

// The requests of a program: its allocations and frees, in instruction order.

bool ChangesMemory(const Instruction& instruction) {
  return instruction.opcode == Opcode::kAllocate || instruction.opcode == Opcode::kRelease;
}

// An allocation or a free.
struct Request {
  program::Index buffer = 0;
  std::uint16_t stream = 0;
  bool allocates = false;
  friend bool operator==(const Request&, const Request&) = default;
};

// A section is the run of requests that one micro-batch makes: [first, last) of Requests::step.
struct Section {
  std::size_t first = 0, last = 0;
  std::size_t kind = 0;  // the index of the first section that makes the same requests
  // A section that frees as often as it allocates. Another section cannot leave the allocator as it
  // was.
  bool balanced = false;
};

// The properties of a buffer that memory depends on.
struct Sized {
  Bytes size, padding;  // `padding` is a part of `size`
  program::Category category = program::Category::kParameter;
};

struct Requests {
  std::size_t streams = 0;
  std::vector<Sized> buffers;
  std::vector<Request> prologue, step;
  std::vector<Section> sections;  // of `step`
  // Only set for a longer step: one owner for each request of `step`, and the requests
  // [period_begin, period_end) of `step` that form its period.
  std::vector<Owner> owners;
  std::size_t period_begin = 0, period_end = 0;

  // Replaces the contents with the requests of `program`.
  void Take(const Program& program, const std::optional<LongerStep>& longer) {
    streams = program.streams.size();
    buffers.clear();
    for (const program::Buffer& buffer : program.buffers) {
      buffers.push_back({buffer.size, buffer.padding, buffer.category});
    }
    prologue.clear();
    step.clear();
    sections.clear();
    for (const Instruction& instruction : program.prologue) AddTo(prologue, instruction);
    std::uint16_t micro_batch = 0;
    for (const Instruction& instruction : program.step) {
      if (!ChangesMemory(instruction)) continue;
      if (sections.empty() || instruction.micro_batch != micro_batch) {
        sections.push_back({.first = step.size()});
        micro_batch = instruction.micro_batch;
      }
      AddTo(step, instruction);
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
    if (longer) TakePeriod(program, *longer);
  }

  std::span<const Request> Of(const Section& section) const {
    return std::span(step).subspan(section.first, section.last - section.first);
  }

 private:
  static void AddTo(std::vector<Request>& requests, const Instruction& instruction) {
    if (!ChangesMemory(instruction)) return;
    requests.push_back({.buffer = instruction.operand,
                        .stream = instruction.stream,
                        .allocates = instruction.opcode == Opcode::kAllocate});
  }

  void TakePeriod(const Program& program, const LongerStep& longer) {
    owners = OwnersOf(program);
    const auto requests_before = [&](Index instruction) {
      return static_cast<std::size_t>(
          std::count_if(program.step.begin(), program.step.begin() + instruction, ChangesMemory));
    };
    period_begin = requests_before(longer.begin);
    period_end = requests_before(longer.end);
  }

  bool Same(const Section& a, const Section& b) const {
    const auto of_a = Of(a), of_b = Of(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end());
  }
};

// Finds the peak of allocated bytes: first of totals, then its categories.
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

// Replay of a program without deferred frees. The figures depend only on the order of the program's
// requests, not on times.

// Reuses its memory from one replay to the next. Not thread-safe.
class ProgramOrderReplay {
 public:
  // The figures after `steps` steps. In Usage::step_calls, `instruction` is an index into
  // Requests::step, not an instruction of the program.
  Usage Figures(const Requests& requests, std::size_t steps, const Steps& asked,
                const Device& device) {
    Usage usage;
    FindPeak(requests, steps, usage);
    if (device.allocator == Allocator::kNone) {
      usage.reserved = usage.peak;
      usage.fits = usage.peak <= device.capacity;
      return usage;
    }
    requests_ = &requests;
    const auto run = [&](Bytes capacity) {
      return Run(steps, asked, {.capacity = capacity, .allocator = device.allocator});
    };
    run(kUnlimited.capacity);
    Usage unlimited = usage;
    AddTo(unlimited);
    unlimited.fits = unlimited.reserved <= device.capacity;
    // If the sum of live buffers exceeds the capacity, memory returned by the allocator does not
    // help.
    if (unlimited.fits || usage.peak > device.capacity || !run(device.capacity)) return unlimited;
    usage.fits = true;
    AddTo(usage);
    return usage;
  }

 private:
  using Block = CachingAllocator::Block;
  struct LiveBlock {
    std::size_t buffer = 0;
    std::int64_t address = 0, size = 0;
    friend bool operator==(const LiveBlock&, const LiveBlock&) = default;
  };
  // The state determines the result of all later requests (CachingAllocator::calls).
  struct State {
    DriverCalls calls;
    std::vector<LiveBlock> blocks;
    friend bool operator==(const State&, const State&) = default;
  };

  // False: out of memory.
  bool Run(std::size_t steps, const Steps& asked, const Device& device) {
    const Requests& requests = *requests_;
    of_longer_ = true;
    allocator_.Reset(static_cast<int>(requests.streams),
                     {.capacity = device.capacity,
                      .expandable_segments = device.allocator == Allocator::kCachingExpandable});
    blocks_.assign(requests.buffers.size(), CachingAllocator::kNoBlock);
    live_ = 0;
    unchanging_.clear();
    unchanging_.resize(requests.sections.size());
    step_calls_.clear();
    noting_ = false;
    if (!Carry(requests.prologue)) return false;
    State before = StateNow();
    for (std::size_t step = 0; step < steps; ++step) {
      noting_ = step == asked.described;
      if (asked.longer) {
        if (!CarryLonger(*asked.longer)) return false;
      } else {
        for (const Section& section : requests.sections) {
          if (!CarrySection(section)) return false;
        }
      }
      State after = StateNow();
      // A step without changes is followed by equal steps.
      if (before == after) return true;
      before = std::move(after);
    }
    return true;
  }

  void AddTo(Usage& usage) const {
    usage.reserved = allocator_.peak_reserved();
    usage.flushes = allocator_.calls().flushes;
    usage.of_longer = of_longer_;
    if (AnyFlush(step_calls_)) usage.step_calls = step_calls_;
  }

  State StateNow() const {
    State state{.calls = allocator_.calls(), .blocks = {}};
    state.blocks.reserve(live_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block block = blocks_[i];
      if (block == CachingAllocator::kNoBlock) continue;
      state.blocks.push_back({i, allocator_.AddressOf(block), allocator_.SizeOf(block)});
    }
    return state;
  }

  // A micro-batch that left the state unchanged does so again if it finds the same state.
  bool CarrySection(const Section& section) {
    if (requests_->sections.size() == 1 || !section.balanced) return Carry(requests_->Of(section));
    State before = StateNow();
    std::optional<State>& known = unchanging_[section.kind];
    if (known && *known == before) return true;
    if (!Carry(requests_->Of(section))) return false;
    if (before == StateNow()) known = std::move(before);
    return true;
  }

  // Replays the program's step up to the end of the period, the period again for later
  // micro-batches, and the rest for the last of them.
  bool CarryLonger(const LongerStep& longer) {
    const Requests& all = *requests_;
    of_micro_batches_.Clear();
    const auto carry = [&](std::size_t from, std::size_t to, std::int64_t later) {
      for (std::size_t r = from; r < to; ++r) {
        if (!CarryFor(r, later)) return false;
      }
      return true;
    };
    if (!carry(0, all.period_end, 0)) return false;
    const DriverCalls before = allocator_.calls();
    LongerPeriods periods(longer);
    while (periods.Next()) {
      if (!carry(all.period_begin, all.period_end, periods.later())) return false;
      if (!periods.looks()) continue;
      periods.Look(of_micro_batches_.StateFrom(periods.later(), allocator_));
    }
    if (allocator_.calls().flushes > before.flushes) of_longer_ = false;
    return carry(all.period_end, all.step.size(), periods.later());
  }

  // Replays a request of the program's step for a micro-batch that is `later` micro-batches later.
  bool CarryFor(std::size_t request, std::int64_t later) {
    const Request& own = requests_->step[request];
    const Owner& owner = requests_->owners[request];
    if (owner.is_of_all()) {
      if (later > 0 && request < requests_->period_end) of_longer_ = false;
      return Carry({&own, 1});
    }
    if (own.allocates) {
      if (!Carry({&own, 1})) return false;
      of_micro_batches_.Add(owner, later, blocks_[own.buffer]);
      return true;
    }
    blocks_[own.buffer] = of_micro_batches_.Take(owner, later);
    if (blocks_[own.buffer] != CachingAllocator::kNoBlock) return Carry({&own, 1});
    of_longer_ = false;  // the period's micro-batches are not alike
    return true;
  }

  bool Carry(std::span<const Request> requests) {
    for (const Request& request : requests) {
      Block& block = blocks_[request.buffer];
      if (request.allocates) {
        const DriverCalls before = allocator_.calls();
        block = allocator_.Allocate(request.stream, requests_->buffers[request.buffer].size);
        if (block == CachingAllocator::kNoBlock) return false;
        if (noting_ && allocator_.calls() != before) {
          step_calls_.push_back(
              {static_cast<Index>(&request - requests_->step.data()), allocator_.calls() - before});
        }
        ++live_;
      } else {
        allocator_.Free(std::exchange(block, CachingAllocator::kNoBlock));
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
  bool noting_ = false;                // the step at hand is the described one
  MicroBatchBlocks of_micro_batches_;  // of a longer step
  bool of_longer_ = true;
};

// Replaces request numbers of driver calls by instruction indices of the program.
void NameInstructions(const Program& program, std::vector<DriverCallsAt>& calls) {
  Index request = 0;
  auto next = calls.begin();
  for (Index i = 0; i < program.step.size() && next != calls.end(); ++i) {
    if (!ChangesMemory(program.step[i])) continue;
    if (request++ == next->instruction) (next++)->instruction = i;
  }
}

}  // namespace

// Caches the last replay by everything that its figures depend on.
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

  Requests requests;
  ProgramOrderReplay in_program_order;
  Key key;
  std::size_t key_size = 0;
  // Rows of a sweep with equal needs are close to one another.
  std::array<Known, 16> known;
  std::size_t next = 0;
};

Replayer::Replayer() : workspace_(std::make_unique<Workspace>()) {}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;
Replayer& Replayer::operator=(Replayer&&) noexcept = default;

Usage Replayer::Figures(const Program& program, const Timeline& timeline,
                        const DeferredFrees& deferred, const Device& device, const Steps& steps) {
  if (deferred.any()) return ReplayTimed(program, timeline, deferred, device, steps, nullptr);
  Workspace& workspace = *workspace_;
  const std::size_t count = timeline.step_ends.size();
  const auto replay = [&] {
    workspace.requests.Take(program, steps.longer);
    return workspace.in_program_order.Figures(workspace.requests, count, steps, device);
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
  account.usage = ReplayTimed(program, timeline, deferred, device, steps, &account);
  return account;
}

}  // namespace stepcast::memory
