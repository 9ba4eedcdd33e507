#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"

// Checks a command's output files against its inputs: a mistyped completion in the shell must not
// replace a scenario by a page.
namespace stepcast::study {

struct NamedPath {
  std::string name;  // of the option or positional argument: "--report", "SCENARIO"
  std::string path;
};

// Reports outputs that are an input or another output, also under another name of the file.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

// A mistake if the file at `path`, or one below the folder, was read on this thread since its
// FilesRead (base/files.h) was made. The files that a scenario names are known only after it is
// loaded.
std::optional<Diagnostic> ReplacesInput(const std::string& path);
std::optional<Diagnostic> ReplacesInputIn(const std::string& folder);

}  // namespace stepcast::study
