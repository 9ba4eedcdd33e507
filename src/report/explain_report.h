#pragma once

#include <string>

#include "src/forecast/explanation.h"
#include "src/scenario/scenario.h"

// The output of `explain`: the critical path, exposed communication, the effect of faster
// resources, and what is in memory at the peak.
namespace stepcast::report {

std::string ExplainText(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation);

// The document of `explain --json`, version 1.
std::string ExplainJson(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, double seconds);

}  // namespace stepcast::report
