#pragma once

#include <string>

#include "src/emit/emit.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

// The folder that a plan is written into (emit/emit.h), which replaces nothing that was read.
namespace stepcast::study {

// Whether it could be written, as far as can be seen before the work.
Answer<void> CheckPlanFolder(const std::string& folder, bool force);

// `source`: the file that the scenario was loaded from.
Answer<emit::Emission> WritePlanFolder(const scenario::Scenario& scenario,
                                       const std::string& source, const std::string& folder,
                                       bool force);

}  // namespace stepcast::study
