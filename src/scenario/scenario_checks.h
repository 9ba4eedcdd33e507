#pragma once

#include "src/base/diagnostic.h"
#include "src/plan/facts.h"
#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// What ties the files of a scenario to each other: plan, model and cluster (plan::Check), costs
// that profiles lack or devices cannot have, and what else no file shows by itself. `root` is the
// tree that `file` was read from, for positions; parts of the scenario that have mistakes of their
// own are null, and what rests on them is not checked. `profiles_believed`: the figures of the
// profiles have been checked against their devices.
void CheckTogether(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                   bool profiles_believed, Diagnostics& diagnostics);
// The same but for plan::Check, whose answer is known.
void CheckBesidePlan(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                     bool profiles_believed, Diagnostics& diagnostics);

// What is to be said of a complete scenario that `file` asks for: keys that do nothing, and
// measured collectives that are not this plan's.
void AppendWarnings(const ScenarioFile& file, Scenario& scenario);

// What the rules about plans (plan::Check) need to know of a scenario's model, cluster and GPUs.
// Parts that the scenario lacks are left out of it.
plan::Facts LegalityFactsOf(const Scenario& scenario);

}  // namespace stepcast::scenario
