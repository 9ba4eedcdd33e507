#pragma once

#include <string>

#include "src/scenario/scenario.h"

namespace stepcast::cli {

// The scenario's warnings as lines for stderr.
inline std::string Warnings(const scenario::Scenario& scenario) {
  std::string lines;
  for (const std::string& warning : scenario.warnings) lines += "warning: " + warning + "\n";
  return lines;
}

}  // namespace stepcast::cli
