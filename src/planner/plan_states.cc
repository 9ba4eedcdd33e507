#include "src/planner/plan_states.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "src/base/check.h"

namespace stepcast::planner {

const char* Name(Verdict verdict) {
  constexpr const char* kNames[] = {"illegal", "same",      "does_not_fit", "too_slow",
                                    "bound",   "dominated", "open",         "simulated"};
  return kNames[static_cast<std::size_t>(verdict)];
}

PlanStates::PlanStates(std::int64_t plans, const std::vector<std::int64_t>& firsts)
    : plans_(plans) {
  if (firsts.empty()) {
    families_.resize(static_cast<std::size_t>(plans));
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i].first = static_cast<std::int64_t>(i);
    }
    return;
  }
  families_.resize(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    families_[i].first = firsts[i];
    families_[i].plans = (i + 1 < firsts.size() ? firsts[i + 1] : plans) - firsts[i];
  }
}

std::size_t PlanStates::IndexOf(std::int64_t plan) const {
  STEPCAST_CHECK(plan >= 0 && plan < plans_, "every plan must belong to a family of the search");
  if (static_cast<std::int64_t>(families_.size()) == plans_) return static_cast<std::size_t>(plan);
  const auto next =
      std::upper_bound(families_.begin(), families_.end(), plan,
                       [](std::int64_t p, const Family& family) { return p < family.first; });
  return static_cast<std::size_t>(next - families_.begin()) - 1;
}

PlanState& PlanStates::Of(std::int64_t plan) {
  Family& family = families_[IndexOf(plan)];
  if (family.members.empty()) return family.whole;
  return family.members[static_cast<std::size_t>(plan - family.first)];
}

const PlanState& PlanStates::Of(std::int64_t plan) const {
  const Family& family = FamilyOf(plan);
  if (family.members.empty()) return family.whole;
  return family.members[static_cast<std::size_t>(plan - family.first)];
}

std::int64_t PlanStates::Count(Verdict verdict) const {
  std::int64_t count = 0;
  ForEach([&](std::int64_t, std::int64_t plans, const PlanState& state, const PlanFacts&) {
    if (state.verdict == verdict) count += plans;
  });
  return count;
}

bool PlanStates::UnequalTokens() const {
  std::int64_t tokens = 0;
  bool unequal = false;
  ForEach([&](std::int64_t, std::int64_t, const PlanState& state, const PlanFacts& facts) {
    // If the search was stopped early, nothing is known about some plans.
    if (state.verdict == Verdict::kIllegal || facts.tokens == 0) return;
    if (tokens == 0) tokens = facts.tokens;
    unequal |= facts.tokens != tokens;
  });
  return unequal;
}

}  // namespace stepcast::planner
