#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/planner/search_problem.h"

// The state of a search for each of its plans.
namespace stepcast::planner {

// The search's verdict on a plan.
enum class Verdict : std::uint8_t {
  kIllegal,
  kSame,        // another plan behaves identically
  kDoesNotFit,  // its bound does not fit in memory
  kTooSlow,     // its bound misses the deadline
  kBound,       // provably not among the best, and the best plan needs no more memory and GPUs
  kDominated,   // another plan is at least as fast, with no more memory and GPUs
  kOpen,        // undecided: the search ended early
  kSimulated,
};
inline constexpr int kVerdicts = 8;
const char* Name(Verdict verdict);  // "illegal", "does_not_fit", "too_slow", ...

struct PlanState {
  Verdict verdict = Verdict::kBound;
  bool pending = true;  // neither pruned nor simulated
  bool sharp = false;   // `bound` comes from the plan's program
  Bound bound;          // the tightest bound computed
};

// The states of all plans. Plans of a family share one state until the family is split.
class PlanStates {
 public:
  struct Family {
    std::int64_t first = 0, plans = 1;
    PlanFacts facts;  // the same for all plans of the family
    PlanState whole;
    std::vector<PlanState> members;  // empty: all plans have the state `whole`
  };

  PlanStates() = default;
  // Creates the states of `plans` plans. `firsts` has the first plan of each family. Empty: each
  // plan is a family.
  PlanStates(std::int64_t plans, const std::vector<std::int64_t>& firsts);

  std::int64_t plans() const { return plans_; }
  const std::vector<Family>& families() const { return families_; }
  Family& At(std::size_t family) { return families_[family]; }
  std::size_t IndexOf(std::int64_t plan) const;
  const Family& FamilyOf(std::int64_t plan) const { return families_[IndexOf(plan)]; }
  // Returns whether the plan's family has several plans, which share one state.
  bool Together(std::int64_t plan) const {
    const Family& family = FamilyOf(plan);
    return family.plans > 1 && family.members.empty();
  }
  PlanState& Of(std::int64_t plan);
  const PlanState& Of(std::int64_t plan) const;
  const PlanFacts& FactsOf(std::int64_t plan) const { return FamilyOf(plan).facts; }

  // Calls visit(plan, count, state, facts) in plan order: once per plan, or once per family whose
  // plans share a state, with the family's first plan and number of plans.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Family& family : families_) {
      if (family.members.empty()) visit(family.first, family.plans, family.whole, family.facts);
      for (std::size_t i = 0; i < family.members.size(); ++i) {
        visit(family.first + static_cast<std::int64_t>(i), std::int64_t{1}, family.members[i],
              family.facts);
      }
    }
  }
  template <typename Change>
  void ForEach(const Change& change) {
    for (Family& family : families_) {
      if (family.members.empty()) change(family.first, family.plans, family.whole, family.facts);
      for (std::size_t i = 0; i < family.members.size(); ++i) {
        change(family.first + static_cast<std::int64_t>(i), std::int64_t{1}, family.members[i],
               family.facts);
      }
    }
  }
  std::int64_t Count(Verdict verdict) const;
  // Returns whether legal plans have different numbers of tokens per step.
  bool UnequalTokens() const;

 private:
  std::vector<Family> families_;
  std::int64_t plans_ = 0;
};

}  // namespace stepcast::planner
