#include "src/lowering/program_sizes.h"

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::lowering {

void ProgramSizes::Add(Field field, program::Index entry, const Amount& amount) {
  if (amount.varies()) entries_.push_back({field, entry, amount.formula()});
}

bool ProgramSizes::Apply(std::int64_t ranks, program::Program& program) {
  if (!formulas_.Evaluate(ranks)) return false;
  for (const Entry& entry : entries_) {
    const std::int64_t value = formulas_.value(entry.formula);
    switch (entry.field) {
      case Field::kBufferSize:
        program.buffers[entry.index].size = Bytes(value);
        break;
      case Field::kBufferPadding:
        program.buffers[entry.index].padding = Bytes(value);
        break;
      case Field::kKernelRead:
        program.kernels[entry.index].read = Bytes(value);
        break;
      case Field::kKernelWritten:
        program.kernels[entry.index].written = Bytes(value);
        break;
      case Field::kKernelGiven:
        program.kernels[entry.index].given = Picoseconds(value);
        break;
      case Field::kCollectiveBytes:
        program.collectives[entry.index].bytes = Bytes(value);
        break;
    }
  }
  return true;
}

std::vector<std::uint64_t> ProgramSizes::LikenessOfBuffers(std::size_t buffers) const {
  std::vector<std::uint64_t> likeness(buffers);
  for (const Entry& entry : entries_) {
    const std::uint64_t formula = std::uint64_t{entry.formula} + 1;
    if (entry.field == Field::kBufferSize) likeness[entry.index] |= formula;
    if (entry.field == Field::kBufferPadding) likeness[entry.index] |= formula << 32;
  }
  return likeness;
}

void ProgramSizes::Clear() {
  formulas_.Clear();
  entries_.clear();
  complete_ = false;
}

}  // namespace stepcast::lowering
