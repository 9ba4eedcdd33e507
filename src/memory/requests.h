#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/micro_batch_blocks.h"
#include "src/program/longer_step.h"
#include "src/program/program.h"

// What a program asks of the allocator, in its order.
namespace stepcast::memory {

inline bool ChangesMemory(const program::Instruction& instruction) {
  return instruction.opcode == program::Opcode::kAllocate ||
         instruction.opcode == program::Opcode::kRelease;
}

// An allocation or a free.
struct Request {
  program::Index buffer = 0;
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

// A program's requests, and nothing else of it.
struct Requests {
  std::size_t streams = 0;
  std::vector<Sized> buffers;
  std::vector<Request> prologue, step;
  std::vector<Section> sections;  // of `step`
  // Of a longer step:
  std::vector<Owner> owners;                     // of the requests of `step`
  std::size_t period_begin = 0, period_end = 0;  // requests of `step`

  void Take(const program::Program& program, const std::optional<program::LongerStep>& longer);

  std::span<const Request> Of(const Section& section) const {
    return std::span(step).subspan(section.first, section.last - section.first);
  }

 private:
  void TakePeriod(const program::Program& program, const program::LongerStep& longer);
  bool Same(const Section& a, const Section& b) const;
};

}  // namespace stepcast::memory
