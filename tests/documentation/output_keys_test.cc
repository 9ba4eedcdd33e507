// Checks that docs/formats/output.md and sweeps.md list exactly the keys that commands print with
// `--json`. docs/schema/answers has them as JSON Schemas, and the answers in the transcripts of
// tests/golden must be valid.
//
//   bazel test //tests/documentation:output_keys_test
//   bazel run //tests/documentation:output_keys_test -- --update     # rewrites docs/schema/answers

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"
#include "tests/documentation/answer_schema.h"
#include "tests/documentation/json_schema.h"

namespace stepcast {
namespace {

using nlohmann::json;
using Keys = std::set<std::string>;
using Answers = std::vector<json>;

bool update = false;

// Mappings with keys of the input.
const Keys kOfTheInput = {"plan.set",     "plan.as_good.settings", "row.set",
                          "losers[].set", "kinds[].set",           "why.set",
                          "resolved",     "plan.resolved"};
// Mappings whose keys are verdicts with counts, which a sentence names.
const Keys kNamedInText = {"pruned"};

// Places of plans: the best ones of `plan`, the two of `compare`.
const Keys kPlans = {"best[]", "pareto[]", "nearest[]",      "a",
                     "b",      "yours",    "by_gpus[].best", "risky"};

// The paths of all values of a document: "space", "losers[].reason", "illegal.CODE.count". A plan
// or a row is a separate document.
void Collect(const json& value, const std::string& path, Keys& keys) {
  if ((kPlans.contains(path) || path == "sensitivity.memory") && value.is_object()) {
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

// The keys in the first column of a section's tables, or of its first table after `prefix` if
// given. "`losers[].set`, `.reason`" are losers[].set and losers[].reason.
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

Answers AnswersOf(const std::vector<std::string>& commands) {
  Answers answers;
  for (const std::string& command : commands) {
    const cli::ShellResult result = cli::Shell("src/cli/stepcast " + command);
    EXPECT_TRUE(result.status == 0 || result.status == 3) << command << result.messages;
    answers.push_back(json::parse(result.output));
  }
  return answers;
}

Keys Printed(const Answers& answers) {
  Keys keys;
  for (const json& answer : answers) Collect(answer, "", keys);
  return keys;
}

// Places with keys of the input, or with counts by name.
const Keys kFree = {"best[].set",
                    "pareto[].set",
                    "nearest[].set",
                    "by_gpus[].best.set",
                    "risky.set",
                    "risky.resolved",
                    "risky.as_good.settings",
                    "by_gpus[].best.as_good.settings",
                    "losers[].set",
                    "kinds[].set",
                    "why.set",
                    "best[].resolved",
                    "pareto[].resolved",
                    "nearest[].resolved",
                    "resolved",
                    "a.resolved",
                    "b.resolved",
                    "a.set",
                    "b.set",
                    "rows[].set",
                    "best[].as_good.settings",
                    "pareto[].as_good.settings",
                    "nearest[].as_good.settings",
                    "illegal",
                    "pruned"};

void ExpectSchema(const std::string& name, const Answers& answers) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  const std::string path = fmt::format("docs/schema/answers/{}.json", name);
  const std::string schema = AnswerSchema(name, answers, kFree).dump(2) + "\n";
  if (update) {
    std::ofstream(fmt::format("{}/{}", workspace, path), std::ios::binary) << schema;
  } else {
    EXPECT_EQ(Read(path), schema) << "bazel run //tests/documentation:output_keys_test -- --update";
  }
}

// The keys, with everything below `paths` as one key, which the documents describe elsewhere. A
// list that is sometimes null counts as the list.
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
// Has no effect without a pipeline, which causes a warning.
constexpr const char* kWarning = "--set parallelism.schedule=gpipe";

TEST(OutputKeysTest, ThoseOfPlanAreDocumented) {
  const Keys documented = Documented("Output of plan", "plan");
  EXPECT_GT(documented.size(), 40U);
  const std::string plan =
      fmt::format("plan {} --json --only data --fix training.activation_checkpointing ", kScenario);
  const Answers answers = AnswersOf({
      // With losers, illegal plans, and settings that make no difference.
      plan + "--framework ddp,fsdp1 --vary training.micro_batch_size=2,3,4 --why 3 "
             "--tokens 1e9 --price 2 --vary 'data_parallel.bucket_size=25 MiB'",
      // On several numbers of GPUs, not all of which meet the deadline; and ported from another
      // cluster, with a plan that cannot be executed.
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --fewer-nodes --no-front "
             "--tokens 1B --price '$2' --deadline '4 h' --availability 0.9 --best 1",
      fmt::format("plan --port {} --to dgx-h100 --to-nodes 2 --json --only data --framework ddp "
                  "--fix training.activation_checkpointing --vary data_parallel.comm_hook=powerSGD "
                  "--vary 'data_parallel.bucket_size=25 MiB' --no-front --best 1",
                  kScenario),
      // More memory changes the answer.
      plan + "--set training.global_batch_size=512 --set training.gradient_accumulation=null "
             "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --headroom 50% --no-front",
      // A setting that some plans keep.
      fmt::format(
          "plan {} --json --framework ddp --only data --set training.activation_checkpointing=full "
          "--set training.blocks_per_checkpoint=2 --best 1 "
          "--vary 'data_parallel.bucket_size=25 MiB'",
          kScenario),
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --target energy "
             "--tokens 1B --best 1 --no-front",
      // The rank of a layout.
      fmt::format("plan {} --json --framework megatron --only data,tensor --best 1 --no-front "
                  "--no-sensitivity --fix training.activation_checkpointing "
                  "--vary training.micro_batch_size=2 --why tensor=2",
                  kScenario),
      // No plan fits, but one with smaller micro-batches would.
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --best 1 --no-front "
             "--set training.global_batch_size=4096 --set training.gradient_accumulation=null "
             "--vary training.micro_batch_size=512 --fix training.activation_checkpointing",
      // No plan is acceptable.
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --headroom 99% --best 1",
      // A kind without an acceptable plan, which is not simulated.
      plan + "--framework ddp,fsdp2 --vary 'data_parallel.bucket_size=25 MiB' --headroom 99% "
             "--best 1 --no-front --price 2",
      // A setting that all plans keep. The scenario's own plan is illegal.
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --best 1 --no-front "
             "--no-sensitivity --set training.compile=true --set training.global_batch_size=32 "
             "--set training.gradient_accumulation=null --set training.micro_batch_size=3 "
             "--vary training.micro_batch_size=2,4 --target days --tokens 1B",
      // A faster plan may not fit.
      plan + "--framework ddp --vary 'data_parallel.bucket_size=25 MiB' --best 1 --no-front "
             "--no-sensitivity --set training.global_batch_size=1472 "
             "--set training.gradient_accumulation=null --set training.micro_batch_size=92 "
             "--vary training.micro_batch_size=92,184",
  });
  EXPECT_EQ(Printed(answers), documented);
  ExpectSchema("plan", answers);
}

TEST(OutputKeysTest, ThoseOfSweepAreDocumented) {
  const Keys documented = Documented("Output of sweep", "row");
  const Answers answers = AnswersOf(
      {fmt::format("sweep {} --json --vary data_parallel.zero_stage=0,1", kScenario),
       "sweep scenarios/bucket-sweep/scenario.yaml --json "
       "--vary data_parallel.zero_stage=0,1",
       fmt::format("sweep {} --json --vary cluster.nodes=1,2 --set parallelism.data=null "
                   "--tokens 1B --price 2 --deadline '1 d'",
                   kScenario),
       // Illegal rows, without a price or without a number of tokens.
       fmt::format("sweep {} --json --vary data_parallel.zero_stage=0,1 --tokens 1B", kScenario),
       fmt::format("sweep {} --json --vary data_parallel.zero_stage=0,1 --price 2", kScenario)});
  EXPECT_EQ(Printed(answers), documented);
  ExpectSchema("sweep", answers);
  // A line of --jsonl is a row.
  const cli::ShellResult lines = cli::Shell(fmt::format(
      "src/cli/stepcast sweep {} --jsonl --vary data_parallel.zero_stage=0", kScenario));
  Keys keys;
  Collect(json::parse(lines.output), "row", keys);
  for (const std::string& key : keys) EXPECT_TRUE(documented.contains(key)) << key;
  EXPECT_EQ(keys.size(), 20U);
}

TEST(OutputKeysTest, ThoseOfSimulateAreDocumented) {
  const Answers answers = AnswersOf({
      fmt::format("simulate {} --json {} --set 'training.checkpoint_saving={{every: 100, "
                  "bandwidth: 2 GB/s}}'",
                  kScenario, kWarning),
      fmt::format("simulate {} --json --tokens 1B --price '$2' --deadline '1 d'", kScenario),
      fmt::format("simulate {} --json --tokens 1B", kScenario),
      fmt::format("simulate {} --json --price 2", kScenario),
      // It does not fit, and would with smaller micro-batches.
      fmt::format("simulate {} --json --set training.micro_batch_size=512", kScenario),
      // Host costs are unknown, and the host bounds the step.
      fmt::format("simulate {} --json --set data_parallel.framework=fsdp1 "
                  "--set data_parallel.zero_stage=3 --set training.sequence_length=64 "
                  "--set training.micro_batch_size=1",
                  kScenario),
      // Measured steps of this kind take longer than forecasts.
      "simulate scenarios/llama3-70b-tensor-fsdp/scenario.yaml --json "
      "--set training.compile=false",
      // The textbook on a flat cluster without a GPU type: no ranges and no MFU.
      "simulate scenarios/bucket-sweep/scenario.yaml --json",
      // A pipeline whose schedule splits the backward.
      "simulate scenarios/pipeline-schedules/scenario.yaml --json "
      "--set parallelism.schedule=zb_h1",
      // Ranks that wait for a slow one.
      "simulate scenarios/gpt2-pipeline/scenario.yaml --json "
      "--set 'cluster.slow_devices=[{device: node0/gpu5, speed: 0.9}]'",
      "simulate scenarios/mixed-nodes/scenario.yaml --json",
      // With idle GPUs.
      fmt::format("simulate {} --json --set parallelism.data=4 --set cluster.devices=plan",
                  kScenario),
      "simulate scenarios/zero3-cost/scenario.yaml --json",
      // Micro-batches of several lengths.
      fmt::format("simulate {} --json --set training.sequence_length=128 "
                  "--set 'training.lengths={{batching: padded, histogram: [[64, 3], [128, 1]]}}'",
                  kScenario),
      // Only adapters are trained.
      "simulate scenarios/llama2-70b-lora/scenario.yaml --json",
      // Stages that wait for each other while an allocator returns memory.
      "simulate scenarios/llama3-70b-tensor-fsdp/scenario.yaml --json "
      "--set training.gradient_accumulation=2 --set training.micro_batch_size=1 "
      "--set parallelism.tensor=2 "
      "--set parallelism.sequence_parallel=false --set parallelism.pipeline=2 "
      "--set parallelism.schedule=breadth_first --set parallelism.virtual_stages=41 "
      "--set parallelism.context=2 --set parallelism.context_method=ring "
      "--set 'data_parallel={framework: fsdp2, zero_stage: 2}' "
      "--set training.activation_checkpointing=none --set data_parallel.prefetch=0",
      // A model with experts, of which a token uses some.
      fmt::format("simulate {} --json --set model=models/mixtral-8x7b.yaml", kScenario),
      // The allocator returns memory.
      "simulate scenarios/shared-card/scenario.yaml --json --set training.master_weights=fp32",
      "simulate scenarios/deepspeed-zero/scenario.yaml --json "
      "--set data_parallel.deepspeed.offload_optimizer=cpu",
  });
  const Keys elsewhere = {"classes[].time_s", "classes[].memory"};
  // A profile that has learned from runs.
  const Keys learned = {"learned.factor", "learned.known", "time_s.learned"};
  EXPECT_EQ(And(Folded(Printed(answers), elsewhere), learned), Documented("Output of simulate"));
  ExpectSchema("simulate", answers);
}

TEST(OutputKeysTest, ThoseOfMemoryAreDocumented) {
  const Answers answers =
      AnswersOf({fmt::format("memory {} --json --max-micro-batch {}", kScenario, kWarning),
                 fmt::format("memory {} --json --set training.micro_batch_size=512", kScenario)});
  EXPECT_EQ(Printed(answers), Documented("Output of memory"));
  ExpectSchema("memory", answers);
}

TEST(OutputKeysTest, ThoseOfCompareAreDocumented) {
  const Answers answers = AnswersOf({fmt::format(
      "compare {} --json --set-b training.micro_batch_size=8 --fail-if 'step_time>+2%' {}",
      kScenario, kWarning)});
  const Keys elsewhere = {"plan.time_s", "plan.communication", "plan.memory", "difference.time_s"};
  EXPECT_EQ(Folded(Printed(answers), elsewhere), Documented("Output of compare", "plan"));
  ExpectSchema("compare", answers);
}

TEST(OutputKeysTest, ThoseOfExplainAreDocumented) {
  // A step with other kernels.
  const std::string trace = testing::TempDir() + "/explained.json";
  AnswersOf({fmt::format("simulate {} --json --set training.attention=math --trace {}", kScenario,
                         trace)});
  const Answers answers =
      AnswersOf({fmt::format("explain {} --json --measured {}", kScenario, trace),
                 fmt::format("explain {} --json {}", kScenario, kWarning),
                 fmt::format("explain {} --json --measured '60 ms'", kScenario),
                 // Without a range, and with resources that no speed makes explain it.
                 "explain scenarios/bucket-sweep/scenario.yaml --json --measured '1 h'",
                 // With ranks that wait for others.
                 "explain scenarios/gpt2-pipeline/scenario.yaml --json",
                 // With collectives that no speed hides.
                 fmt::format("explain {} --json --set training.sequence_length=64 "
                             "--set 'data_parallel={{framework: megatron, zero_stage: 1}}' "
                             "--set 'parallelism={{tensor: 4, data: 2}}'",
                             kScenario)});
  EXPECT_EQ(Folded(Printed(answers), {"time_s", "memory"}), Documented("Output of explain"));
  ExpectSchema("explain", answers);
}

TEST(OutputKeysTest, ThoseOfRunTimeAreDocumented) {
  const Answers answers = AnswersOf(
      {fmt::format("run-time {} --json --tokens 1B --price '$2' {}", kScenario, kWarning),
       fmt::format("run-time {} --json --tokens 1B --restarts manual --spares 1 --repair '1 d'",
                   kScenario),
       fmt::format("run-time {} --json --tokens 1B --node-mtbf none --job-mtbf none", kScenario)});
  EXPECT_EQ(Folded(Printed(answers), {"memory"}), Documented("Output of run-time"));
  ExpectSchema("run-time", answers);
}

TEST(OutputKeysTest, ThoseOfCollectiveAreDocumented) {
  // NCCL's choice is not the fastest for some sizes, and is for others.
  const Answers answers = AnswersOf({"collective scenarios/llama3-8b-fsdp/scenario.yaml --json",
                                     "collective scenarios/bucket-sweep/scenario.yaml --json"});
  EXPECT_EQ(Printed(answers), Documented("Output of collective", "row"));
  ExpectSchema("collective", answers);
}

TEST(OutputKeysTest, ThoseOfCalibrateRunsAreDocumented) {
  const std::string single = testing::TempDir() + "/single.csv";
  std::ofstream(single) << "step_time\n60 ms\n";
  const Answers answers =
      AnswersOf({"calibrate runs calibration/published/llm-foundry.yaml --json",
                 fmt::format("calibrate runs {} --scenario {} --json", single, kScenario)});
  // No run has these.
  EXPECT_EQ(And(Printed(answers), {"far[]", "doubtful[]"}), Documented("Output of calibrate runs"));
  ExpectSchema("calibrate-runs", answers);
}

TEST(OutputKeysTest, ThoseOfCalibrateTraceAreDocumented) {
  const std::string trace = testing::TempDir() + "/learned.json";
  AnswersOf({fmt::format("simulate {} --json --trace {}", kScenario, trace)});
  const Answers answers = AnswersOf(
      {fmt::format("calibrate trace {} --scenario {} --json", trace, kScenario),
       // Collectives that do not match.
       fmt::format(
           "calibrate trace {} --scenario {} --json --set 'data_parallel.bucket_size=1 MiB' "
           "--output {}/learned.yaml",
           trace, kScenario, testing::TempDir())});
  EXPECT_EQ(Printed(answers), Documented("Output of calibrate trace"));
  ExpectSchema("calibrate-trace", answers);
}

// The answers in a transcript: one document below each command of this kind with --json.
Answers InTranscript(const std::string& path, const std::string& command) {
  const std::string text = Read(path);
  Answers answers;
  const std::string begin = "$ stepcast " + command + " ";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const std::size_t line = text.find('\n', at);
    if (text.substr(at, line - at).find(" --json") == std::string::npos) continue;
    const std::size_t end = text.find("\n}\n", line);
    answers.push_back(json::parse(text.substr(line + 1, end + 2 - line)));
  }
  return answers;
}

TEST(AnswerSchemas, TranscriptsAreValid) {
  for (const auto& [file, command] :
       {std::pair("bucket-sweep", "simulate"), std::pair("mixed-nodes", "simulate"),
        std::pair("plan", "plan"), std::pair("collectives", "collective")}) {
    const json schema = json::parse(Read(fmt::format("docs/schema/answers/{}.json", command)));
    const Answers answers = InTranscript(fmt::format("tests/golden/{}.txt", file), command);
    EXPECT_FALSE(answers.empty()) << file;
    for (const json& answer : answers) {
      const auto mistakes = Mistakes(answer, schema);
      EXPECT_TRUE(mistakes.empty()) << file << fmt::format("{}", fmt::join(mistakes, "\n"));
    }
  }
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  stepcast::update = count > 1 && std::string_view(words[1]) == "--update";
  return RUN_ALL_TESTS();
}
