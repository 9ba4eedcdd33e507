#include "src/memory/program_order_replay.h"

#include <algorithm>
#include <utility>

#include "src/memory/longer_periods.h"

namespace stepcast::memory {

using program::Index;
using program::LongerStep;

namespace {

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

}  // namespace

Usage ProgramOrderReplay::Figures(const Requests& requests, std::size_t steps, const Steps& asked,
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
  // Where all of it was alive at once nothing that the allocator gives back helps.
  if (unlimited.fits || usage.peak > device.capacity || !run(device.capacity)) return unlimited;
  usage.fits = true;
  AddTo(usage);
  return usage;
}

// False: out of memory.
bool ProgramOrderReplay::Run(std::size_t steps, const Steps& asked, const Device& device) {
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
    // This step changed nothing, so those to come do the same.
    if (before == after) return true;
    before = std::move(after);
  }
  return true;
}

void ProgramOrderReplay::AddTo(Usage& usage) const {
  usage.reserved = allocator_.peak_reserved();
  usage.flushes = allocator_.calls().flushes;
  usage.of_longer = of_longer_;
  if (AnyFlush(step_calls_)) usage.step_calls = step_calls_;
}

ProgramOrderReplay::State ProgramOrderReplay::StateNow() const {
  State state{.calls = allocator_.calls(), .blocks = {}};
  state.blocks.reserve(live_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block block = blocks_[i];
    if (block == CachingAllocator::kNoBlock) continue;
    state.blocks.push_back({i, allocator_.AddressOf(block), allocator_.SizeOf(block)});
  }
  return state;
}

// A micro-batch that left everything as it found it does so again when it finds the same.
bool ProgramOrderReplay::CarrySection(const Section& section) {
  if (requests_->sections.size() == 1 || !section.balanced) return Carry(requests_->Of(section));
  State before = StateNow();
  std::optional<State>& known = unchanging_[section.kind];
  if (known && *known == before) return true;
  if (!Carry(requests_->Of(section))) return false;
  if (before == StateNow()) known = std::move(before);
  return true;
}

// The program's step up to the end of the period, the period again for later micro-batches, and the
// rest for the last of them.
bool ProgramOrderReplay::CarryLonger(const LongerStep& longer) {
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

// A request of the program's step, for a micro-batch so much later.
bool ProgramOrderReplay::CarryFor(std::size_t request, std::int64_t later) {
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

bool ProgramOrderReplay::Carry(std::span<const Request> requests) {
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

}  // namespace stepcast::memory
