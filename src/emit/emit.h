#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/emit/folder.h"
#include "src/scenario/scenario.h"
#include "tl/expected.hpp"

// A plan for others to run: plan.json, the files of the programs that can train so, and scripts
// that start them.
namespace stepcast::emit {

// Files that were written, and those that were not, with the reason.
struct Emission {
  std::vector<std::string> written;
  std::vector<std::pair<std::string, std::string>> left_out;
};

// Writes the scenario's plan into the folder `path` (WriteFolder), all of it or nothing. `source`
// is the file that the scenario was loaded from: what it names by paths relative to its own folder
// is copied along, so that plan.json gives the same forecast wherever the folder lies.
tl::expected<Emission, FolderFailure> Emit(const scenario::Scenario& scenario,
                                           const std::string& source, const std::string& path,
                                           bool force);

// "wrote plan.json, ... into DIR" and a line for each file left out, for stderr.
std::string Describe(const Emission& emission, const std::string& path);

}  // namespace stepcast::emit
