#pragma once

#include <string>

#include "src/forecast/explanation.h"
#include "src/scenario/scenario.h"

// What `explain` prints: the critical path, exposed communication, what faster parts would bring,
// and what is in memory at the peak.
namespace stepcast::report {

std::string ExplainText(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation);

// The document of `explain --json`, version 1.
std::string ExplainJson(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, double seconds);

}  // namespace stepcast::report
