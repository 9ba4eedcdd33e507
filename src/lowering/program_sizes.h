#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/lowering/formulas.h"
#include "src/program/program.h"

namespace stepcast::lowering {

// The entries of a program's tables that depend on the number of ranks in a shard group, and their
// formulas. Written by lowering (LowerOptions::sizes).
class ProgramSizes {
 public:
  enum class Field : std::uint8_t {
    kBufferSize,
    kBufferPadding,
    kKernelRead,
    kKernelWritten,
    kKernelGiven,  // picoseconds
    kCollectiveBytes,
  };

  Formulas& formulas() { return formulas_; }
  // The field of the entry is that amount; nothing to remember where it does not vary.
  void Add(Field field, program::Index entry, const Amount& amount);

  // Whether every size in the program that depends on numbers of ranks is here: not for all plans.
  bool complete() const { return complete_; }
  void SetComplete() { complete_ = true; }
  // Whether no size does.
  bool empty() const { return entries_.empty(); }

  // Gives the program, which must be the one that these are the sizes of, those for `ranks` ranks
  // in a shard group. False where it has other instructions then; its sizes may then be anything.
  bool Apply(std::int64_t ranks, program::Program& program);

  // By buffer: two that have the same number, and the same size and padding now, have so for any
  // number of ranks.
  std::vector<std::uint64_t> LikenessOfBuffers(std::size_t buffers) const;

  void Clear();

 private:
  struct Entry {
    Field field = Field::kBufferSize;
    program::Index index = 0;
    std::uint32_t formula = 0;
  };

  Formulas formulas_;
  std::vector<Entry> entries_;
  bool complete_ = false;
};

}  // namespace stepcast::lowering
