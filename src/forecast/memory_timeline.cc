#include "src/forecast/memory_timeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/engine/caching_allocator.h"
#include "src/engine/memory_ledger.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;
using program::Timeline;

// What is handed out, and the moment when it was most.
class Ledger {
 public:
  explicit Ledger(const Program& program) : program_(program), ledger_(program::kCategories) {}

  void Allocate(Index index) {
    const program::Buffer& buffer = program_.buffers[index];
    const Bytes peak = ledger_.peak();
    padding_ += buffer.padding;
    ledger_.Allocate(static_cast<int>(buffer.category), buffer.size);
    if (ledger_.peak() > peak) padding_at_peak_ = padding_;
  }

  void Release(Index index) {
    const program::Buffer& buffer = program_.buffers[index];
    padding_ -= buffer.padding;
    ledger_.Release(static_cast<int>(buffer.category), buffer.size);
  }

  void AppendState(std::vector<std::int64_t>& state) const {
    state.push_back(padding_.count());
    for (int c = 0; c < program::kCategories; ++c) state.push_back(ledger_.in_use(c).count());
  }

  void AddTo(MemoryPeak& peak) const {
    peak.total = ledger_.peak();
    peak.padding = padding_at_peak_;
    std::copy(ledger_.at_peak().begin(), ledger_.at_peak().end(), peak.by_category.begin());
  }

 private:
  const Program& program_;
  engine::MemoryLedger ledger_;
  Bytes padding_, padding_at_peak_;
};

// Without an allocator.
class TextbookHoldings {
 public:
  struct Block {
    friend auto operator<=>(const Block&, const Block&) = default;
  };

  explicit TextbookHoldings(const Program& program) : ledger_(program) {}

  void Allocate(Index index, std::uint16_t /*stream*/) { ledger_.Allocate(index); }
  void TryAgain(Index /*index*/, std::uint16_t /*stream*/) {}
  Block BlockOf(Index /*index*/) const { return {}; }
  void Release(Index index, Block /*block*/) { ledger_.Release(index); }
  bool fits() const { return true; }
  void AppendState(std::vector<std::int64_t>& state) const { ledger_.AppendState(state); }
  void AppendBlock(Block /*block*/, std::vector<std::int64_t>& /*state*/) const {}

  MemoryPeak peak() const {
    MemoryPeak peak;
    ledger_.AddTo(peak);
    peak.reserved = peak.total;
    return peak;
  }

 private:
  Ledger ledger_;
};

// In blocks of the caching allocator.
class Holdings {
 public:
  using Block = std::optional<engine::CachingAllocator::Block>;

  Holdings(const Program& program, Bytes capacity, bool expandable)
      : program_(program),
        ledger_(program),
        allocator_(static_cast<int>(program.streams.size()),
                   {.capacity = capacity, .expandable_segments = expandable}),
        blocks_(program.buffers.size()) {}

  void Allocate(Index index, std::uint16_t stream) {
    if (!HandOut(index, stream)) fits_ = false;
  }

  // After an allocation for which there was no room, and releases since.
  void TryAgain(Index index, std::uint16_t stream) { fits_ = HandOut(index, stream); }

  // The block that a buffer has now: a later allocation of the same buffer gets another, while a
  // delayed release may still hold this one.
  Block BlockOf(Index index) const { return blocks_[index]; }

  void Release(Index index, Block block) {
    if (!block) return;  // there was no room for it
    ledger_.Release(index);
    allocator_.Free(*block);
    if (blocks_[index] == block) blocks_[index].reset();
  }

  bool fits() const { return fits_; }

  void AppendState(std::vector<std::int64_t>& state) const {
    ledger_.AppendState(state);
    allocator_.AppendState(state);
    for (const Block& block : blocks_) {
      state.push_back(block ? allocator_.AddressOf(*block) : -1);
      state.push_back(block ? allocator_.SizeOf(*block) : 0);
    }
  }

