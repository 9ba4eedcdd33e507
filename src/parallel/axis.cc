#include "src/parallel/axis.h"

#include <cstddef>
#include <utility>

namespace stepcast::parallel {

const char* Name(Axis axis) {
  constexpr const char* kNames[kAxes] = {"tensor",        "context inner", "context outer",
                                         "shard",         "replica",       "pipeline",
                                         "expert tensor", "expert inner",  "expert outer",
                                         "expert shard",  "expert replica"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string NameOf(AxisSet axes) {
  // Pairs of axes that factor one axis have its name when they occur together.
  constexpr std::pair<AxisSet, const char*> kTogether[] = {
      {kContext, "context"}, {kExpert, "expert"}, {kExpertData, "expert data"}};
  std::string name;
  AxisSet named;
  for (int axis = 0; axis < kAxes; ++axis) {
    std::pair<AxisSet, const char*> next{static_cast<Axis>(axis), Name(static_cast<Axis>(axis))};
    if (!Meet(axes, next.first) || Meet(named, next.first)) continue;
    for (const auto& together : kTogether) {
      if (Meet(together.first, next.first) && (axes | together.first) == axes) next = together;
    }
    named = named | next.first;
    name += (name.empty() ? "" : " and ") + std::string(next.second);
  }
  return name;
}

}  // namespace stepcast::parallel
