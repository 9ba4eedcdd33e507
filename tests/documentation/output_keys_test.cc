// docs/formats.md lists the keys that `plan --json` and `sweep --json` print, and no others.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/shell.h"

namespace stepcast {
namespace {

using nlohmann::json;
using Keys = std::set<std::string>;

// Mappings whose keys are the input's.
const Keys kOfTheInput = {"plan.set", "plan.as_good.settings", "row.set", "losers[].set"};
// Their keys count plans by verdict, which a sentence names.
const Keys kNamedInText = {"pruned"};

// The paths of all values of a document: "space", "losers[].reason", "illegal.CODE.count". A plan
// or a row is a document of its own.
void Collect(const json& value, const std::string& path, Keys& keys) {
  if (path == "best[]" || path == "pareto[]" || path == "nearest[]" ||
      (path == "sensitivity.memory" && value.is_object())) {
    Collect(value, "plan", keys);
    keys.insert(path);
    return;
  }
  if (path == "rows[]") {
    Collect(value, "row", keys);
    keys.insert(path);
    return;
  }
  if (value.is_array()) {
    for (const json& member : value) Collect(member, path + "[]", keys);
    return;
  }
  if (!value.is_object() || kOfTheInput.contains(path) || kNamedInText.contains(path)) {
    keys.insert(path);
    return;
  }
  if (path == "illegal") keys.insert(path);
  for (const auto& [key, member] : value.items()) {
    const std::string name = path == "illegal" ? "CODE" : key;
    Collect(member, path.empty() ? name : path + "." + name, keys);
  }
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The keys in the first column of the tables of a section; those of its first table after `prefix`.
// "`losers[].set`, `.reason`" are losers[].set and losers[].reason.
Keys Documented(const std::string& heading, const std::string& prefix) {
  const std::string text = Read("docs/formats.md");
  const std::size_t begin = text.find("\n## " + heading + "\n");
  EXPECT_NE(begin, std::string::npos) << heading;
  const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  static const std::regex kName("`([^`]+)`");
  Keys keys;
  int table = 0;
  for (std::size_t at = 0; at < section.size();) {
    const std::size_t end = std::min(section.find('\n', at), section.size());
    const std::string line = section.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("| key |")) ++table;
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    std::string whole;
    for (std::sregex_iterator match(cell.begin(), cell.end(), kName), none; match != none;
         ++match) {
      std::string name = (*match)[1];
      if (name.starts_with('.')) name = whole.substr(0, whole.rfind('.')) + name;
      whole = name;
      keys.insert(table == 1 ? prefix + "." + name : name);
    }
  }
  return keys;
}

Keys Printed(const std::vector<std::string>& commands) {
  Keys keys;
  for (const std::string& command : commands) {
    const cli::ShellResult result = cli::Shell("src/cli/stepcast " + command);
    EXPECT_TRUE(result.status == 0 || result.status == 3) << command << result.messages;
    Collect(json::parse(result.output), "", keys);
  }
  return keys;
}

constexpr const char* kScenario = "scenarios/gpt2-ddp/scenario.yaml";

TEST(OutputKeysTest, ThoseOfPlanAreDocumented) {
  const Keys documented = Documented("Output of plan", "plan");
  EXPECT_GT(documented.size(), 40U);
  const std::string plan =
      fmt::format("plan {} --json --fix training.activation_checkpointing ", kScenario);
  EXPECT_EQ(
      Printed({
          // With losers, plans that cannot exist, settings that make no difference.
          plan + "--framework ddp,fsdp1 --vary training.micro_batch_size=2,3,4 --why 3 "
                 "--tokens 1e9 --price 2 --vary 'data_parallel.bucket_size=25 MiB'",
          // More memory gives another answer.
          plan + "--set training.global_batch_size=512 --set training.gradient_accumulation=null "
                 "--vary 'data_parallel.bucket_size=25 MiB' --headroom 50% --no-front",
          // No plan will do.
          plan + "--vary 'data_parallel.bucket_size=25 MiB' --headroom 99% --best 1",
      }),
      documented);
}

TEST(OutputKeysTest, ThoseOfSweepAreDocumented) {
  const Keys documented = Documented("Output of sweep", "row");
  EXPECT_EQ(
      Printed({fmt::format("sweep {} --json --vary data_parallel.zero_stage=0,1", kScenario)}),
      documented);
  // A line of --jsonl is a row.
  const cli::ShellResult lines = cli::Shell(fmt::format(
      "src/cli/stepcast sweep {} --jsonl --vary data_parallel.zero_stage=0", kScenario));
  Keys keys;
  Collect(json::parse(lines.output), "row", keys);
  for (const std::string& key : keys) EXPECT_TRUE(documented.contains(key)) << key;
  EXPECT_EQ(keys.size(), 12U);
}

}  // namespace
}  // namespace stepcast