  void AppendBlock(const Block& block, std::vector<std::int64_t>& state) const {
    state.push_back(block ? allocator_.AddressOf(*block) : -1);
  }

  MemoryPeak peak() const {
    MemoryPeak peak;
    ledger_.AddTo(peak);
    peak.reserved = allocator_.peak_reserved();
    peak.fits = fits_;
    peak.flushes = allocator_.flushes();
    return peak;
  }

 private:
  // What there is no room for is not handed out, and does not count.
  bool HandOut(Index index, std::uint16_t stream) {
    blocks_[index] = allocator_.Allocate(stream, program_.buffers[index].size);
    if (!blocks_[index]) return false;
    ledger_.Allocate(index);
    return true;
  }

  const Program& program_;
  Ledger ledger_;
  engine::CachingAllocator allocator_;
  std::vector<Block> blocks_;  // by buffer
  bool fits_ = true;
};

// Which buffers are handed out, up to a number of changes: played first to find the change that
// made them most, and then up to that one.
class Contents {
 public:
  struct Block {
    friend auto operator<=>(const Block&, const Block&) = default;
  };

  Contents(const Program& program, std::int64_t last_change)
      : program_(program), last_change_(last_change), alive_(program.buffers.size()) {}

  void Allocate(Index index, std::uint16_t /*stream*/) {
    if (++changes_ > last_change_) return;
    ++alive_[index];
    held_ += program_.buffers[index].size;
    if (held_ <= most_) return;
    most_ = held_;
    change_of_peak_ = changes_;
  }
  void TryAgain(Index /*index*/, std::uint16_t /*stream*/) {}
  Block BlockOf(Index /*index*/) const { return {}; }
  void Release(Index index, Block /*block*/) {
    if (++changes_ > last_change_) return;
    --alive_[index];
    held_ -= program_.buffers[index].size;
  }
  bool fits() const { return true; }
  void AppendState(std::vector<std::int64_t>& state) const {
    state.insert(state.end(), alive_.begin(), alive_.end());
  }
  void AppendBlock(Block /*block*/, std::vector<std::int64_t>& /*state*/) const {}

  std::int64_t change_of_peak() const { return change_of_peak_; }
  std::vector<Index> Take() const {
    std::vector<Index> buffers;
    for (std::size_t i = 0; i < alive_.size(); ++i) {
      buffers.insert(buffers.end(), alive_[i], static_cast<Index>(i));
    }
    return buffers;
  }

 private:
  const Program& program_;
  const std::int64_t last_change_;
  std::vector<std::uint32_t> alive_;  // by buffer: how often
  Bytes held_, most_;
  std::int64_t changes_ = 0, change_of_peak_ = 0;
};

template <typename AnyHoldings>
void RunPrologue(const Program& program, AnyHoldings& holdings) {
  for (const Instruction& instruction : program.prologue) {
    if (instruction.opcode == Opcode::kAllocate) {
      holdings.Allocate(instruction.operand, instruction.stream);
    } else if (instruction.opcode == Opcode::kRelease) {
      holdings.Release(instruction.operand, holdings.BlockOf(instruction.operand));
    }
  }
}

// The changes that a step makes to memory, one micro-batch after the other.
struct Changes {
  struct Segment {
    std::size_t first = 0, last = 0;
    std::size_t kind = 0;  // the first segment that makes the same changes
  };

  explicit Changes(const Program& program) {
    std::uint16_t micro_batch = 0;
    for (const Instruction& instruction : program.step) {
      if (instruction.opcode != Opcode::kAllocate && instruction.opcode != Opcode::kRelease) {
        continue;
      }
      if (segments.empty() || instruction.micro_batch != micro_batch) {
        segments.push_back({.first = all.size(), .last = all.size()});
        micro_batch = instruction.micro_batch;
      }
      all.push_back(&instruction);
      segments.back().last = all.size();
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
      Segment& segment = segments[i];
      while (!Same(segments[segment.kind], segment)) ++segment.kind;
    }
  }

