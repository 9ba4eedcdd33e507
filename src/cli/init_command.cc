#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/foreign/import.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {
namespace {

struct InitOptions {
  ScenarioFiles files;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string output;            // file to write; empty: stdout
  bool force = false;            // replace that file
};

// The mistakes that prevent a forecast, at the origins of the scenario's values.
Diagnostics Obstacles(const foreign::Imported& imported) {
  const scenario::MemoryDocument document(imported.title, imported.scenario.text);
  scenario::InputCache cache;
  auto loaded = scenario::Load(document.name(), {}, cache);
  if (loaded) return {};
  return foreign::AtOrigins(std::move(loaded.error()), imported.title, imported.scenario);
}

// Makes a scenario from other programs' configurations. Status kAnswerIsNo if the scenario's plan
// cannot be forecast; the scenario is written all the same.
Outcome Init(const InitOptions& options) {
  std::error_code error;
  if (!options.force && std::filesystem::is_regular_file(options.output, error)) {
    return WrongInput({{"file.exists",
                        {options.output, 0, 0},
                        "the file exists, and may hold changes of yours: " + Quoted(options.output),
                        "name another file, or replace this one with --force"}});
  }
  foreign::ImportRequest request = ImportRequestOf(options.files, options.set);
  request.absolute_paths = !std::filesystem::path(options.output).parent_path().empty();
  request.states_software = true;
  request.takes_scenario = true;
  const auto imported = foreign::Import(request);
  if (!imported) return WrongInput(imported.error());
  const Diagnostics obstacles = Obstacles(*imported);
  Outcome outcome = PutText(options.output, imported->scenario.text);
  if (outcome.status != kDone) return outcome;
  outcome.messages = ImportMessages(*imported);
  if (!options.output.empty()) outcome.messages += "stepcast: wrote " + options.output + "\n";
  if (!obstacles.empty()) {
    outcome.status = kAnswerIsNo;
    outcome.messages += "The scenario cannot be forecast as it stands:\n" + Format(obstacles);
  }
  return outcome;
}

void DescribeInit(Question& question, InitOptions& options) {
  question
      .Argument("FILE", &options.files.files,
                "A model (its name, here or on the Hub, or its config.json), a recipe, a scenario, "
                "or configurations of other programs (docs/foreign.md)")
      .Required();
  question.Option(
      "--set", &options.set, "KEY=VALUE",
      "A key of the scenario by its dotted path, in the place of what the files say, as "
      "often as needed");
  AddImport(question, options.files);
  question.Option("-o,--output", &options.output, kFile, "Write to FILE instead of stdout");
  question.Flag("--force", &options.force, "Replace the file of --output");
}

}  // namespace

Command InitCommand() { return MakeCommand<InitOptions>("init", DescribeInit, Init); }

}  // namespace stepcast::cli
