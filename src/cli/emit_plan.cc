#include "src/cli/emit_plan.h"

#include "src/cli/output_paths.h"
#include "src/emit/emit.h"
#include "src/emit/folder.h"

namespace stepcast::cli {

namespace {

Outcome OutcomeOf(const emit::FolderFailure& failure) {
  return failure.diagnostics.empty() ? Failed(failure.reason) : WrongInput(failure.diagnostics);
}

}  // namespace

std::optional<Outcome> CheckEmit(const EmitOptions& options) {
  if (options.folder.empty()) return std::nullopt;
  const auto good = emit::CheckFolder(options.folder, options.force);
  if (!good) return OutcomeOf(good.error());
  return ReplacesInputIn(options.folder);
}

std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages) {
  if (options.folder.empty()) return std::nullopt;
  if (auto wrong = ReplacesInputIn(options.folder)) return wrong;
  const auto emission = emit::Emit(scenario, source, options.folder, options.force);
  if (!emission) return OutcomeOf(emission.error());
  messages += emit::Describe(*emission, options.folder);
  return std::nullopt;
}

}  // namespace stepcast::cli
