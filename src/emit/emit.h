#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/emit/folder.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

// Writes a plan as files for other programs: plan.json, configurations of the programs that can
// train the plan, and scripts that start them.
namespace stepcast::emit {

// The files that were written, and the files that were not, with the reasons.
struct Emission {
  std::vector<std::string> written;
  std::vector<std::pair<std::string, std::string>> left_out;
};

// Returns the failure that Emit would have because of the files that the scenario names.
tl::expected<void, FolderFailure> CheckInputs(const scenario::Scenario& scenario,
                                              const std::string& source);

// Writes the scenario's plan to the folder `path` (WriteFolder), completely or not at all. `source`
// is the file from which the scenario was loaded. If the scenario names files by paths relative to
// that file's folder, they are copied, so that plan.json gives the same forecast anywhere.
tl::expected<Emission, FolderFailure> Emit(const scenario::Scenario& scenario,
                                           const std::string& source, const std::string& path,
                                           bool force);

// Returns "wrote plan.json, ... into DIR" and one line for each omitted file, for stderr.
std::string Describe(const Emission& emission, const std::string& path);

}  // namespace stepcast::emit
