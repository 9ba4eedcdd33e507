#pragma once

#include <span>
#include <vector>

#include "src/plan/plan.h"

// Plan settings that can be forecast but not executed: the program has no data flow, or the
// backends lack kernels.
namespace stepcast::lowering {

struct ExecutionLimit {
  const char* setting;  // key in a scenario: "training.optimizer"
  const char* values;   // the values that cannot be executed, in words
  const char* message;  // "the backends have no kernels for this optimizer"
  const char* hint;     // which value to use instead
  bool (*refuses)(const plan::Plan& plan);
};

// Returns all limits, which docs/plans.md also lists.
std::span<const ExecutionLimit> ExecutionLimits();
// Returns the limits that the plan violates. Empty if the plan can be executed.
std::vector<const ExecutionLimit*> LimitsOf(const plan::Plan& plan);

}  // namespace stepcast::lowering
