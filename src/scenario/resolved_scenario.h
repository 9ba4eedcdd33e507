#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/scenario/document.h"
#include "src/scenario/resolved.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// Where the scenario's inputs came from, as written: a path, or the mapping in its place.
struct Sources {
  Resolved model;
  Resolved topology;
  std::optional<Resolved> calibration;  // nothing: none is needed
  struct OtherNodes {
    Resolved topology;
    std::optional<Resolved> calibration;
  };
  std::vector<OtherNodes> other_nodes{};
};

// The scenario with every default filled in, as a tree that is itself a scenario file: written as
// YAML or JSON and loaded again (from the same folder, if it has relative paths) it gives the same
// tree. Settings that the framework does not have, or that do nothing at its stage, are left out.
Resolved Resolve(const Scenario& scenario, const Sources& sources);

// The tree as YAML in flow style, which is JSON, too.
std::string ToJson(const Resolved& resolved);

}  // namespace stepcast::scenario
