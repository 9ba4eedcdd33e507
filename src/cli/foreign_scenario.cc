#include "src/cli/foreign_scenario.h"

#include <utility>

#include "fmt/format.h"
#include "src/foreign/recipes.h"

namespace stepcast::cli {

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set) {
  return {.files = files.files,
          .model = files.model,
          .cluster = files.cluster,
          .nodes = files.nodes,
          .set = set,
          .variables = files.variables,
          .function = files.function};
}

std::string ImportMessages(const foreign::Imported& imported) {
  std::string text;
  for (const std::string& note : imported.notes) text += "note: " + note + "\n";
  return text + imported.omissions;
}

Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command) {
  if (files.files.size() == 1 && !foreign::IsOfAnotherProgram(files.files.front())) {
    scenario = files.files.front();
    // Behind the others: the options of their own name the same keys.
    const auto add = [&set](const char* key, const std::string& value) {
      if (!value.empty()) set.push_back(fmt::format("{}={}", key, value));
    };
    add("model", files.model);
    add("cluster.topology", files.cluster);
    if (files.nodes) add("cluster.nodes", fmt::format("{}", *files.nodes));
    return command();
  }
  auto imported = foreign::Import(ImportRequestOf(files, set));
  if (!imported) return WrongInput(imported.error());
  const scenario::MemoryDocument document(imported->title, imported->scenario.text);
  scenario = document.name();
  set.clear();
  Outcome outcome = command();
  if (outcome.status == kWrongInput && !outcome.diagnostics.empty()) {
    outcome = WrongInput(
        foreign::AtOrigins(std::move(outcome.diagnostics), imported->title, imported->scenario));
  }
  outcome.messages = ImportMessages(*imported) + outcome.messages;
  return outcome;
}

}  // namespace stepcast::cli