  bool Same(const Segment& a, const Segment& b) const {
    return std::equal(all.begin() + static_cast<std::ptrdiff_t>(a.first),
                      all.begin() + static_cast<std::ptrdiff_t>(a.last),
                      all.begin() + static_cast<std::ptrdiff_t>(b.first),
                      all.begin() + static_cast<std::ptrdiff_t>(b.last),
                      [](const Instruction* one, const Instruction* other) {
                        return one->opcode == other->opcode && one->operand == other->operand &&
                               one->stream == other->stream;
                      });
  }

  std::vector<const Instruction*> all;
  std::vector<Segment> segments;
};

// Releases take effect at once, so that equal segments do the same to equal states, and bring no
// new peak the second time: where they lead is remembered. Once a step leaves everything as it
// found it, those to come do so, too.
template <typename AnyHoldings>
void ReplaySteps(const Program& program, int steps, AnyHoldings& holdings) {
  struct Way {
    std::size_t kind = 0;
    std::vector<std::int64_t> from, to;
  };
  RunPrologue(program, holdings);
  const Changes changes(program);
  const auto replay = [&](const Changes::Segment& segment) {
    for (std::size_t i = segment.first; i < segment.last; ++i) {
      const Instruction& instruction = *changes.all[i];
      if (instruction.opcode == Opcode::kAllocate) {
        holdings.Allocate(instruction.operand, instruction.stream);
      } else {
        holdings.Release(instruction.operand, holdings.BlockOf(instruction.operand));
      }
    }
  };
  std::vector<Way> ways;
  std::vector<const Changes::Segment*> ahead;  // by these `state` is ahead of `holdings`
  std::vector<std::int64_t> state, begin;
  holdings.AppendState(state);
  for (int step = 0; step < steps; ++step) {
    begin = state;
    for (const Changes::Segment& segment : changes.segments) {
      const auto known = std::find_if(ways.begin(), ways.end(), [&](const Way& way) {
        return way.kind == segment.kind && way.from == state;
      });
      if (known != ways.end()) {
        if (known->to == state) continue;
        ahead.push_back(&segment);
        state = known->to;
        continue;
      }
      for (const Changes::Segment* before : ahead) replay(*before);
      ahead.clear();
      replay(segment);
      if (!holdings.fits()) return;
      Way& way = ways.emplace_back();
      way.kind = segment.kind;
      holdings.AppendState(way.to);
      way.from = std::move(state);
      state = way.to;
    }
    if (state == begin) return;
  }
}

// Releases that wait for other streams take effect when the timeline says that these are done.
template <typename AnyHoldings>
class TimedReplay {
 public:
  TimedReplay(const Program& program, const Timeline& timeline, const DelayedReleases& delayed,
              const KnownRun& known, AnyHoldings& holdings)
      : program_(program),
        timeline_(timeline),
        delayed_(delayed),
        repeated_(known.repeated),
        known_ends_(known.ends),
        holdings_(holdings),
        steps_(timeline.step_ends.size()) {}

  void Run() {
    RunPrologue(program_, holdings_);
    FindEnds();
    const auto& records = timeline_.memory;
    std::size_t first = 0, last = 0;  // of the step that is repeated
    for (std::size_t i = 0; i < records.size() && holdings_.fits(); ++i) {
      const program::MemoryRecord& record = records[i];
      if (repeated_ && record.step > *repeated_) break;
      if (repeated_ && record.step == *repeated_) {
        if (last == 0) first = i;
        last = i + 1;
      }
      Change(record.instruction, record.time, record.step);
    }
    if (!repeated_) return;
    std::vector<std::int64_t> before, after;
    AppendState(*repeated_, before);
    for (std::uint32_t step = *repeated_ + 1; step < steps_; ++step) {
      const Time later = timeline_.step_ends[step] - timeline_.step_ends[*repeated_];
      for (std::size_t i = first; i < last && holdings_.fits(); ++i) {
        Change(records[i].instruction, records[i].time + later, step);
      }
      // Once a step leaves everything as it found it, those to come bring no new peak.
      after.clear();
      AppendState(step, after);
      if (after == before) return;
      std::swap(before, after);
    }
  }

