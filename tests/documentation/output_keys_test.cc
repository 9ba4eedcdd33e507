// docs/formats/output.md and sweeps.md list the keys that commands print with `--json`, and no
// others.

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
const Keys kOfTheInput = {"plan.set", "plan.as_good.settings", "row.set", "losers[].set",
                          "resolved", "plan.resolved"};
// Their keys count plans by verdict, which a sentence names.
const Keys kNamedInText = {"pruned"};

// Where a plan stands: the best ones of `plan`, the two of `compare`.
const Keys kPlans = {"best[]", "pareto[]", "nearest[]", "a", "b"};

// The paths of all values of a document: "space", "losers[].reason", "illegal.CODE.count". A plan
// or a row is a document of its own.
void Collect(const json& value, const std::string& path, Keys& keys) {
  if (kPlans.contains(path) || (path == "sensitivity.memory" && value.is_object())) {
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

// The keys in the first column of the tables of a section; those of its first table after `prefix`,
// if there is one. "`losers[].set`, `.reason`" are losers[].set and losers[].reason.
Keys Documented(const std::string& heading, const std::string& prefix = "") {
  const std::string text = Read("docs/formats/output.md") + Read("docs/formats/sweeps.md");
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
      keys.insert(table == 1 && !prefix.empty() ? prefix + "." + name : name);
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

// The keys with everything below `paths` as one key, which the documents describe elsewhere. A list
// that is null in places is the list.
Keys Folded(const Keys& keys, const Keys& paths) {
  Keys folded;
  for (const std::string& key : keys) {
    if (keys.contains(key + "[]")) continue;
    std::string kept = key;
    for (const std::string& path : paths) {
      if (key.starts_with(path + ".")) kept = path;
    }
    folded.insert(kept);
  }
  return folded;
}

Keys And(Keys keys, const Keys& others) {
  keys.insert(others.begin(), others.end());
  return keys;
}

constexpr const char* kScenario = "scenarios/gpt2-ddp/scenario.yaml";
// Has no effect without a pipeline: a warning says so.
constexpr const char* kWarning = "--set parallelism.schedule=gpipe";

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
          // A setting that some plans keep.
          fmt::format("plan {} --json --set training.activation_checkpointing=full "
                      "--set training.blocks_per_checkpoint=2 --best 1 "
                      "--vary 'data_parallel.bucket_size=25 MiB'",
                      kScenario),
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
  EXPECT_EQ(keys.size(), 14U);
}

TEST(OutputKeysTest, ThoseOfSimulateAreDocumented) {
  const Keys printed = Printed({
      fmt::format("simulate {} --json {} --set 'training.checkpoint_saving={{every: 100, "
                  "bandwidth: 2 GB/s}}'",
                  kScenario, kWarning),
      // The host's costs are not known, and it bounds the step.
      fmt::format("simulate {} --json --set data_parallel.framework=fsdp1 "
                  "--set data_parallel.zero_stage=3 --set training.sequence_length=64 "
                  "--set training.micro_batch_size=1",
                  kScenario),
      // A pipeline, whose schedule parts the backward; a flat cluster, of no GPU type.
      "simulate scenarios/pipeline-schedules/scenario.yaml --json "
      "--set parallelism.schedule=zb_h1",
      // Ranks that wait for a slow one.
      "simulate scenarios/gpt2-pipeline/scenario.yaml --json "
      "--set 'cluster.slow_devices=[{device: node0/gpu5, speed: 0.9}]'",
      "simulate scenarios/mixed-nodes/scenario.yaml --json",
      // GPUs that are idle.
      fmt::format("simulate {} --json --set parallelism.data=4 --set cluster.devices=plan",
                  kScenario),
      "simulate scenarios/zero3-cost/scenario.yaml --json",
      // The model is frozen but for adapters.
      "simulate scenarios/llama2-70b-lora/scenario.yaml --json",
      // A mixture, of whose parameters a token takes some.
      fmt::format("simulate {} --json --set model=models/mixtral-8x7b.yaml", kScenario),
      // The allocator gives memory back.
      "simulate scenarios/shared-card/scenario.yaml --json --set training.master_weights=fp32",
      "simulate scenarios/deepspeed-zero/scenario.yaml --json "
      "--set data_parallel.deepspeed.offload_optimizer=cpu",
  });
  const Keys elsewhere = {"classes[].time_s", "classes[].memory"};
  // With a profile that has learned from runs.
  const Keys learned = {"learned.factor", "learned.known", "time_s.learned"};
  EXPECT_EQ(And(Folded(printed, elsewhere), learned), Documented("Output of simulate"));
}

TEST(OutputKeysTest, ThoseOfMemoryAreDocumented) {
  EXPECT_EQ(Printed({fmt::format("memory {} --json --max-micro-batch {}", kScenario, kWarning)}),
            Documented("Output of memory"));
}

TEST(OutputKeysTest, ThoseOfCompareAreDocumented) {
  const Keys printed = Printed({fmt::format(
      "compare {} --json --set-b training.micro_batch_size=8 {}", kScenario, kWarning)});
  const Keys elsewhere = {"plan.time_s", "plan.communication", "plan.memory", "difference.time_s"};
  EXPECT_EQ(Folded(printed, elsewhere), Documented("Output of compare", "plan"));
}

TEST(OutputKeysTest, ThoseOfExplainAreDocumented) {
  const Keys printed = Printed({fmt::format("explain {} --json {}", kScenario, kWarning)});
  EXPECT_EQ(Folded(printed, {"time_s", "memory"}), Documented("Output of explain"));
}

TEST(OutputKeysTest, ThoseOfCollectiveAreDocumented) {
  // NCCL does not take what is fastest for some sizes, and does for others.
  EXPECT_EQ(Printed({"collective scenarios/llama3-8b-fsdp/scenario.yaml --json"}),
            Documented("Output of collective", "row"));
}

TEST(OutputKeysTest, ThoseOfCalibrateRunsAreDocumented) {
  const Keys printed = Printed({"calibrate runs calibration/published/llm-foundry.yaml --json"});
  // These runs have none of that kind.
  EXPECT_EQ(And(printed, {"far[]", "doubtful[]"}), Documented("Output of calibrate runs"));
}

}  // namespace
}  // namespace stepcast
