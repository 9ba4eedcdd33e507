#include "src/cli/init_command.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "src/base/diagnostic.h"
#include "src/cli/output_text.h"
#include "src/foreign/import.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {
namespace {

// What keeps the scenario from being forecast, at the places that its values come from.
Diagnostics Obstacles(const foreign::Imported& imported) {
  const scenario::MemoryDocument document(imported.title, imported.scenario.text);
  scenario::InputCache cache;
  auto loaded = scenario::Load(document.name(), {}, cache);
  if (loaded) return {};
  return foreign::AtOrigins(std::move(loaded.error()), imported.title, imported.scenario);
}

}  // namespace

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

}  // namespace stepcast::cli
