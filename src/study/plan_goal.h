#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/framework.h"
#include "src/planner/layouts.h"
#include "src/planner/search.h"
#include "src/study/plan_question.h"

// Parses the texts of a PlanQuestion. Mistakes are appended to `faults`, with a position such as
// "--target VALUE".
namespace stepcast::study {

// The largest number of plans for which Pareto front and sensitivity are computed by default. The
// front needs a forecast of most plans with less memory than the best plan; the sensitivity needs
// about twenty forecasts.
inline constexpr std::int64_t kMostPlansWithAll = 20'000;

planner::Goal ReadGoal(const PlanQuestion& question, Diagnostics& faults);
// Parses the frameworks. An empty `text` means the scenario's own framework.
std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults);
// Parses the axes of parallelism, such as "data,tensor". Empty: all axes.
std::vector<std::string_view> ReadKinds(const std::string& text, Diagnostics& faults);
// Parses a time limit such as "10s" or "2 min" and returns it in seconds. Empty text: no limit.
std::optional<double> ReadWithin(const std::string& text, Diagnostics& faults);

// The value of the option --why.
struct Why {
  int runners_up = 0;       // number of runners-up to list
  std::string layout_text;  // text of `layout`; empty: no layout
  // The layout to rank: its settings ("parallelism.tensor", ...) with their values.
  std::vector<std::pair<const planner::LayoutKey*, std::string>> layout;
};
// Parses --why: either a number of runners-up such as "5", or a layout such as "tensor=8". If the
// text is empty or 0, the result is empty.
Why ReadWhy(const std::string& text, Diagnostics& faults);

}  // namespace stepcast::study
