#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/emit/emit.h"
#include "src/scenario/scenario.h"
#include "src/study/failure.h"

// Checks that a command's output files do not replace its inputs.
namespace stepcast::study {

struct NamedPath {
  std::string name;  // option or positional argument: "--report", "SCENARIO"
  std::string path;
};

// Reports outputs that are the same file as an input or as another output, even under another name.
Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs);

// Returns a mistake if this thread has read the file at `path` since its FilesRead (base/files.h)
// was created. Call after the scenario is loaded.
std::optional<Diagnostic> ReplacesInput(const std::string& path);

// Writes a plan to a folder (emit/emit.h). Never replaces an input.

// Checks whether the plan can be written. Call this function before a long computation. The
// function finds most obstacles, but not all. `source` is the file from which the scenario was
// loaded.
Answer<void> CheckPlanFolder(const scenario::Scenario& scenario, const std::string& source,
                             const std::string& folder, bool force);

Answer<emit::Emission> WritePlanFolder(const scenario::Scenario& scenario,
                                       const std::string& source, const std::string& folder,
                                       bool force);

}  // namespace stepcast::study
