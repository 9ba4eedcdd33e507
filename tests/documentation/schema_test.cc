// Checks that docs/schema holds the output of `stepcast schema`, and that all shipped files and all
// plans accepted by the reader match their schemas.
//
//   bazel test //tests/documentation:schema_test
//   bazel run //tests/documentation:schema_test -- --update     # rewrites docs/schema

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/base/diagnostic.h"
#include "src/cli/command_test.h"
#include "src/scenario/load.h"
#include "src/scenario/yaml_tree.h"
#include "tests/documentation/json_schema.h"
#include "tests/property/any_plan.h"

namespace stepcast {
namespace {

using nlohmann::json;

bool update = false;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

const json& SchemaOf(const std::string& what) {
  static std::map<std::string, json> known;
  const auto [found, added] = known.try_emplace(what);
  if (added) found->second = json::parse(cli::Shell("src/cli/stepcast schema " + what).output);
  return found->second;
}

// Converts YAML as other programs read it.
json ToJson(const scenario::YamlNode& node) {
  switch (node.kind) {
    case scenario::NodeKind::kNull:
      return nullptr;
    case scenario::NodeKind::kSequence: {
      json items = json::array();
      for (const auto& item : node.items) items.push_back(ToJson(*item));
      return items;
    }
    case scenario::NodeKind::kMapping: {
      json entries = json::object();
      for (const auto& entry : node.entries) entries[entry.key] = ToJson(*entry.value);
      return entries;
    }
    case scenario::NodeKind::kScalar:
      break;
  }
  const std::string& text = node.scalar;
  if (node.quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  std::int64_t integer = 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer).ptr == end) return integer;
  if (std::from_chars(text.data(), end, number).ptr == end) return number;
  return text;
}

json Parsed(std::string_view text, const std::string& file) {
  Diagnostics faults;
  const auto tree = scenario::ParseYaml(text, file, faults);
  EXPECT_TRUE(tree.has_value()) << Format(faults);
  return tree ? ToJson(**tree) : json();
}

// The keys of a mapping and its nested mappings, without the content of separate files.
void AddKeys(const json& mapping, const std::string& path, std::set<std::string>& keys) {
  for (const auto& [name, value] : mapping.at("properties").items()) {
    const std::string own = path.empty() ? name : path + "." + name;
    const bool section = path.empty() && value.contains("properties");
    if (!section) keys.insert(own);
    if (value.contains("properties")) AddKeys(value, own, keys);
    if (value.contains("items") && value["items"].contains("properties")) {
      AddKeys(value["items"], own, keys);
    }
  }
}

// `list settings` has every key that the scenario reader accepts.
TEST(ListSettings, HasEveryKeyOfAScenario) {
  std::set<std::string> keys, listed;
  AddKeys(SchemaOf("scenario"), "", keys);
  const json list = json::parse(cli::Shell("src/cli/stepcast list settings --json").output);
  for (const json& setting : list.at("settings")) listed.insert(setting.at("key"));
  EXPECT_EQ(listed, keys);
}

TEST(Schema, ThatOfDocumentsIsThatOfTheProgram) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  for (const char* what : {"scenario", "plan", "model", "topology", "gpu"}) {
    const cli::ShellResult printed = cli::Shell(fmt::format("src/cli/stepcast schema {}", what));
    ASSERT_EQ(printed.status, 0) << printed.messages;
    const std::string path = fmt::format("docs/schema/{}.json", what);
    if (update) {
      std::ofstream(fmt::format("{}/{}", workspace, path), std::ios::binary) << printed.output;
    } else {
      EXPECT_EQ(Read(path), printed.output)
          << "bazel run //tests/documentation:schema_test -- --update";
    }
  }
}

void ExpectAllValid(const std::string& folder, const std::string& what) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    const bool of_scenario = what == "scenario";
    if (!path.ends_with(of_scenario ? "/scenario.yaml" : ".yaml")) continue;
    if (what == "topology" && path.find("/gpus/") != std::string::npos) continue;
    if (what == "model" && path.find("/families/") != std::string::npos) continue;
    ++files;
    const std::vector<std::string> mistakes = Mistakes(Parsed(Read(path), path), SchemaOf(what));
    EXPECT_TRUE(mistakes.empty()) << path << "\n" << fmt::format("{}", fmt::join(mistakes, "\n"));
  }
  EXPECT_GT(files, 10) << folder;
}

TEST(Schema, FilesThatComeAlongAreValid) {
  ExpectAllValid("scenarios", "scenario");
  ExpectAllValid("models", "model");
  ExpectAllValid("topologies", "topology");
  ExpectAllValid("topologies/gpus", "gpu");
}

