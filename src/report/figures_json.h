#pragma once

#include "src/forecast/values.h"
#include "src/report/json_values.h"

// The parts of the JSON documents that hold figures of a step, be they forecast or measured. For
// the .cc files of this package only.
namespace stepcast::report {

Json TimeJson(const forecast::TimeBreakdown& time);  // "time_s"
// One object a class of ranks, as docs/formats.md says; none where all ranks are one.
Json ClassesJson(const forecast::Forecast& forecast);
Json CommunicationJson(const forecast::Forecast& forecast);  // "communication"
Json LengthsJson(const forecast::LengthsForecast& lengths);  // "lengths"
Json MemoryJson(const forecast::MemoryForecast& memory);     // "memory"

}  // namespace stepcast::report
