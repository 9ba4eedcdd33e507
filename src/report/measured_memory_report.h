#pragma once

#include <string>

#include "src/forecast/values.h"
#include "src/formats/measured_memory.h"

// What a job's memory was measured to be beside the forecast of it. A measurement has fewer
// categories than a forecast: what it does not tell apart is one row.
namespace stepcast::report {

struct MeasuredComparison {
  std::string scenario;  // its name
  std::string file;      // that the measurement is of
  const formats::MeasuredMemory* measured = nullptr;
  const forecast::MemoryForecast* forecast = nullptr;
};

// Differences are the forecast less what was measured, per cent are of the measurement.
std::string MeasuredMemoryText(const MeasuredComparison& comparison);

// The document of `compare --memory --json`, version 1. Everything but its last key, `run`, depends
// on the input alone; `seconds` is the wall-clock time of the run.
std::string MeasuredMemoryJson(const MeasuredComparison& comparison, double seconds);

}  // namespace stepcast::report
