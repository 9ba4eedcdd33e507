#pragma once

#include <string>
#include <utility>

#include "src/base/kernel.h"

namespace stepcast::lowering {

// A copy, a cast, an addition: what it takes is what it reads and writes.
inline Kernel MemoryKernel(std::string name, DataType type, Bytes read, Bytes written) {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = type,
          .read = read,
          .written = written};
}

}  // namespace stepcast::lowering
