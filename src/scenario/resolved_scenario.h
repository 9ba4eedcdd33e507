#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/scenario/document.h"
#include "src/scenario/resolved.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// The sources of the scenario's inputs, as the user wrote them: a path, or a mapping instead of a
// path.
struct Sources {
  Resolved model;
  Resolved topology;
  std::optional<Resolved> calibration;  // none: not needed
  struct OtherNodes {
    Resolved topology;
    std::optional<Resolved> calibration;
  };
  std::vector<OtherNodes> other_nodes{};
};

// Returns the scenario with every default filled in, as a tree that is itself a scenario file. If
// this file is loaded again (from the same folder, if it has relative paths), the result is the
// same tree. Settings that the framework does not have, or that have no effect at its stage, are
// omitted.
Resolved Resolve(const Scenario& scenario, const Sources& sources);

// Returns the tree as YAML in flow style, which is also JSON.
std::string ToJson(const Resolved& resolved);

}  // namespace stepcast::scenario
