#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"

// Files that a command writes, held to those that it reads: a slip of the shell's completion must
// not replace a scenario by a page.
namespace stepcast::study {

struct NamedPath {
  std::string name;  // of the option, or of the position: "--report", "SCENARIO"
  std::string path;
};

// An output that is an input, or another output. Two names of one file are one.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

// The file at `path`, or one below `folder`, was read on this thread since its FilesRead
// (files_read.h) was made: a mistake if so. What a scenario names is known once it is loaded.
std::optional<Diagnostic> ReplacesInput(const std::string& path);
std::optional<Diagnostic> ReplacesInputIn(const std::string& folder);

}  // namespace stepcast::study
