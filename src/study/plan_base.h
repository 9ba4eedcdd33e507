#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"

// The scenario around which plans are searched. A question needs a model, a cluster, a sequence
// length and a global batch; how the model is trained may be left out, or may be illegal.
namespace stepcast::study {

struct PlanBase {
  scenario::Scenario scenario;
  // "KEY=VALUE": what was asked for, and what makes a legal scenario of it.
  std::vector<std::string> set;
  // Keys that the scenario lacks, with the values that stand in for them:
  // "training.precision=bf16".
  std::vector<std::string> assumed;
  // Why the plan cannot exist as it is written, a sentence each. The settings that rules refuse are
  // left out of `scenario`.
  std::vector<std::string> refused;

  // The scenario is as it was written: its plan is a plan of the space.
  bool as_written() const { return assumed.empty() && refused.empty(); }
};

// Errors: those of the scenario that have nothing to do with how it is trained, and rules that no
// change of its plan cures.
Result<PlanBase> LoadPlanBase(const std::string& scenario, const std::vector<std::string>& set,
                              scenario::InputCache& cache);

}  // namespace stepcast::study
