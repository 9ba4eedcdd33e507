#include "src/cli/output_paths.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Of what is not there yet only an absolute path becomes canonical.
  const fs::path whole_a = fs::weakly_canonical(fs::absolute(a), error);
  if (error) return a == b;
  const fs::path whole_b = fs::weakly_canonical(fs::absolute(b), error);
  return error ? a == b : whole_a == whole_b;
}

}  // namespace

Diagnostics CheckOutputPaths(const std::vector<NamedPath>& inputs,
                             const std::vector<NamedPath>& outputs) {
  Diagnostics faults;
  const auto add = [&faults](const NamedPath& output, const NamedPath& other, const char* does) {
    faults.push_back(
        {"command.same-file",
         {"command line", 0, 0},
         fmt::format("{} and {} are the same file: '{}'", output.name, other.name, output.path),
         fmt::format("{} would replace what {} {}", output.name, other.name, does)});
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

}  // namespace stepcast::cli
