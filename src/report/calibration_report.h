#pragma once

#include <string>

#include "src/calibrate/calibrate.h"

// The output of `stepcast calibrate`, which wrote the profile to `path`.
namespace stepcast::report {

// The measured curves, their precision, and a line of start and rate through each.
std::string CalibrationText(const std::string& path, const calibrate::Outcome& measured);

// {"stepcast": 1, "profile": path, "name", "provenance": {}, "fits": [{"of", "points", "start_s",
// "bytes_per_s", "residual"}], "collectives": [{"collective", "ranks", "nodes", "points",
// "largest_bytes"}], "interference": [...], "residuals": {...}, "warnings": [], "run": {"seconds"}}
std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds);

}  // namespace stepcast::report
