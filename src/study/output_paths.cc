#include "src/study/output_paths.h"

#include <limits.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/files.h"
#include "src/emit/folder.h"

namespace stepcast::study {
namespace {

namespace fs = std::filesystem;

// The canonical path. A path that does not exist is made absolute first. Nothing on failure, for
// example if the working folder is gone.
std::optional<fs::path> Canonical(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return std::nullopt;
  fs::path canonical = fs::weakly_canonical(whole, error);
  if (error) return std::nullopt;
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto whole_a = Canonical(a);
  const auto whole_b = Canonical(b);
  return whole_a && whole_b ? *whole_a == *whole_b : a == b;
}

bool LiesIn(const std::string& file, const std::string& folder) {
  const auto inner = Canonical(file);
  const auto outer = Canonical(folder);
  return inner && outer &&
         std::mismatch(outer->begin(), outer->end(), inner->begin(), inner->end()).first ==
             outer->end();
}

Diagnostic Replaces(const std::string& output, const std::string& input) {
  return {"command.same-file",
          {output, 0, 0},
          fmt::format("the output would overwrite an input file: {}", Quoted(input, "'", PATH_MAX)),
          "write another path for the output"};
}

tl::unexpected<Failure> FailureOf(emit::FolderFailure failure) {
  return tl::unexpected(Failure{std::move(failure.diagnostics), std::move(failure.reason)});
}

// A mistake if this thread has read a file in the folder.
std::optional<Diagnostic> ReplacesInputIn(const std::string& folder) {
  for (const std::string& input : FilesRead::PathsOfThread()) {
    if (LiesIn(input, folder)) return Replaces(folder, input);
  }
  return std::nullopt;
}

}  // namespace

Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs) {
  Diagnostics faults;
  const auto add = [&faults](const NamedPath& output, const NamedPath& other, const char* does) {
    faults.push_back(
        {"command.same-file",
         {"command line", 0, 0},
         fmt::format("the paths of {} and {} lead to the same file: '{}'", output.name, other.name,
                     output.path),
         fmt::format("write another path for {}, because it would overwrite the file that {} {}",
                     output.name, other.name, does)});
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const NamedPath& input : inputs) {
      if (SameFile(outputs[i].path, input.path)) add(outputs[i], input, "reads");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (SameFile(outputs[i].path, outputs[j].path)) add(outputs[i], outputs[j], "writes");
    }
  }
  return faults;
}

std::optional<Diagnostic> ReplacesInput(const std::string& path) {
  for (const std::string& input : FilesRead::PathsOfThread()) {
    if (SameFile(input, path)) return Replaces(path, input);
  }
  return std::nullopt;
}

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
