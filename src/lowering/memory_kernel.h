#pragma once

#include <string>
#include <utility>

#include "src/base/kernel.h"
#include "src/lowering/formulas.h"
#include "src/lowering/sized_kernel.h"

namespace stepcast::lowering {

// A copy, a cast, an addition: what it takes is what it reads and writes.
inline Kernel MemoryKernel(std::string name, DataType type, Bytes read, Bytes written) {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = type,
          .read = read,
          .written = written};
}

inline SizedKernel MemoryKernel(std::string name, DataType type, const Amount& read,
                                const Amount& written) {
  return {.kernel = {.name = std::move(name), .kind = KernelKind::kMemoryBound, .data_type = type},
          .read = read,
          .written = written};
}

// The bytes of so many elements.
inline Amount AmountOf(const Amount& elements, DataType type) { return elements * SizeOf(type); }

}  // namespace stepcast::lowering
