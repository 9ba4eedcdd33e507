#pragma once

#include <string>

#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

// An execution's figures, as text and as one JSON document (docs/formats.md).
namespace stepcast::report {

std::string ExecutionText(const scenario::Scenario& scenario, const validate::Execution& execution);

// `seconds`: wall-clock time of the command, the one value that differs from run to run by itself.
std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds);

// "host: 4 ranks on 2 hosts, 5 steps": how it was measured. Ends in a newline.
std::string RunLine(const validate::Execution& execution);

}  // namespace stepcast::report
