#pragma once

#include <span>
#include <vector>

#include "src/plan/plan.h"

// What of a plan is forecast and not executed: its programs have no data flow, or the backends no
// kernels for it.
namespace stepcast::lowering {

struct ExecutionLimit {
  const char* setting;  // as a scenario has it: "training.optimizer"
  const char* values;   // that are refused, in words
  const char* message;  // "the backends have no kernels of this optimizer"
  const char* hint;     // what to write instead
  bool (*refuses)(const plan::Plan& plan);
};

// docs/plans.md has this list.
std::span<const ExecutionLimit> ExecutionLimits();
// Those that refuse the plan; none: it can be executed.
std::vector<const ExecutionLimit*> LimitsOf(const plan::Plan& plan);

}  // namespace stepcast::lowering
