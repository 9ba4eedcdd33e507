#pragma once

#include <string>
#include <vector>

#include "src/calibrate/calibrate.h"
#include "src/forecast/forecast.h"
#include "src/report/trace.h"
#include "src/scenario/scenario.h"
#include "src/validate/comparison.h"
#include "src/validate/execution.h"

namespace stepcast::report {

// The output of `stepcast calibrate`. `path` is the profile that the command wrote.

// Returns the measured curves with their precision. For the line fitted to each curve, the text
// states the time at size zero and the rate.
std::string CalibrationText(const std::string& path, const calibrate::Outcome& measured);

// Returns the measured curves as JSON: {"stepcast": 1, "profile": path, "name", "provenance": {},
// "fits": [{"of", "points", "start_s", "bytes_per_s", "residual"}], "collectives": [{"collective",
// "ranks", "nodes", "points", "largest_bytes"}], "interference": [...], "residuals": {...},
// "warnings": [], "run": {"seconds"}}
std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds);

// Reports the results of an execution as text and as a JSON document (docs/formats.md).

std::string ExecutionText(const scenario::Scenario& scenario, const validate::Execution& execution);

// Returns the results as a JSON document. `seconds` is the wall-clock time of the command, the only
// value that differs between equal runs.
std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds);

// Returns one process for each measured rank, ordered by rank. Times are on rank 0's clock, since
// the common start of the measurement.
std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution);

// Returns the processes of the forecast, then of the measured ranks. Measured times are shifted so
// that the forecast step and the typical measured step start together.
std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution);

// Compares a forecast with an execution, as text and as a JSON document (docs/formats.md).
// Differences are forecast minus measured; errors are relative to the measurement.

// Returns the comparison as text. `within` is the allowed error of the step time, such as 0.1 for
// ten per cent.
std::string ValidationText(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

std::string ValidationJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within, double seconds);

// Returns one HTML page with the time breakdowns and timelines of the forecast and the execution,
// and with every kind of operation.
std::string ValidationPage(const scenario::Scenario& scenario, const forecast::Run& forecast,
                           const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

}  // namespace stepcast::report
