#pragma once

#include "src/base/diagnostic.h"
#include "src/plan/facts.h"
#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Checks a scenario's files against each other: plan, model and cluster (plan::Check), missing or
// implausible costs of profiles, and other conditions across files. `root` is the tree of `file`,
// for positions. Parts of the scenario with mistakes are null, and checks that need these parts are
// skipped. `profiles_believed`: the values of the profiles were already checked against their
// devices.
void CheckTogether(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                   bool profiles_believed, Diagnostics& diagnostics);
// Like CheckTogether, but without plan::Check, whose result is already known.
void CheckBesidePlan(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                     bool profiles_believed, Diagnostics& diagnostics);

// Appends warnings about a complete scenario: keys without effect, and measured collectives that do
// not match the collectives of the plan.
void AppendWarnings(const ScenarioFile& file, Scenario& scenario);

// Returns the facts about a scenario's model, cluster and GPUs that the rules about plans
// (plan::Check) need. If a part is missing, its facts are omitted.
plan::Facts LegalityFactsOf(const Scenario& scenario);

}  // namespace stepcast::scenario
