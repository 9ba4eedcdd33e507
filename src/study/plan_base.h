#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/variants.h"

// The scenario around which plans are searched. A question needs a model, a cluster, a sequence
// length and a global batch. The plan may be missing or illegal.
namespace stepcast::study {

struct PlanBase {
  scenario::Scenario scenario;
  // "KEY=VALUE": the requested settings, and those that make a legal scenario.
  std::vector<std::string> set;
  // Default values for keys missing in the scenario: "training.precision=bf16".
  std::vector<std::string> assumed;
  // The reasons why the written plan is illegal, one sentence each. The rejected settings are
  // omitted from `scenario`.
  std::vector<std::string> refused;

  // Whether the scenario is unchanged, so that its plan is in the space.
  bool as_written() const { return assumed.empty() && refused.empty(); }
};

// Loads the scenario. Errors: those of the scenario outside its plan, and rules that no change of
// the plan satisfies.
Result<PlanBase> LoadPlanBase(const std::string& scenario, const std::vector<std::string>& set,
                              scenario::InputCache& cache);

// Returns the keys whose values `framework` rejects at a ZeRO stage, although the base's framework
// accepts them, such as "experts.dispatcher". Both frameworks are checked without parallelism.
// `variants` reads the base's file.
std::vector<std::string> RefusedBy(plan::Framework framework, int zero_stage,
                                   const scenario::Scenario& base, scenario::Variants& variants);

}  // namespace stepcast::study
