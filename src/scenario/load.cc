#include "src/scenario/load.h"

#include <optional>
#include <utility>

#include "src/scenario/document.h"
#include "src/scenario/loader.h"
#include "src/scenario/plan_file.h"

namespace stepcast::scenario {
namespace {

Result<Scenario> Read(OpenedScenario opened, const std::vector<std::string>& overrides,
                      InputCache& cache) {
  Override(overrides, opened, cache);
  Loader loader(std::move(opened), cache);
  if (auto read = loader.Read(); !read) return tl::make_unexpected(std::move(read.error()));
  return loader.Take();
}

}  // namespace

Result<Scenario> Load(const std::string& path, const std::vector<std::string>& overrides,
                      InputCache& cache) {
  auto opened = OpenScenario(path, cache);
  if (!opened) return tl::make_unexpected(std::move(opened.error()));
  return Read(*std::move(opened), overrides, cache);
}

Result<Scenario> Load(const std::string& path) {
  InputCache cache;
  return Load(path, {}, cache);
}

Result<Scenario> LoadText(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides, InputCache& cache) {
  OpenedScenario opened{.root = nullptr, .mistakes = {}, .file = file};
  std::optional<Node> root = ParseDocument(text, file, opened.mistakes);
  if (root) root = ScenarioOfPlan(*root, opened.mistakes);
  if (root) opened.root = root->tree();
  return Read(std::move(opened), overrides, cache);
}

Result<Scenario> LoadTree(const YamlTree& root, const std::string& file, InputCache& cache) {
  return Read({.root = root, .mistakes = {}, .file = file}, {}, cache);
}

}  // namespace stepcast::scenario