 private:
  // Until when, buffer, its block.
  using Pending = std::tuple<Time, Index, decltype(std::declval<AnyHoldings>().BlockOf(0))>;

  // When each operation that a release waits for ended, in each step.
  void FindEnds() {
    ends_.assign(delayed_.count() * steps_, Time());
    if (ends_.empty()) return;
    for (std::size_t i = 0; i < known_ends_.size(); ++i) {
      SetEnd(static_cast<std::uint32_t>(i % delayed_.count()),
             static_cast<std::uint32_t>(i / delayed_.count()), known_ends_[i]);
    }
    if (!known_ends_.empty()) return;
    for (const program::OperationRecord& record : timeline_.operations) {
      if (repeated_ && record.step > *repeated_) continue;
      const std::uint32_t number = delayed_.NumberOf(record.instruction);
      if (number != kNone) SetEnd(number, record.step, record.end);
    }
  }

  void SetEnd(std::uint32_t number, std::uint32_t step, Time end) {
    ends_[number * steps_ + step] = end;
    if (step != repeated_) return;
    for (std::size_t later = step + 1; later < steps_; ++later) {
      ends_[number * steps_ + later] =
          end + (timeline_.step_ends[later] - timeline_.step_ends[step]);
    }
  }

  void Change(Index index, Time time, std::uint32_t step) {
    const Instruction& instruction = program_.step[index];
    if (instruction.opcode == Opcode::kAllocate) {
      while (!pending_.empty() && std::get<Time>(pending_.front()) <= time) ReleaseFirst();
      holdings_.Allocate(instruction.operand, instruction.stream);
      if (holdings_.fits() || pending_.empty()) return;
      // Before it gives up, the allocator waits for all the other streams' uses
      // (CUDACachingAllocator.cpp, release_cached_blocks: synchronize_and_free_events).
      while (!pending_.empty()) ReleaseFirst();
      holdings_.TryAgain(instruction.operand, instruction.stream);
    } else if (instruction.opcode == Opcode::kRelease) {
      Time until = time;
      for (const std::uint32_t number : delayed_.Of(index)) {
        until = std::max(until, ends_[number * steps_ + step]);
      }
      if (until > time) {
        pending_.emplace_back(until, instruction.operand, holdings_.BlockOf(instruction.operand));
        std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
      } else {
        holdings_.Release(instruction.operand, holdings_.BlockOf(instruction.operand));
      }
    }
  }

  void ReleaseFirst() {
    std::pop_heap(pending_.begin(), pending_.end(), std::greater<>());
    const auto& [until, buffer, block] = pending_.back();
    holdings_.Release(buffer, block);
    pending_.pop_back();
  }

  // As it is after a step, times as seen from its end.
  void AppendState(std::uint32_t step, std::vector<std::int64_t>& state) {
    std::sort(pending_.begin(), pending_.end());  // a sorted list is a heap
    for (const auto& [until, buffer, block] : pending_) {
      state.push_back((until - timeline_.step_ends[step]).picoseconds());
      state.push_back(buffer);
      holdings_.AppendBlock(block, state);
    }
    holdings_.AppendState(state);
  }

  const Program& program_;
  const Timeline& timeline_;
  const DelayedReleases& delayed_;
  const std::optional<std::uint32_t> repeated_;
  const std::span<const Time> known_ends_;
  AnyHoldings& holdings_;
  const std::size_t steps_;
  std::vector<Time> ends_;        // by number, then step
  std::vector<Pending> pending_;  // a heap, the earliest first
};

