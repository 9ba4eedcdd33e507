#include "src/forecast/values.h"

namespace stepcast::forecast {

const char* Name(MemoryVerdict verdict) {
  switch (verdict) {
    case MemoryVerdict::kFits:
      return "fits";
    case MemoryVerdict::kMayNotFit:
      return "may_not_fit";
    case MemoryVerdict::kDoesNotFit:
      return "does_not_fit";
  }
  return "";
}

const MemoryForecast& LeastProbable(const Forecast& forecast) {
  const MemoryForecast* least = &forecast.memory;
  if (!least->fits) return *least;
  for (const ClassForecast& own : forecast.classes) {
    if (own.memory.fit_probability < least->fit_probability) least = &own.memory;
  }
  return *least;
}

}  // namespace stepcast::forecast
