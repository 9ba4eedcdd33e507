#pragma once

#include "src/base/diagnostic.h"
#include "src/plan/facts.h"
#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Checks a scenario's files against each other: the rules about plans (plan::Check), costs that
// profiles lack or that are implausible, and other conditions across files. `root` is the tree of
// `file`, for positions. If a part of the scenario is null because of mistakes, the checks of this
// part are skipped. `profiles_believed`: the profiles were already checked against their devices.
void CheckTogether(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                   bool profiles_believed, Diagnostics& diagnostics);
// Like CheckTogether, but without plan::Check, whose result is already known.
void CheckBesidePlan(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                     bool profiles_believed, Diagnostics& diagnostics);

// Appends warnings about a complete scenario: keys without effect, and measured collectives that do
// not match the plan's collectives.
void AppendWarnings(const ScenarioFile& file, Scenario& scenario);

// Returns the properties of the model, cluster and GPUs that the rules about plans (plan::Check)
// need. Properties of missing parts are omitted.
plan::Facts LegalityFactsOf(const Scenario& scenario);

}  // namespace stepcast::scenario
