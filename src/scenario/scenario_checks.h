#pragma once

#include "src/base/diagnostic.h"
#include "src/plan/facts.h"
#include "src/scenario/scenario.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Checks a scenario's files against each other: plan, model and cluster (plan::Check), costs that
// profiles lack or devices cannot have, and other cross-file conditions. `root` is the tree that
// `file` was read from, for positions. Parts of the scenario with mistakes are null, and checks
// that need them are skipped. `profiles_believed`: the profiles' figures have been checked against
// their devices.
void CheckTogether(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                   bool profiles_believed, Diagnostics& diagnostics);
// The same without plan::Check, whose result is known.
void CheckBesidePlan(const ScenarioFile& file, const YamlTree& root, const Scenario& scenario,
                     bool profiles_believed, Diagnostics& diagnostics);

// Appends warnings about a complete scenario: keys without effect, and measured collectives that do
// not match the plan's.
void AppendWarnings(const ScenarioFile& file, Scenario& scenario);

// The facts about a scenario's model, cluster and GPUs that the rules about plans (plan::Check)
// need. Facts about missing parts are omitted.
plan::Facts LegalityFactsOf(const Scenario& scenario);

}  // namespace stepcast::scenario
