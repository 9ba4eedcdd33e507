#include "src/cli/option_parts.h"

#include <string_view>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"

namespace stepcast::cli {

CLI::Validator NamesAFile() {
  return {[](const std::string& name) {
            return name.empty() ? std::string("the name of a file is due: ''") : std::string();
          },
          ""};
}

CLI::Option* AddReport(CLI::App& command, std::string& report) {
  return command
      .add_option("--report", report, "Also write a page with charts, which needs no other file")
      ->type_name("FILE")
      ->check(NamesAFile());
}

CLI::Option* AddTraceFolder(CLI::App& command, std::string& folder) {
  return command
      .add_option("--trace-dir", folder,
                  "Also write traces by rank into a folder, for Holistic Trace Analysis")
      ->type_name("FOLDER")
      ->check(NamesAFile());
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(CLI::App& command, std::string& scenario, std::vector<std::string>& set) {
  command.add_option("SCENARIO", scenario, "Scenario file (YAML; docs/formats.md)")->required();
  command
      .add_option("--set", set,
                  "Override a key of the scenario by its dotted path, as often as needed")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void AddEmit(CLI::App& command, EmitOptions& options) {
  CLI::Option* folder =
      command
          .add_option("--emit", options.folder,
                      "Also write the plan into DIR: plan.json, files of the framework, scripts")
          ->type_name("DIR")
          ->check(NamesAFile());
  command.add_flag("--force", options.force, "Replace the plan that DIR holds")->needs(folder);
}

}  // namespace stepcast::cli
