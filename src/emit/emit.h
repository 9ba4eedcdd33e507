#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/emit/folder.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

// Writes a plan as files for other programs: plan.json, configurations of training programs, and
// scripts that start these programs.
namespace stepcast::emit {

// The written files, and the omitted files with the reasons.
struct Emission {
  std::vector<std::string> written;
  std::vector<std::pair<std::string, std::string>> left_out;
};

// Returns the error that Emit would return because of the scenario's input files.
tl::expected<void, FolderFailure> CheckInputs(const scenario::Scenario& scenario,
                                              const std::string& source);

// Writes the scenario's plan to the folder `path` (WriteFolder), completely or not at all. `source`
// is the file from which the scenario was loaded. Files at paths relative to `source` are copied,
// so that the forecast of plan.json does not depend on its location.
tl::expected<Emission, FolderFailure> Emit(const scenario::Scenario& scenario,
                                           const std::string& source, const std::string& path,
                                           bool force);

// Returns "wrote plan.json, ... into DIR" and one line per omitted file, for stderr.
std::string Describe(const Emission& emission, const std::string& path);

}  // namespace stepcast::emit
