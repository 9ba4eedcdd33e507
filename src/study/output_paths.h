#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"

// Checks a command's output files against its inputs, so that a mistyped completion in the shell
// does not replace a scenario with a page.
namespace stepcast::study {

struct NamedPath {
  std::string name;  // of the option or positional argument: "--report", "SCENARIO"
  std::string path;
};

// Reports outputs that are also an input or another output, even if the file has another name.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

// Returns a mistake if this thread has read the file at `path`, or a file below the folder. Only
// files count that were read since the thread's FilesRead (base/files.h) was created. A scenario's
// files are known only after it is loaded.
std::optional<Diagnostic> ReplacesInput(const std::string& path);
std::optional<Diagnostic> ReplacesInputIn(const std::string& folder);

}  // namespace stepcast::study
