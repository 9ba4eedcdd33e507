#include "src/scenario/load.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/scenario/document.h"
#include "src/scenario/loader.h"
#include "src/scenario/plan_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {
namespace {

// Whether the key says how many machines of which kind there are.
bool IsOfMachines(std::string_view key) {
  constexpr std::string_view kKeys[] = {
      "cluster",      "cluster.topology", "cluster.nodes",      "cluster.gpu",
      "cluster.gpus", "cluster.devices",  "cluster.other_nodes"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

// A suffix for the title: ", with KEY=VALUE". A title such as "8B on 16 nodes" does not describe
// overridden settings; `other_machines` is set if it need not describe the cluster either. A few
// settings are named, those with long values by their keys only. Empty if the title itself is
// overridden.
std::string Changes(const YamlTree& before, const YamlTree& after,
                    const std::vector<std::string>& overrides, bool& other_machines) {
  constexpr std::size_t kMost = 3, kLongest = 40;
  std::vector<std::string> keys, named;
  for (auto option = overrides.rbegin(); option != overrides.rend(); ++option) {
    const std::string key = option->substr(0, option->find('='));
    if (key == "name") return "";
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;  // the last one holds
    keys.push_back(key);
    const YamlNode *was = Below(*before, key), *is = Below(*after, key);
    const bool same = was == nullptr || is == nullptr ? was == is && option->ends_with("=null")
                                                      : CanonicalText(*was) == CanonicalText(*is);
    if (same) continue;
    other_machines = other_machines || IsOfMachines(key);
    const bool shown = option->size() <= kLongest && option->find('\n') == std::string::npos;
    named.push_back(shown ? *option : key);
  }
  if (named.empty()) return "";
  std::reverse(named.begin(), named.end());
  const std::size_t more = named.size() - std::min(named.size(), kMost);
  named.resize(named.size() - more);
  return fmt::format(", with {}{}", fmt::join(named, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

Result<Scenario> Read(OpenedScenario opened, const std::vector<std::string>& overrides,
                      InputCache& cache) {
  const YamlTree before = opened.root;
  Override(overrides, opened, cache);
  if (opened.root != nullptr)
    opened.changes = Changes(before, opened.root, overrides, opened.other_machines);
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