TEST(Schema, WhatTheReaderRefusesIsNotValid) {
  const json valid = Parsed(Read("scenarios/llama3-8b-fsdp/scenario.yaml"), "scenario.yaml");
  const auto is_valid = [&](const char* place, const json& value) {
    json changed = valid;
    changed[json::json_pointer(place)] = value;
    return Mistakes(changed, SchemaOf("scenario")).empty();
  };
  EXPECT_TRUE(is_valid("/training/precision", "fp8"));
  EXPECT_FALSE(is_valid("/training/precision", "bf17"));
  EXPECT_FALSE(is_valid("/training/precission", "bf16"));
  EXPECT_TRUE(is_valid("/training/gradient_clipping", "none"));
  EXPECT_TRUE(is_valid("/training/gradient_clipping", 1.5));
  EXPECT_FALSE(is_valid("/training/gradient_clipping", "some"));
  EXPECT_FALSE(is_valid("/training/micro_batch_size", 0));
  EXPECT_FALSE(is_valid("/stepcast", 2));
  EXPECT_TRUE(is_valid("/data_parallel/bucket_size", "25 MiB"));
  EXPECT_TRUE(is_valid("/data_parallel/bucket_size", "unit"));
  EXPECT_FALSE(is_valid("/data_parallel/bucket_size", "25"));
  EXPECT_TRUE(is_valid("/data_parallel/reshard_after_forward", 8));
  EXPECT_TRUE(is_valid("/data_parallel/reshard_after_forward", false));
  EXPECT_TRUE(is_valid("/parallelism", json{{"stage_layers", {1, 2}}}));
  EXPECT_TRUE(is_valid("/parallelism", json{{"stage_layers", "Et|tL"}}));
  EXPECT_TRUE(is_valid("/cluster/devices", "plan"));
  json incomplete = valid;
  incomplete.erase("training");
  EXPECT_FALSE(Mistakes(incomplete, SchemaOf("scenario")).empty());
}

// Random plans, as written and with all their defaults.
TEST(Schema, WhatTheReaderTakesIsValid) {
  scenario::InputCache cache;
  constexpr int kPlans = 200;
  int taken = 0;
  for (std::uint64_t seed = 1; taken < kPlans; ++seed) {
    const PlanText plan = PlanOf(seed);
    const auto loaded = scenario::LoadText(plan.scenario, "plan.yaml", plan.settings, cache);
    if (!loaded) continue;
    ++taken;
    json written = Parsed(plan.scenario, "plan.yaml");
    for (const std::string& setting : plan.settings) {
      const std::size_t equals = setting.find('=');
      std::string place = "/" + setting.substr(0, equals);
      for (char& c : place) c = c == '.' ? '/' : c;
      const json value = Parsed(setting.substr(equals + 1), "--set");
      if (!value.is_null()) written[json::json_pointer(place)] = value;
    }
    const auto mistakes = Mistakes(written, SchemaOf("scenario"));
    EXPECT_TRUE(mistakes.empty()) << Said(plan) << fmt::format("{}", fmt::join(mistakes, "\n"));
  }
}

// The allowed words at and below a place in the schema, each as an override.
void CollectWords(const json& schema, const std::string& path,
                  std::set<std::pair<std::string, std::string>>& words) {
  for (const json& word : schema.value("enum", json::array())) {
    if (word.is_string()) words.emplace(path, word.get<std::string>());
  }
  for (const json& one : schema.value("anyOf", json::array())) CollectWords(one, path, words);
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, own] : properties.items()) {
    CollectWords(own, path.empty() ? key : path + "." + key, words);
  }
}

TEST(Schema, TheReaderKnowsEveryWord) {
  std::set<std::pair<std::string, std::string>> words;
  CollectWords(SchemaOf("scenario"), "", words);
  EXPECT_GT(words.size(), 100U);
  scenario::InputCache cache;
  const std::string text = Read("scenarios/llama3-8b-fsdp/scenario.yaml");
  for (const auto& [key, word] : words) {
    if (key.starts_with("model.") || key.starts_with("cluster.topology.")) continue;
    const auto loaded =
        scenario::LoadText(text, "s.yaml", {fmt::format("{}={}", key, word)}, cache);
    if (loaded) continue;
    for (const Diagnostic& fault : loaded.error()) {
      EXPECT_TRUE(fault.code != "input.unknown-word" && fault.code != "input.unknown-key")
          << Format({fault});
    }
  }
}

TEST(Schema, APlanIsValid) {
  const json answer = json::parse(
      cli::Shell("src/cli/stepcast simulate scenarios/gpt2-ddp/scenario.yaml --json").output);
  const json plan = {{"stepcast_plan", 1}, {"scenario", answer["resolved"]}};
  const auto mistakes = Mistakes(plan, SchemaOf("plan"));
  EXPECT_TRUE(mistakes.empty()) << fmt::format("{}", fmt::join(mistakes, "\n"));
  EXPECT_FALSE(Mistakes(answer["resolved"], SchemaOf("plan")).empty());
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
