#include "src/model/context_parallel.h"

#include <cstddef>

namespace stepcast::model {

const char* Name(ContextMethod method) {
  constexpr const char* kNames[] = {"ring", "all_gather", "all_to_all", "hierarchical"};
  return kNames[static_cast<std::size_t>(method)];
}

}  // namespace stepcast::model
