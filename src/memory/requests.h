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

// The requests of a program: its allocations and frees, in the order of its instructions, and
// nothing else of it.
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

// A section is the run of requests that one micro-batch makes: [first, last) of Requests::step.
struct Section {
  std::size_t first = 0, last = 0;
  std::size_t kind = 0;  // the index of the first section that makes the same requests
  // The section frees as often as it allocates. A section that does not cannot leave the allocator
  // as it finds it.
  bool balanced = false;
};

// The part of a buffer that memory depends on.
struct Sized {
  Bytes size, padding;  // `padding` is a part of `size`
  program::Category category = program::Category::kParameter;
};

struct Requests {
  std::size_t streams = 0;
  std::vector<Sized> buffers;
  std::vector<Request> prologue, step;
  std::vector<Section> sections;  // of `step`
  // These three are set only when a longer step is asked for: one owner for each request of `step`,
  // and the requests [period_begin, period_end) of `step` that make up its period.
  std::vector<Owner> owners;
  std::size_t period_begin = 0, period_end = 0;

  // Replaces the contents by the requests of `program`.
  void Take(const program::Program& program, const std::optional<program::LongerStep>& longer);

  std::span<const Request> Of(const Section& section) const {
    return std::span(step).subspan(section.first, section.last - section.first);
  }

 private:
  void TakePeriod(const program::Program& program, const program::LongerStep& longer);
  bool Same(const Section& a, const Section& b) const;
};

}  // namespace stepcast::memory