template <typename AnyHoldings>
void ReplayTimeline(const Program& program, const Timeline& timeline, AnyHoldings& holdings,
                    const KnownRun& known = {}) {
  if (known.delayed != nullptr) {
    TimedReplay(program, timeline, *known.delayed, known, holdings).Run();
    return;
  }
  const DelayedReleases delayed(program);
  TimedReplay(program, timeline, delayed, known, holdings).Run();
}

// `replay` goes through a run with an allocator that has so much.
template <typename Replay>
MemoryPeak PeakWithin(Bytes capacity, Replay replay) {
  const Bytes unlimited(std::numeric_limits<std::int64_t>::max() / 2);
  MemoryPeak peak = replay(unlimited);
  if (peak.reserved <= capacity) return peak;
  const MemoryPeak limited = replay(capacity);
  if (limited.fits) return limited;
  peak.fits = false;
  return peak;
}

MemoryPeak UntimedPeak(const Program& program, int steps, Bytes capacity, bool expandable) {
  return PeakWithin(capacity, [&](Bytes room) {
    Holdings holdings(program, room, expandable);
    ReplaySteps(program, steps, holdings);
    return holdings.peak();
  });
}

}  // namespace

bool ReleasesAreTimed(const Program& program) {
  return std::any_of(program.step.begin(), program.step.end(), [](const Instruction& instruction) {
    return instruction.opcode == Opcode::kRecordStream;
  });
}

// A release waits for the last use on each recorded stream. Uses and release lie in the same step;
// a use of the step before has then ended long ago.
DelayedReleases::DelayedReleases(const Program& program)
    : release_(program.step.size()), number_(program.step.size()) {
  // Of a buffer with recorded streams, since it was released last.
  struct BufferState {
    std::uint32_t recorded = kNone;  // the last one
    std::uint32_t use = kNone;
  };
  struct Recorded {
    std::uint16_t stream = 0;
    std::uint32_t before = kNone;  // of the same buffer
  };
  struct LastUse {
    std::uint16_t stream = 0;
    Index instruction = 0;
    std::uint32_t before = kNone;
  };
  std::vector<Index> numbers(program.buffers.size(), kNone);
  std::vector<BufferState> states;
  std::vector<Recorded> recorded;
  std::vector<LastUse> last_uses;
  for (const Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kRecordStream) continue;
    Index& number = numbers[instruction.operand];
    if (number != kNone) continue;
    number = static_cast<Index>(states.size());
    states.emplace_back();
  }
  const auto is_recorded = [&recorded](std::uint32_t last, std::uint16_t stream) {
    while (last != kNone && recorded[last].stream != stream) last = recorded[last].before;
    return last != kNone;
  };
  first_.push_back(0);
  for (Index i = 0; i < program.step.size(); ++i) {
    const Instruction& instruction = program.step[i];
    for (Index u = 0; u < instruction.use_count; ++u) {
      const Index number = numbers[program.uses[instruction.first_use + u].buffer];
      if (number == kNone) continue;
      std::uint32_t& last = states[number].use;
      std::uint32_t own = last;
      while (own != kNone && last_uses[own].stream != instruction.stream) {
        own = last_uses[own].before;
      }
      if (own != kNone) {
        last_uses[own].instruction = i;
      } else {
        last_uses.push_back({.stream = instruction.stream, .instruction = i, .before = last});
        last = static_cast<std::uint32_t>(last_uses.size() - 1);
      }
    }
    if (instruction.opcode == Opcode::kRecordStream) {
      std::uint32_t& last = states[numbers[instruction.operand]].recorded;
      recorded.push_back({.stream = instruction.stream, .before = last});
      last = static_cast<std::uint32_t>(recorded.size() - 1);
    } else if (instruction.opcode == Opcode::kRelease) {
      const Index number = numbers[instruction.operand];
      if (number == kNone) continue;
      BufferState& state = states[number];
      for (std::uint32_t own = state.use; own != kNone; own = last_uses[own].before) {
        const LastUse& use = last_uses[own];
        if (!is_recorded(state.recorded, use.stream)) continue;
        if (number_[use.instruction] == 0) number_[use.instruction] = ++count_;
        uses_.push_back(NumberOf(use.instruction));
        if (program.step[use.instruction].opcode == Opcode::kKernel) wait_for_kernels_ = true;
      }
      state = {};
      if (uses_.size() == first_.back()) continue;
      release_[i] = static_cast<std::uint32_t>(first_.size());
      first_.push_back(static_cast<std::uint32_t>(uses_.size()));
    }
  }
}

