#include "src/study/plan_folder.h"

#include <utility>

#include "src/emit/folder.h"
#include "src/study/output_paths.h"

namespace stepcast::study {
namespace {

tl::unexpected<Failure> FailureOf(emit::FolderFailure failure) {
  return tl::unexpected(Failure{std::move(failure.diagnostics), std::move(failure.reason)});
}

}  // namespace

Answer<void> CheckPlanFolder(const scenario::Scenario& scenario, const std::string& source,
                             const std::string& folder, bool force) {
  auto good = emit::CheckFolder(folder, force);
  if (good) good = emit::CheckInputs(scenario, source);
  if (!good) return FailureOf(good.error());
  if (auto wrong = ReplacesInputIn(folder)) return WrongInput({*std::move(wrong)});
  return {};
}

Answer<emit::Emission> WritePlanFolder(const scenario::Scenario& scenario,
                                       const std::string& source, const std::string& folder,
                                       bool force) {
  if (auto wrong = ReplacesInputIn(folder)) return WrongInput({*std::move(wrong)});
  auto emission = emit::Emit(scenario, source, folder, force);
  if (!emission) return FailureOf(std::move(emission.error()));
  return *std::move(emission);
}

}  // namespace stepcast::study
