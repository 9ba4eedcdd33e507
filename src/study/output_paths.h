#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"

// Checks a command's output files against its inputs, so that a mistyped completion in the shell
// does not replace a scenario by a page.
namespace stepcast::study {

struct NamedPath {
  std::string name;  // of the option or positional argument: "--report", "SCENARIO"
  std::string path;
};

// Reports outputs that are also an input or another output, even if the file has another name.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

// Returns a mistake if the file at `path`, or a file below the folder, was read on this thread
// since the thread's FilesRead (base/files.h) was made. The files that a scenario names are known
// only after the scenario is loaded.
std::optional<Diagnostic> ReplacesInput(const std::string& path);
std::optional<Diagnostic> ReplacesInputIn(const std::string& folder);

}  // namespace stepcast::study