MemoryPeak PeakOf(const Program& program, const Timeline& timeline, Bytes capacity, bool expandable,
                  const KnownRun& known) {
  if (!ReleasesAreTimed(program)) {
    return UntimedPeak(program, static_cast<int>(timeline.step_ends.size()), capacity, expandable);
  }
  return PeakWithin(capacity, [&](Bytes room) {
    Holdings holdings(program, room, expandable);
    ReplayTimeline(program, timeline, holdings, known);
    return holdings.peak();
  });
}

std::vector<Index> BuffersAtPeak(const Program& program, const Timeline& timeline) {
  Contents all(program, std::numeric_limits<std::int64_t>::max());
  ReplayTimeline(program, timeline, all);
  Contents until_peak(program, all.change_of_peak());
  ReplayTimeline(program, timeline, until_peak);
  return until_peak.Take();
}

MemoryPeak PeakHandedOut(const Program& program, const Timeline& timeline, Bytes capacity,
                         const KnownRun& known) {
  if (!ReleasesAreTimed(program)) {
    return UntimedPeaks::HandedOut(program, static_cast<int>(timeline.step_ends.size()), capacity);
  }
  TextbookHoldings holdings(program);
  ReplayTimeline(program, timeline, holdings, known);
  MemoryPeak peak = holdings.peak();
  peak.fits = peak.total <= capacity;
  return peak;
}

MemoryPeak UntimedPeaks::HandedOut(const Program& program, int steps, Bytes capacity) {
  TextbookHoldings holdings(program);
  ReplaySteps(program, steps, holdings);
  MemoryPeak peak = holdings.peak();
  peak.fits = peak.total <= capacity;
  return peak;
}

MemoryPeak UntimedPeaks::Of(const Program& program, int steps, Bytes capacity, bool expandable) {
  key_.clear();
  key_.push_back(steps);
  key_.push_back(expandable ? 1 : 0);
  key_.push_back(capacity.count());
  key_.push_back(static_cast<std::int64_t>(program.streams.size()));
  const auto add = [this](const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      if (instruction.opcode != Opcode::kAllocate && instruction.opcode != Opcode::kRelease) {
        continue;
      }
      const std::int64_t release = instruction.opcode == Opcode::kRelease ? 1 : 0;
      key_.push_back(release << 48 | static_cast<std::int64_t>(instruction.stream) << 32 |
                     instruction.operand);
    }
    key_.push_back(-1);
  };
  add(program.prologue);
  add(program.step);
  for (const program::Buffer& buffer : program.buffers) {
    key_.push_back(buffer.size.count());
    key_.push_back(buffer.padding.count());
    key_.push_back(static_cast<std::int64_t>(buffer.category));
  }
  // FNV's way over words.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int64_t word : key_) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  const auto found = known_.find(hash);
  if (found != known_.end() && found->second.key == key_) return found->second.peak;
  const MemoryPeak peak = UntimedPeak(program, steps, capacity, expandable);
  if (words_ + key_.size() > kMostWords) {
    known_.clear();
    words_ = 0;
  }
  if (known_.try_emplace(hash, Known{key_, peak}).second) words_ += key_.size();
  return peak;
}

}  // namespace stepcast::forecast
