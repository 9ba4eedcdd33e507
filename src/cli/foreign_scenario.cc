#include "src/cli/foreign_scenario.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/text_lines.h"
#include "src/cli/option_parts.h"
#include "src/cli/outputs.h"
#include "src/foreign/recipes.h"
#include "src/scenario/memory_document.h"

namespace stepcast::cli {

std::string Named(const ScenarioFiles& files) {
  return fmt::format("{}", fmt::join(files.files, ", "));
}

foreign::ImportRequest ImportRequestOf(const ScenarioFiles& files,
                                       const std::vector<std::string>& set) {
  foreign::ImportRequest request = files;
  if (!files.family.empty()) request.model.clear();
  request.set = set;
  return request;
}

report::CommandWords CommandOn(const char* command, const ScenarioFiles& files,
                               const std::vector<std::string>& set) {
  report::CommandWords line{{"stepcast", command}, set};
  std::vector<std::string>& words = line.words;
  words.insert(words.end(), files.files.begin(), files.files.end());
  ScenarioFiles given = files;
  Question question;
  AddImport(question, given);
  for (const QuestionSetting& setting : question.settings()) {
    std::vector<std::string> values;
    if (const auto* text = std::get_if<std::string*>(&setting.variable)) {
      values = {**text};
    } else if (const auto* list = std::get_if<std::vector<std::string>*>(&setting.variable)) {
      values = **list;
    } else if (const auto& number = *std::get<std::optional<std::int64_t>*>(setting.variable)) {
      values = {fmt::format("{}", *number)};
    }
    for (const std::string& value : values) {
      if (!value.empty()) words.insert(words.end(), {setting.name, value});
    }
  }
  return line;
}

std::string TitleOf(const std::string& scenario) {
  const auto document = scenario::MemoryDocument::Find(scenario);
  return document == nullptr ? scenario : document->title;
}

std::string ImportMessages(const foreign::Imported& imported) {
  std::string text = Lines("note", imported.notes);
  if (!imported.assumed.empty()) {
    text += fmt::format(
        "the following settings are assumed: {}; to write a scenario with these settings, add "
        "--save FILE\n",
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
    // --set comes last, so that hints with --set work beside every other option.
    std::vector<std::string> given;
    const auto add = [&given](const char* key, const std::string& value) {
      if (!value.empty()) given.push_back(fmt::format("{}={}", key, value));
    };
    if (auto fault = foreign::TwoClusters(files)) return WrongInput({*std::move(fault)});
    if (!files.gpus.empty()) {
      const auto cluster = foreign::ClusterOfGpus(files.gpus);
      if (!cluster) return WrongInput(cluster.error());
      add("cluster", *cluster);
    }
    add("model", files.family.empty() ? files.model : OfFamily(files));
    add("cluster.topology", files.cluster);
    const auto count = [&add](const char* key, const std::optional<std::int64_t>& value) {
      if (value) add(key, fmt::format("{}", *value));
    };
    count("cluster.nodes", files.nodes);
    count("training.sequence_length", files.sequence_length);
    count("training.global_batch_size", files.global_batch);
    if (!files.save.empty()) {
      return WrongInput("command.wrong-use", "--save " + files.save,
                        "--save writes a scenario from a model or from files of other programs, "
                        "but the input is already a scenario: " +
                            Quoted(files.files.front()),
                        fmt::format("to save the scenario with other settings, run stepcast init "
                                    "{} --set KEY=VALUE -o my.yaml",
                                    files.files.front()));
    }
    std::vector<std::string> notes;
    for (const std::string& option : given) {
      const std::string key = option.substr(0, option.find('=') + 1);
      for (const std::string& other : set) {
        if (other.starts_with(key) && other != option) {
          notes.push_back(
              fmt::format("--set {} replaces {}, which another option sets", other, option));
        }
      }
    }
    set.insert(set.begin(), given.begin(), given.end());
    Outcome outcome = command();
    outcome.messages = Lines("note", notes) + outcome.messages;
    return outcome;
  }
  if (!files.family.empty()) set.push_back("model=" + OfFamily(files));
  auto imported = foreign::Import(ImportRequestOf(files, set));
  if (!imported) return WrongInput(imported.error());
  if (!files.save.empty()) {
    std::error_code error;
    if (std::filesystem::exists(files.save, error)) {
      return WrongInput(
          "file.exists", files.save,
          "the file already exists and may contain your changes: " + Quoted(files.save),
          "give --save the path of another file");
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
  // Assumptions matter only for an answer.
  if (outcome.status == kWrongInput) imported->assumed.clear();
  outcome.messages = ImportMessages(*imported) + outcome.messages;
  return outcome;
}

}  // namespace stepcast::cli
