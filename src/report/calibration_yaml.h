#pragma once

#include <string>

#include "src/calibration/calibration.h"

namespace stepcast::report {

// A profile as a file that scenario::LoadCalibration reads back to the same values (locations
// apart): one row for each point, in columns. Sections that hold nothing are left out. Text is
// written as it is but for control characters, which become spaces.
std::string CalibrationYaml(const calibration::Calibration& profile);

}  // namespace stepcast::report
