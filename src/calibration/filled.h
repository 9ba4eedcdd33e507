#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/calibration/calibration.h"

namespace stepcast::calibration {

// Which of the sections that every forecast needs a profile does not have: "kernels", "links",
// "memory".
std::vector<std::string_view> MissingSections(const Calibration& profile);

// Takes from `defaults`, the profile of the GPU type, what `profile` lacks: whole sections, what a
// `kernels` section that was measured leaves out (Complete), hosts' costs by framework, and how far
// forecasts of anybody's runs are off, which is no measurement of one machine. Returns what was
// taken of sections: "links", "kernels.memory_efficiency".
std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile);

}  // namespace stepcast::calibration
