#pragma once

#include <string>

#include "src/emit/emit.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

// The folder that a plan is written to (emit/emit.h); it never replaces an input.
namespace stepcast::study {

// Checks before the work whether the folder can be written, as far as possible.
Answer<void> CheckPlanFolder(const std::string& folder, bool force);

// `source`: the file from which the scenario was loaded.
Answer<emit::Emission> WritePlanFolder(const scenario::Scenario& scenario,
                                       const std::string& source, const std::string& folder,
                                       bool force);

}  // namespace stepcast::study
