#include "src/lowering/memory_kernels.h"

#include <algorithm>
#include <string>

#include "src/lowering/memory_kernel.h"

namespace stepcast::lowering {

Index MemoryKernels::Add(std::string_view name, DataType type, Bytes read, Bytes written) {
  const auto same = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.read == read && known.written == written && known.type == type &&
           known.name == name;
  });
  if (same != known_.end()) return same->kernel;
  const Index kernel = builder_.AddKernel(MemoryKernel(std::string(name), type, read, written));
  known_.push_back(
      {.name = name, .type = type, .read = read, .written = written, .kernel = kernel});
  return kernel;
}

}  // namespace stepcast::lowering
