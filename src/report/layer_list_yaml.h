#pragma once

#include <string>

#include "src/formats/kineto.h"

namespace stepcast::report {

// A traced step as a model file of `kind: layers`. Its comments say where the step's time went,
// which collectives it had, and what the trace did not tell.
std::string LayerListYaml(const std::string& name, const formats::TracedStep& step);

}  // namespace stepcast::report
