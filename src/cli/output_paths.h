#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"

// Files that a command writes, held to those that it reads: a slip of the shell's completion must
// not replace a scenario by a page.
namespace stepcast::cli {

struct NamedPath {
  std::string name;  // of the option, or of the position: "--report", "SCENARIO"
  std::string path;
};

// An output that is an input, or another output. Two names of one file are one.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

}  // namespace stepcast::cli
