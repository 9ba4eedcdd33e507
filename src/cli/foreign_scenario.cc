#include "src/cli/foreign_scenario.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/text_lines.h"
#include "src/cli/outputs.h"
#include "src/foreign/recipes.h"

namespace stepcast::cli {

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set) {
  return {.files = files.files,
          .model = files.family.empty() ? files.model : "",
          .cluster = files.cluster,
          .nodes = files.nodes,
          .gpus = files.gpus,
          .sequence_length = files.sequence_length,
          .global_batch = files.global_batch,
          .set = set,
          .variables = files.variables,
          .function = files.function,
          .for_search = files.for_search};
}

std::string ImportMessages(const foreign::Imported& imported) {
  std::string text;
  for (const std::string& note : imported.notes) text += "note: " + note + "\n";
  if (!imported.assumed.empty()) {
    text += fmt::format("assumed: {}; --save FILE writes them down\n",
                        fmt::join(imported.assumed, ", "));
  }
  return text + imported.omissions;
}

namespace {

// The model read by a family's own file, from --model or from the question.
std::string OfFamily(const ScenarioFiles& files) {
  const std::string& config = files.model.empty() ? files.files.front() : files.model;
  return fmt::format("{{config: {}, family: {}}}", YamlQuoted(config), YamlQuoted(files.family));
}

}  // namespace

Outcome RunOn(const ScenarioFiles& files, std::string& scenario, std::vector<std::string>& set,
              const std::function<Outcome()>& command) {
  if (files.files.size() == 1 && !foreign::IsOfAnotherProgram(files.files.front())) {
    scenario = files.files.front();
    // Added last, since these options set keys that the others may set too.
    const auto add = [&set](const char* key, const std::string& value) {
      if (!value.empty()) set.push_back(fmt::format("{}={}", key, value));
    };
    add("model", files.family.empty() ? files.model : OfFamily(files));
    add("cluster.topology", files.cluster);
    const auto count = [&add](const char* key, const std::optional<std::int64_t>& value) {
      if (value) add(key, fmt::format("{}", *value));
    };
    count("cluster.nodes", files.nodes);
    count("training.sequence_length", files.sequence_length);
    count("training.global_batch_size", files.global_batch);
    if (!files.gpus.empty() || !files.save.empty()) {
      return WrongInput({{"command.wrong-use",
                          {files.files.front(), 0, 0},
                          "--gpus and --save are for questions without a scenario",
                          "a scenario names its GPUs: --set 'cluster={gpu: h100-sxm, gpus: 8}'"}});
    }
    return command();
  }
  if (!files.family.empty()) set.push_back("model=" + OfFamily(files));
  auto imported = foreign::Import(ImportRequestOf(files, set));
  if (!imported) return WrongInput(imported.error());
  if (!files.save.empty()) {
    std::error_code error;
    if (std::filesystem::exists(files.save, error)) {
      return WrongInput({{"file.exists",
                          {files.save, 0, 0},
                          "the file exists, and may hold changes of yours: " + Quoted(files.save),
                          "name another file"}});
    }
    if (auto saved = PutText(files.save, imported->scenario.text); saved.status != kDone) {
      return saved;
    }
  }
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
