#include "src/parallel/axis.h"

#include <cstddef>

namespace stepcast::parallel {

const char* Name(Axis axis) {
  constexpr const char* kNames[kAxes] = {"tensor",      "context", "expert",  "shard inner",
                                         "shard outer", "replica", "pipeline"};
  return kNames[static_cast<std::size_t>(axis)];
}

}  // namespace stepcast::parallel
