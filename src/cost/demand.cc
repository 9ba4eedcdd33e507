#include "src/cost/demand.h"

namespace stepcast::cost {

const char* Name(Provenance provenance) {
  switch (provenance) {
    case Provenance::kGiven:
      return "given";
    case Provenance::kMeasured:
      return "measured";
    case Provenance::kInterpolated:
      return "interpolated";
    case Provenance::kExtrapolated:
      return "extrapolated";
    case Provenance::kTransferred:
      return "transferred";
    case Provenance::kModelled:
      return "modelled";
  }
  return "";
}

}  // namespace stepcast::cost
