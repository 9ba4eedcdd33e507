#include "src/cli/option_parts.h"

#include <string_view>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"

namespace stepcast::cli {

namespace {

// What help pages call that which a command writes. Files that it reads have other types.
constexpr const char* kFile = "FILE";
constexpr const char* kFolder = "FOLDER";

}  // namespace

CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& type,
                         const std::string& help) {
  return command.add_option(name, values, help)
      ->type_name(type)
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

CLI::Option* AddCount(CLI::App& command, const std::string& name, int& value, int least, int most,
                      const std::string& help) {
  return command.add_option(name, value, help)->type_name("N")->check(CLI::Range(least, most));
}

CLI::Option* AddCount(CLI::App& command, const std::string& name, std::optional<int>& value,
                      int least, int most, const std::string& help) {
  return command.add_option(name, value, help)->type_name("N")->check(CLI::Range(least, most));
}

CLI::Option* AddOutput(CLI::App& command, const std::string& name, std::string& file,
                       const std::string& help) {
  return command.add_option(name, file, help)->type_name(kFile);
}

CLI::Option* AddOutput(CLI::App& command, std::string& file) {
  return AddOutput(command, "--output", file, "Write to FILE instead of stdout");
}

bool IsOutput(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return !option.get_positional() && (type == kFile || type == kFolder);
}

CLI::Option* AddReport(CLI::App& command, std::string& report) {
  return AddOutput(command, "--report", report,
                   "Also write a page with charts, which needs no other file");
}

CLI::Option* AddTraceFolder(CLI::App& command, std::string& folder) {
  return command
      .add_option("--trace-dir", folder,
                  "Also write traces by rank into a folder, for Holistic Trace Analysis")
      ->type_name(kFolder);
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(CLI::App& command, std::string& scenario, std::vector<std::string>& set) {
  command.add_option("SCENARIO", scenario, "Scenario file (YAML; docs/formats.md)")->required();
  AddRepeated(command, "--set", set, "KEY=VALUE",
              "Override a key of the scenario by its dotted path, as often as needed; "
              "null: the key's default");
}

CLI::Option* AddNetwork(CLI::App& command, std::string& network, const std::string& help) {
  return command.add_option("--network", network, help)
      ->type_name("HOW")
      ->check(CLI::IsMember({"analytic", "flow", "message"}));
}

CLI::Option* AddJsonAndCsv(CLI::App& command, bool& json, bool& csv) {
  CLI::Option* option = command.add_flag("--json", json, "Print one JSON document");
  command.add_flag("--csv", csv, "Print CSV (RFC 4180)")->excludes(option);
  return option;
}

void AddEmit(CLI::App& command, EmitOptions& options) {
  CLI::Option* folder =
      command
          .add_option("--emit", options.folder,
                      "Also write the plan into FOLDER: plan.json, files of the framework, scripts")
          ->type_name(kFolder);
  command
      .add_flag("--force", options.force,
                "Replace the plan that FOLDER holds, if it holds nothing else")
      ->needs(folder);
}

}  // namespace stepcast::cli
