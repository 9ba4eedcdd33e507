#pragma once

#include <memory>

#include "src/calibration/learned_runs.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// The section `runs` of a calibration profile (docs/formats.md, "Learned runs"). Besides what
// documents report in general: calibration.runs (none, too many, or two of the same settings).
std::shared_ptr<const calibration::LearnedRuns> ReadLearnedRuns(MappingReader& section);

}  // namespace stepcast::scenario
