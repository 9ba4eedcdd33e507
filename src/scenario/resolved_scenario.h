#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/scenario/document.h"
#include "src/scenario/resolved.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// The origins of the scenario's inputs, as written: a path, or the mapping instead of it.
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

// The scenario with every default filled in, as a tree that is itself a scenario file. Written as
// YAML or JSON and loaded again (from the same folder, if it has relative paths), it gives the same
// tree. Omits settings that the framework does not have or that have no effect at its stage.
Resolved Resolve(const Scenario& scenario, const Sources& sources);

// The tree as YAML in flow style, which is also JSON.
std::string ToJson(const Resolved& resolved);

}  // namespace stepcast::scenario
