#include "src/cli/emit_plan.h"

#include "src/emit/emit.h"

namespace stepcast::cli {

std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages) {
  if (options.folder.empty()) return std::nullopt;
  const auto emission = emit::Emit(scenario, source, options.folder, options.force);
  if (!emission) {
    if (!emission.error().diagnostics.empty()) return WrongInput(emission.error().diagnostics);
    return Failed(emission.error().reason);
  }
  messages += emit::Describe(*emission, options.folder);
  return std::nullopt;
}

}  // namespace stepcast::cli
