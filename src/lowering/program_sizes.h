#pragma once

#include <algorithm>
#include <array>
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
  static constexpr std::size_t kFields = 6;

  Formulas& formulas() { return formulas_; }
  // The field of the entry is that amount; nothing to remember where it does not vary.
  void Add(Field field, program::Index entry, const Amount& amount);

  // Whether every size in the program that depends on numbers of ranks is here: not for all plans.
  bool complete() const { return complete_; }
  void SetComplete() { complete_ = true; }
  // Whether no size does.
  bool empty() const {
    return std::all_of(entries_.begin(), entries_.end(),
                       [](const auto& entries) { return entries.empty(); });
  }

  // Kernels that Apply changes.
  const std::vector<program::Index>& kernels() const { return kernels_; }

  // Gives the program, which must be the one that these are the sizes of, those for `ranks` ranks
  // in a shard group. False where it has other instructions then; its sizes may then be anything.
  bool Apply(std::int64_t ranks, program::Program& program);

  // By buffer: two that have the same number, and the same size and padding now, have so for any
  // number of ranks.
  std::vector<std::uint64_t> LikenessOfBuffers(std::size_t buffers) const;

  void Clear();

 private:
  struct Entry {
    program::Index index = 0;
    std::uint32_t formula = 0;
  };

  std::vector<Entry>& EntriesOf(Field field) { return entries_[static_cast<std::size_t>(field)]; }

  Formulas formulas_;
  std::array<std::vector<Entry>, kFields> entries_;
  std::vector<program::Index> kernels_;
  bool complete_ = false;
};

}  // namespace stepcast::lowering
