#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/variants.h"

// The scenario around which plans are searched. The scenario must have a model, a cluster, a
// sequence length and a global batch. The scenario's plan may be missing or illegal.
namespace stepcast::study {

struct PlanBase {
  scenario::Scenario scenario;
  // The requested settings, and the settings that make the scenario legal, as "KEY=VALUE".
  std::vector<std::string> set;
  // Default values of keys that the scenario lacks, such as "training.precision=bf16".
  std::vector<std::string> assumed;
  // The reasons why the written plan is illegal, one sentence each. `scenario` omits these
  // settings.
  std::vector<std::string> refused;

  // Returns whether the scenario is unchanged, so that its plan is part of the space.
  bool as_written() const { return assumed.empty() && refused.empty(); }
};

// Loads the scenario. Errors: mistakes outside the plan, and violated rules that no plan can
// satisfy.
Result<PlanBase> LoadPlanBase(const std::string& scenario, const std::vector<std::string>& set,
                              scenario::InputCache& cache);

// Returns the keys, such as "experts.dispatcher", whose values `framework` rejects at a ZeRO stage,
// although the base's framework accepts them. Both frameworks are checked without parallelism.
// `variants` reads the base's file.
std::vector<std::string> RefusedBy(plan::Framework framework, int zero_stage,
                                   const scenario::Scenario& base, scenario::Variants& variants);

}  // namespace stepcast::study
