// Opens a scenario file and applies overrides, before the tree is interpreted (loader.h).

#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/loader.h"
#include "src/scenario/memory_document.h"
#include "src/scenario/overrides.h"
#include "src/scenario/plan_file.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

// Whether the name may be that of a YAML file. Pipes and links have no extension.
bool HasYamlName(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension.empty() || extension == ".yaml" || extension == ".yml" || extension == ".json";
}

// A mistake of another kind of file, whose mistakes in YAML would help nobody.
Diagnostic NotYaml(const std::string& path) {
  return {"file.not-a-scenario",
          {path, 0, 0},
          "this is not a scenario, because it is not a YAML file",
          "write the path of a scenario, such as scenarios/gpt2-ddp/scenario.yaml, or the name of "
          "a model, such as llama3.1-8b. To see the models, run stepcast list models"};
}

}  // namespace

Result<OpenedScenario> OpenScenario(const std::string& path, InputCache& cache) {
  const auto opened = [](const Document& document, const std::string& file) {
    OpenedScenario scenario{.root = nullptr, .mistakes = document.mistakes, .file = file};
    if (document.root) scenario.root = document.root->tree();
    return scenario;
  };
  if (const auto document = MemoryDocument::Find(path)) {
    const auto read = cache.contents().documents.Get(path, [&]() -> Result<Document> {
      Document parsed;
      parsed.root = ParseDocument(document->text, document->title, parsed.mistakes);
      if (parsed.root) parsed.root = ScenarioOfPlan(*parsed.root, parsed.mistakes);
      return parsed;
    });
    return opened(**read, document->title);
  }
  const std::optional<std::string> found = FindInput(path, "");
  if (!found.has_value()) {
    if (FindSource(path, "", SourceKind::kModel)) {
      return tl::make_unexpected(Diagnostics{
          {"file.not-found",
           {path, 0, 0},
           "this is a model, but the command needs a scenario, which also has a cluster",
           fmt::format("to write a scenario, run stepcast init {} --gpus '8 x h100-sxm' -o my.yaml",
                       path)}});
    }
    const std::string hint = HintOfName(path);
    return tl::make_unexpected(
        Diagnostics{{"file.not-found",
                     {path, 0, 0},
                     hint.empty() ? "there is no such file" : "there is no such file or model",
                     hint.empty() ? PlacesTried(path, "") : hint}});
  }
  if (auto within = FindInput(*found + "/scenario.yaml", "")) {
    return tl::make_unexpected(Diagnostics{
        {"file.not-a-file",
         {path, 0, 0},
         "this is a directory, not a file",
         fmt::format("write the path of the scenario in this folder: {}", *std::move(within))}});
  }
  const auto document = cache.contents().documents.Get(*found, [&]() -> Result<Document> {
    Document read;
    read.root = ReadDocument(*found, read.mistakes);
    const bool readable = read.root && read.root->kind() == NodeKind::kMapping;
    if (!readable && !HasYamlName(*found)) return Document{std::nullopt, {NotYaml(path)}};
    if (read.root) read.root = ScenarioOfPlan(*read.root, read.mistakes);
    return read;
  });
  return opened(**document, *found);
}

namespace {

// For options that remove absent keys: those that no reader knows. Only the readers can tell, and
// only if the key is present, so it is tried with an empty mapping; that this is rarely a valid
// value does not matter.
Diagnostics UnknownKeys(const OpenedScenario& scenario, const std::vector<std::string>& options,
                        InputCache& cache) {
  OpenedScenario asked{.root = scenario.root, .mistakes = {}, .file = scenario.file};
  struct Asked {
    std::string option, key;
    std::size_t place = 0;
  };
  std::map<std::string, Asked> asked_at;  // by the file of its positions
  for (const std::string& option : options) {
    const std::string key = option.substr(0, option.find('='));
    const std::string present = key + "={}";
    Diagnostics ignored;
    if (auto changed = WithOverride(asked.root, present, ignored)) asked.root = *changed;
    asked_at.emplace("--set " + present, Asked{option, key, asked_at.size()});
  }
  const auto read = Loader(std::move(asked), cache).Read();
  std::map<std::size_t, Diagnostics> unknown;  // in the order of the options
  if (read) return {};
  for (const Diagnostic& fault : read.error()) {
    const auto asked_for = asked_at.find(fault.location.file);
    if (asked_for == asked_at.end()) continue;
    const auto& [option, key, place] = asked_for->second;
    // Mistakes about the key itself are reported for the mapping.
    const bool of_another = !fault.message.starts_with(Quoted(key));
    if (fault.code != "input.unknown-key" && (fault.code != "input.wrong-kind" || !of_another)) {
      continue;
    }
    unknown[place].push_back(fault);
    unknown[place].back().location.file = "--set " + option;
  }
  Diagnostics all;
  for (const auto& [place, faults] : unknown) all.insert(all.end(), faults.begin(), faults.end());
  return all;
}

}  // namespace

void Override(const std::vector<std::string>& overrides, OpenedScenario& scenario,
              InputCache& cache) {
  if (scenario.root == nullptr) return;
  std::vector<std::string> without_effect;
  for (const std::string& option : overrides) {
    auto changed = WithOverride(scenario.root, option, scenario.mistakes);
    if (!changed) continue;
    if (*changed == scenario.root) without_effect.push_back(option);
    scenario.root = *std::move(changed);
  }
  if (without_effect.empty()) return;
  const Diagnostics unknown = UnknownKeys(scenario, without_effect, cache);
  scenario.mistakes.insert(scenario.mistakes.end(), unknown.begin(), unknown.end());
}

}  // namespace stepcast::scenario
