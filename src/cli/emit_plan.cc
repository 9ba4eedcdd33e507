#include "src/cli/emit_plan.h"

#include "src/study/plan_folder.h"

namespace stepcast::cli {

std::optional<Outcome> CheckEmit(const EmitOptions& options) {
  if (options.folder.empty()) return std::nullopt;
  const auto good = study::CheckPlanFolder(options.folder, options.force);
  if (!good) return OutcomeOf(good.error());
  return std::nullopt;
}

std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages) {
  if (options.folder.empty()) return std::nullopt;
  const auto emission = study::WritePlanFolder(scenario, source, options.folder, options.force);
  if (!emission) return OutcomeOf(emission.error());
  messages += emit::Describe(*emission, options.folder);
  return std::nullopt;
}

}  // namespace stepcast::cli
