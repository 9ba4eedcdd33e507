#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/memory/account.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/driver_calls.h"
#include "src/memory/micro_batch_blocks.h"
#include "src/memory/requests.h"
#include "src/memory/steps.h"
#include "src/program/longer_step.h"

// The replay of a program without deferred frees. Its figures depend on the order of the program's
// requests alone, not on times.
namespace stepcast::memory {

// An object keeps the memory that it works in from one replay to the next. Two threads must not use
// it at once.
class ProgramOrderReplay {
 public:
  // Gives the figures after `steps` steps. In Usage::step_calls `instruction` is the index of the
  // request in Requests::step, not of an instruction of the program.
  Usage Figures(const Requests& requests, std::size_t steps, const Steps& asked,
                const Device& device);

 private:
  using Block = CachingAllocator::Block;
  struct LiveBlock {
    std::size_t buffer = 0;
    std::int64_t address = 0, size = 0;
    friend bool operator==(const LiveBlock&, const LiveBlock&) = default;
  };
  // The state decides what any later requests do (CachingAllocator::calls).
  struct State {
    DriverCalls calls;
    std::vector<LiveBlock> blocks;
    friend bool operator==(const State&, const State&) = default;
  };

  bool Run(std::size_t steps, const Steps& asked, const Device& device);
  void AddTo(Usage& usage) const;
  State StateNow() const;
  bool CarrySection(const Section& section);
  bool CarryLonger(const program::LongerStep& longer);
  bool CarryFor(std::size_t request, std::int64_t later);
  bool Carry(std::span<const Request> requests);

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

}  // namespace stepcast::memory
