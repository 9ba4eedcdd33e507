#include "src/lowering/program_sizes.h"

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::lowering {

void ProgramSizes::Add(Field field, program::Index entry, const Amount& amount) {
  if (!amount.varies()) return;
  EntriesOf(field).push_back({entry, amount.formula()});
  const bool of_kernel =
      field == Field::kKernelRead || field == Field::kKernelWritten || field == Field::kKernelGiven;
  // A kernel's are added one after the other.
  if (of_kernel && (kernels_.empty() || kernels_.back() != entry)) kernels_.push_back(entry);
}

bool ProgramSizes::Apply(std::int64_t ranks, program::Program& program) {
  if (!formulas_.Evaluate(ranks)) return false;
  for (const Entry& entry : EntriesOf(Field::kBufferSize)) {
    program.buffers[entry.index].size = Bytes(formulas_.value(entry.formula));
  }
  for (const Entry& entry : EntriesOf(Field::kBufferPadding)) {
    program.buffers[entry.index].padding = Bytes(formulas_.value(entry.formula));
  }
  for (const Entry& entry : EntriesOf(Field::kKernelRead)) {
    program.kernels[entry.index].read = Bytes(formulas_.value(entry.formula));
  }
  for (const Entry& entry : EntriesOf(Field::kKernelWritten)) {
    program.kernels[entry.index].written = Bytes(formulas_.value(entry.formula));
  }
  for (const Entry& entry : EntriesOf(Field::kKernelGiven)) {
    program.kernels[entry.index].given = Picoseconds(formulas_.value(entry.formula));
  }
  for (const Entry& entry : EntriesOf(Field::kCollectiveBytes)) {
    program.collectives[entry.index].bytes = Bytes(formulas_.value(entry.formula));
  }
  return true;
}

std::vector<std::uint64_t> ProgramSizes::LikenessOfBuffers(std::size_t buffers) const {
  std::vector<std::uint64_t> likeness(buffers);
  const auto number = [](const Entry& entry) { return std::uint64_t{entry.formula} + 1; };
  for (const Entry& entry : entries_[static_cast<std::size_t>(Field::kBufferSize)]) {
    likeness[entry.index] |= number(entry);
  }
  for (const Entry& entry : entries_[static_cast<std::size_t>(Field::kBufferPadding)]) {
    likeness[entry.index] |= number(entry) << 32;
  }
  return likeness;
}

void ProgramSizes::Clear() {
  formulas_.Clear();
  for (auto& entries : entries_) entries.clear();
  kernels_.clear();
  complete_ = false;
}

}  // namespace stepcast::lowering
