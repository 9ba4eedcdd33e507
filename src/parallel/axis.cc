#include "src/parallel/axis.h"

#include <cstddef>

namespace stepcast::parallel {

const char* Name(Axis axis) {
  constexpr const char* kNames[kAxes] = {"tensor",       "context inner", "context outer",
                                         "shard inner",  "shard outer",   "replica",
                                         "pipeline",     "expert tensor", "expert inner",
                                         "expert outer", "expert shard",  "expert replica"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string NameOf(AxisSet axes) {
  if (axes == kContext) return "context";
  if (axes == kExpert) return "expert";
  if (axes == kExpertData) return "expert data";
  std::string name;
  for (int axis = 0; axis < kAxes; ++axis) {
    const auto which = static_cast<Axis>(axis);
    if (axes.Has(which)) name += (name.empty() ? "" : " and ") + std::string(Name(which));
  }
  return name;
}

}  // namespace stepcast::parallel
