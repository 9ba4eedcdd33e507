#include "src/cost/demand.h"

#include <cstddef>

namespace stepcast::cost {

const char* Name(Provenance provenance) {
  constexpr const char* kNames[] = {"given",        "measured",    "interpolated",
                                    "extrapolated", "transferred", "modelled"};
  return kNames[static_cast<std::size_t>(provenance)];
}

}  // namespace stepcast::cost
