#pragma once

#include <string>
#include <vector>

#include "src/calibrate/calibrate.h"
#include "src/forecast/forecast.h"
#include "src/report/json.h"
#include "src/report/trace.h"
#include "src/scenario/scenario.h"
#include "src/validate/comparison.h"
#include "src/validate/execution.h"

namespace stepcast::report {

// The output of `stepcast calibrate`; `path` is the profile that it wrote.

// The measured curves, their precision, and the start time and rate of a line fitted to each.
std::string CalibrationText(const std::string& path, const calibrate::Outcome& measured);

// {"stepcast": 1, "profile": path, "name", "provenance": {}, "fits": [{"of", "points", "start_s",
// "bytes_per_s", "residual"}], "collectives": [{"collective", "ranks", "nodes", "points",
// "largest_bytes"}], "interference": [...], "residuals": {...}, "warnings": [], "run": {"seconds"}}
std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds);

// An execution's figures, as text and as a JSON document (docs/formats.md).

std::string ExecutionText(const scenario::Scenario& scenario, const validate::Execution& execution);

// `seconds`: wall-clock time of the command, the only value that always differs between runs.
std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds);

// How the execution was measured: "host: 4 ranks on 2 hosts, 5 steps". Ends in a newline.
std::string RunLine(const validate::Execution& execution);

// One process for each measured rank, by rank. Times are those of rank 0, from the common start of
// measuring.
std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution);

// The forecast first, then the measured ranks, shifted so that the forecast step and the typical
// measured step start together.
std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution);

// Forecast against execution, as text and as a JSON document (docs/formats.md). Differences are
// forecast minus measured; errors are relative to the measurement.

// `within`: the allowed error of the step time, such as 0.1 for ten per cent.
std::string ValidationText(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

std::string ValidationJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within, double seconds);

// Both time breakdowns, every kind of operation, and both timelines as one HTML page.
std::string ValidationPage(const scenario::Scenario& scenario, const forecast::Run& forecast,
                           const validate::Execution& execution,
                           const validate::Comparison& comparison, double within);

// The beginning of the documents of an execution: versions, backend and machine. Internal to this
// package.
Json ExecutedJson(const scenario::Scenario& scenario, const validate::Execution& execution);
// The times of the measured steps. Internal to this package.
Json StepsJson(const validate::Execution& execution);

}  // namespace stepcast::report
