#pragma once

#include <string>

#include "src/emit/emit.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

// Writes a plan to a folder (emit/emit.h). Never replaces an input.
namespace stepcast::study {

// Checks whether the plan can be written. Call this function before a long computation. The
// function finds most obstacles, but not all. `source` is the file from which the scenario was
// loaded.
Answer<void> CheckPlanFolder(const scenario::Scenario& scenario, const std::string& source,
                             const std::string& folder, bool force);

Answer<emit::Emission> WritePlanFolder(const scenario::Scenario& scenario,
                                       const std::string& source, const std::string& folder,
                                       bool force);

}  // namespace stepcast::study
