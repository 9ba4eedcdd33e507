#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/scenario/document.h"
#include "src/scenario/resolved.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// The scenario's inputs as written: paths, or mappings instead of paths.
struct Sources {
  Resolved model;
  Resolved topology;
  std::optional<Resolved> calibration;  // not set: not needed
  struct OtherNodes {
    Resolved topology;
    std::optional<Resolved> calibration;
  };
  std::vector<OtherNodes> other_nodes{};
};

// Returns the scenario with all defaults, as the tree of a scenario file. Loading this file (from
// the same folder, if it has relative paths) and resolving it again returns an equal tree. The tree
// omits settings that the framework does not have, or that have no effect at the plan's ZeRO stage.
Resolved Resolve(const Scenario& scenario, const Sources& sources);

// Returns the tree as YAML in flow style, which is also JSON.
std::string ToJson(const Resolved& resolved);

}  // namespace stepcast::scenario
