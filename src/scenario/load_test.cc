#include "src/scenario/load.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/scenario/resolved_scenario.h"

namespace stepcast::scenario {
namespace {

// A scenario whose line numbers the tests below use.
constexpr std::string_view kFlat =
    "stepcast: 1\n"                                                                         // 1
    "model:\n"                                                                              // 2
    "  kind: layers\n"                                                                      // 3
    "  layers: [{name: b, repeat: 2, parameters: [1000], forward: 1 ms, backward: 2 ms,\n"  // 4
    "            activation: 0 B}]\n"                                                       // 5
    "  optimizer_step: 0 ms\n"                                                              // 6
    "cluster:\n"                                                                            // 7
    "  topology: {kind: flat, devices: 8, memory: 80 GiB,\n"                                // 8
    "             link: {latency: 5 us, bandwidth: 25 GB/s}}\n"                             // 9
    "training:\n"                                                                           // 10
    "  sequence_length: 128\n"                                                              // 11
    "  micro_batch_size: 2\n"                                                               // 12
    "  gradient_accumulation: 4\n"                                                          // 13
    "  precision: bf16\n"                                                                   // 14
    "  optimizer: adamw\n"                                                                  // 15
    "data_parallel:\n"                                                                      // 16
    "  zero_stage: 0\n"                                                                     // 17
    "  framework: reference\n";                                                             // 18

// kFlat with the first occurrence of `from` replaced.
std::string Flat(std::string_view from, std::string_view to) {
  std::string text(kFlat);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// A transformer on real GPUs, from the shipped files.
constexpr std::string_view kShipped =
    "stepcast: 1\n"                                      // 1
    "model: models/gpt2.yaml\n"                          // 2
    "cluster:\n"                                         // 3
    "  topology: topologies/dgx-h100.yaml\n"             // 4
    "  nodes: 2\n"                                       // 5
    "training:\n"                                        // 6
    "  sequence_length: 1024\n"                          // 7
    "  micro_batch_size: 4\n"                            // 8
    "  gradient_accumulation: 1\n"                       // 9
    "  precision: bf16\n"                                // 10
    "  optimizer: adamw\n"                               // 11
    "data_parallel: {zero_stage: 0, framework: ddp}\n";  // 12

std::string Shipped(std::string_view from, std::string_view to) {
  std::string text(kShipped);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

Result<Scenario> LoadString(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
  InputCache cache;
  return LoadText(text, "s.yaml", overrides, cache);
}

// "file:line:column code" of each mistake; empty when there is none.
std::vector<std::string> Mistakes(const Result<Scenario>& result) {
  std::vector<std::string> lines;
  if (result.has_value()) return lines;
  for (const Diagnostic& diagnostic : result.error()) {
    lines.push_back(fmt::format("{}:{}:{} {}", diagnostic.location.file, diagnostic.location.line,
                                diagnostic.location.column, diagnostic.code));
  }
  return lines;
}

std::string Messages(const Result<Scenario>& result) {
  return result.has_value() ? "" : Format(result.error());
}

// Settings of earlier releases are refused by name, along with other mistakes of the file.
TEST(Load, WithdrawnSettingsAreNamed) {
  const Result<Scenario> asked =
      LoadString(Shipped("optimizer: adamw\n"
                         "data_parallel: {zero_stage: 0, framework: ddp}",
                         "optimizer: adamw\n  norm: apex_fp32\n"
                         "parallelism: {pipeline: 2, vocabulary: vocab_1, tensro: 2}\n"
                         "data_parallel: {zero_stage: 1, framework: internevo}"));
  ASSERT_FALSE(asked.has_value());
  EXPECT_EQ(Mistakes(asked),
            (std::vector<std::string>{
                "s.yaml:12:9 plan.no-longer-modelled", "s.yaml:13:40 plan.no-longer-modelled",
                "s.yaml:13:49 input.unknown-key", "s.yaml:14:43 plan.no-longer-modelled"}));
  const std::string said = Format(asked.error());
  EXPECT_NE(said.find("this version of stepcast does not support a vocabulary that is divided "
                      "among the stages of a pipeline: 'vocab_1'"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("this version of stepcast does not support plans of InternEvo: 'internevo'\n "
                      " hint: write framework: megatron or reference"),
            std::string::npos)
      << said;
  // The names in the hints can be loaded.
  EXPECT_TRUE(LoadString(Shipped("optimizer: adamw\n"
                                 "data_parallel: {zero_stage: 0, framework: ddp}",
                                 "optimizer: adamw\n  norm: apex\n"
                                 "data_parallel: {zero_stage: 1, framework: megatron}"))
                  .has_value());
}

TEST(Load, FillsInTheDefaults) {
  const Result<Scenario> loaded = LoadString(std::string(kFlat));
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->name, "s");
  EXPECT_EQ(loaded->cluster->devices(), 8);
  EXPECT_EQ(loaded->algorithm, CollectiveAlgorithm::kRing);
  EXPECT_EQ(loaded->plan.parallelism.data, 8);
  EXPECT_EQ(loaded->plan.training.global_batch_size, 64);  // 2 x 4 x 8
  EXPECT_FALSE(loaded->gpu.has_value());
  ASSERT_NE(loaded->calibration, nullptr);
  EXPECT_FALSE(loaded->calibration->kernels.has_value());
  EXPECT_TRUE(loaded->warnings.empty());
  EXPECT_EQ(
      ToJson(loaded->resolved),
      "{\"stepcast\": 1, \"name\": \"s\", \"model\": {\"kind\": \"layers\", \"layers\": "
      "[{\"name\": \"b\", \"repeat\": 2, \"parameters\": [1000], \"forward\": \"1 ms\", "
      "\"backward\": \"2 ms\", \"activation\": \"0 B\"}], \"optimizer_step\": \"0 ms\"}, "
      "\"cluster\": {\"topology\": {\"kind\": \"flat\", \"devices\": 8, \"memory\": \"80 GiB\", "
      "\"link\": {\"latency\": \"5 us\", \"bandwidth\": \"25 GB/s\"}}, "
      "\"collective_algorithm\": \"ring\", \"network\": \"analytic\"}, \"software\": "
      "{\"torch\": \"2.14\", \"nccl\": \"2.30\", \"driver\": \"580.0\"}, "
      "\"training\": {\"sequence_length\": 128, "
      "\"micro_batch_size\": 2, "
      "\"gradient_accumulation\": 4, \"precision\": \"bf16\", \"parameter_dtype\": \"bf16\", "
      "\"master_weights\": \"fp32\", \"optimizer_state_dtype\": \"fp32\", "
      "\"gradient_dtype\": \"bf16\", \"reduce_dtype\": \"bf16\", \"optimizer\": \"adamw\", "
      "\"optimizer_implementation\": \"fused\", \"activation_offload\": false, "
      "\"host_waits\": \"never\", \"step_barrier\": false}, \"parallelism\": "
      "{\"data\": 8, \"tensor\": 1, \"pipeline\": 1, \"context\": 1, \"expert\": 1}, "
      "\"data_parallel\": {\"zero_stage\": 0, \"framework\": \"reference\", \"overlap\": true, "
      "\"bucket_size\": \"25 MiB\", \"first_bucket_size\": \"25 MiB\"}}");
}

TEST(Load, APartOfTheBlocksIsAFraction) {
  const auto with = [](const std::string& part) {
    InputCache cache;
    return LoadText(
        kShipped, "s.yaml",
        {"training.activation_checkpointing=full", "training.checkpointed_blocks=" + part}, cache);
  };
  for (const char* part : {"1/2", "3/4", "5/5"}) {
    const Result<Scenario> loaded = with(part);
    ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
    EXPECT_EQ(loaded->plan.training.checkpointed_blocks.part, part[0] - '0');
  }
  EXPECT_TRUE(with("all")->plan.training.checkpointed_blocks.all());
  for (const char* part :
       {"2/1", "0/3", "1/", "half", "1/2/3", "1/1001", "-1/2", "99999999999/3"}) {
    const Result<Scenario> loaded = with(part);
    ASSERT_FALSE(loaded.has_value()) << part;
    EXPECT_EQ(loaded.error().front().code, "input.not-a-part") << part;
  }
}

TEST(Load, ReadsShippedFiles) {
  const Result<Scenario> loaded = LoadString(std::string(kShipped));
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->model->parameter_count(), 124'439'808);
  EXPECT_EQ(loaded->cluster->devices(), 16);
  EXPECT_EQ(loaded->algorithm, CollectiveAlgorithm::kAuto);
  ASSERT_TRUE(loaded->gpu.has_value());
  EXPECT_EQ(loaded->gpu->name, "h100-sxm");
  EXPECT_TRUE(loaded->calibration->kernels.has_value());
  EXPECT_TRUE(loaded->warnings.empty());
}

// Loading `resolved` again gives the same tree.
TEST(Load, ResolvedIsAScenarioThatResolvesToItself) {
  const std::vector<std::string> scenarios = {
      std::string(kFlat),
      Flat("zero_stage: 0", "zero_stage: 1"),
      Flat("zero_stage: 0", "zero_stage: 3"),
      Flat("zero_stage: 0", "zero_stage: 2\n  overlap: false\n  shard_group_size: 4"),
      Flat("zero_stage: 0", "zero_stage: 3\n  bucket_size: 1 MiB\n  reshard_after_forward: 2"),
      Flat("zero_stage: 0", "zero_stage: 0\n  overlap: false\n  prefetch: 3"),
      Flat("gradient_accumulation: 4", "global_batch_size: 64"),
      Flat("framework: reference", "framework: ddp\n  bucket_size: 2.5 MiB"),
      Flat("framework: reference", "framework: deepspeed"),
      Flat("framework: reference",
           "framework: ddp\n  comm_hook: powerSGD\n  powersgd: {"
           "matrix_approximation_rank: 2, min_compression_rate: 1.5}"),
      Flat("gradient_accumulation: 4",
           "gradient_accumulation: 4\n  gradient_clipping: 0.5\n  data_loading: {time: 2.5 ms, "
           "workers: 2, bytes: 1 MB}\n  checkpoint_saving: {every: 50, bandwidth: 1.5 GB/s}"),
      Flat("zero_stage: 0\n  framework: reference",
           "zero_stage: 3\n  framework: deepspeed\n  deepspeed: {sub_group_size: 7}"),
      std::string(kShipped),
      Shipped("zero_stage: 0, framework: ddp", "zero_stage: 3, framework: fsdp2"),
      Shipped("zero_stage: 0, framework: ddp", "zero_stage: 2, framework: fsdp2"),
      Shipped("model: models/gpt2.yaml", "name: 'A \"name\": \\x # y'\nmodel: models/gpt2.yaml"),
  };
  for (const std::string& text : scenarios) {
    const Result<Scenario> first = LoadString(text);
    ASSERT_TRUE(first.has_value()) << text << Messages(first);
    const std::string resolved = ToJson(first->resolved);
    const Result<Scenario> second = LoadString(resolved);
    ASSERT_TRUE(second.has_value()) << resolved << Messages(second);
    EXPECT_EQ(ToJson(second->resolved), resolved);
    EXPECT_TRUE(second->warnings.empty()) << second->warnings.front();
  }
}

TEST(Load, ResolvedNamesTheBucketOfEverything) {
  // 2 layers x 1000 parameters in bf16: 4000 B.
  const Result<Scenario> loaded =
      LoadString(Flat("zero_stage: 0", "zero_stage: 1\n  overlap: false"));
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->plan.data_parallel.bucket_size, std::nullopt);
  EXPECT_NE(ToJson(loaded->resolved).find("\"bucket_size\": \"4 KB\""), std::string::npos)
      << ToJson(loaded->resolved);
}

struct Bad {
  std::string text;
  std::vector<std::string> expected;
};

TEST(Load, PointsAtEveryMistakeInTheFile) {
  const Bad cases[] = {
      {Flat("stepcast: 1", "stepcast: 2"), {"s.yaml:1:11 scenario.version"}},
      {Flat("stepcast: 1\n", ""), {"s.yaml:1:1 input.missing-key"}},
      {Flat("model:\n", "modell:\n"),
       {"s.yaml:1:1 input.missing-key", "s.yaml:2:1 input.unknown-key"}},
      {Flat("devices: 8", "devices: 0"), {"s.yaml:8:35 input.out-of-range"}},
      {Flat("memory: 80 GiB", "memory: 80"), {"s.yaml:8:46 input.bad-quantity"}},
      {Flat("bandwidth: 25 GB/s", "bandwidth: 25 GB"), {"s.yaml:9:47 input.bad-quantity"}},
      {Flat("  sequence_length: 128\n", "  nodes: 2\n  sequence_length: 128\n"),
       {"s.yaml:11:3 input.unknown-key"}},
      {Flat("training:", "  nodes: 2\ntraining:"), {"s.yaml:10:10 topology.nodes"}},
      {Flat("sequence_length: 128", "sequence_length: 0"), {"s.yaml:11:20 input.out-of-range"}},
      {Flat("sequence_length: 128", "sequence_length: 0128"),
       {"s.yaml:11:20 input.not-an-integer"}},
      {Flat("micro_batch_size: 2", "micro_batch_size: -2"), {"s.yaml:12:21 input.out-of-range"}},
      {Flat("  gradient_accumulation: 4\n", ""), {"s.yaml:11:3 input.missing-key"}},
      {Flat("gradient_accumulation: 4", "gradient_accumulation: 4\n  global_batch_size: 64"),
       {"s.yaml:14:22 plan.batch"}},
      {Flat("gradient_accumulation: 4", "global_batch_size: 60"), {"s.yaml:13:22 plan.batch"}},
      {Flat("precision: bf16", "precision: bf17"), {"s.yaml:14:14 input.unknown-word"}},
      {Flat("optimizer: adamw", "optimizer: adamw\n  reduce_dtype: fp8"),
       {"s.yaml:16:17 input.unknown-word"}},
      {Flat("data_parallel:", "parallelism: {data: 7}\ndata_parallel:"),
       {"s.yaml:16:21 plan.device-count"}},
      {Flat("data_parallel:", "parallelism: {expert: 2, context: 2}\ndata_parallel:"),
       {"s.yaml:16:23 plan.axis-not-of-framework", "s.yaml:16:35 plan.context"}},
      {Flat("data_parallel:", "software: {torch: 2.99}\ndata_parallel:"),
       {"s.yaml:16:19 plan.version-not-modelled"}},
      {Flat("zero_stage: 0", "zero_stage: 4"), {"s.yaml:17:15 input.out-of-range"}},
      {Flat("framework: reference", "framework: deepspeed\n  deepspeed: {reduce_bucket_sise: 1}"),
       {"s.yaml:19:15 input.unknown-key"}},
      {Flat("framework: reference", "framework: reference\n  deepspeed: {reduce_bucket_size: 1}"),
       {"s.yaml:19:14 plan.key-not-of-framework"}},
      {Flat("framework: reference", "framework: deepspeed\n  prefetch: 1"),
       {"s.yaml:19:13 plan.key-not-of-framework"}},
      {Flat("gradient_accumulation: 4",
            "gradient_accumulation: 4\n  data_loading: {time: 2 ms, prefetch: 2}"),
       {"s.yaml:14:40 plan.data-loading"}},
      {Flat("gradient_accumulation: 4",
            "gradient_accumulation: 4\n  data_loading: {time: 2 ms, workers: 0, prefetch: 4}"),
       {"s.yaml:14:52 plan.data-loading"}},
      {Flat("framework: reference", "framework: ddp\n  overlap: false"),
       {"s.yaml:19:12 plan.key-not-of-framework"}},
      {Flat("framework: reference", "framework: reference\n  bucket_size: 25"),
       {"s.yaml:19:16 input.bad-quantity"}},
      {Flat("framework: reference", "framework: reference\n  bucket_size: unit"),
       {"s.yaml:19:16 plan.bucket"}},
      {Flat("framework: reference", "framework: reference\n  reshard_after_forward: 0"),
       {"s.yaml:19:26 input.out-of-range"}},
      {Flat("framework: reference", "framework: reference\n  reshard_after_forward: maybe"),
       {"s.yaml:19:26 input.not-a-boolean"}},
      {Flat("framework: reference", "framework: reference\n  framework: ddp"),
       {"s.yaml:19:3 input.duplicate-key"}},
      {Flat("cluster:", "calibration: [1]\ncluster:"), {"s.yaml:7:14 input.wrong-kind"}},
      {Flat("cluster:", "calibration: absent.yaml\ncluster:"), {"s.yaml:7:14 file.not-found"}},
      {Shipped("models/gpt2.yaml", "models/gpt3.yaml"), {"s.yaml:2:8 file.not-found"}},
      {Shipped("topologies/dgx-h100.yaml", "dgx-h100.yaml"), {"s.yaml:4:13 file.not-found"}},
      {Shipped("nodes: 2", "nodes: two"), {"s.yaml:5:10 input.not-an-integer"}},
      {Shipped("sequence_length: 1024", "sequence_length: 1025"),
       {"s.yaml:7:20 plan.sequence-too-long"}},
      {Shipped("gradient_accumulation: 1", "global_batch_size: 100"), {"s.yaml:9:22 plan.batch"}},
      {Shipped("zero_stage: 0", "zero_stage: 1"), {"s.yaml:12:29 plan.stage-not-of-framework"}},
      {Shipped(
           "topologies/dgx-h100.yaml\n  nodes: 2",
           "{kind: flat, devices: 8, memory: 80 GiB, link: {latency: 1 us, bandwidth: 1 GB/s}}"),
       {"s.yaml:4:13 scenario.no-gpu"}},
      {Flat(",\n             link: {latency: 5 us, bandwidth: 25 GB/s}", ""),
       {"s.yaml:8:13 scenario.no-link"}},
  };
  for (const Bad& bad : cases) {
    const Result<Scenario> result = LoadString(bad.text);
    EXPECT_EQ(Mistakes(result), bad.expected) << bad.text << Messages(result);
  }
}

// Properties of a model that was not found are unknown, so no rule about its layers applies.
TEST(Load, AModelThatIsNotFoundIsTheOnlyMistake) {
  std::string text = Flat("data_parallel:", "parallelism: {context: 2}\ndata_parallel:");
  const std::size_t begin = text.find("model:"), end = text.find("cluster:");
  text.replace(begin, end - begin, "model: nowhere.yaml\n");
  EXPECT_EQ(Mistakes(LoadString(text)), std::vector<std::string>{"s.yaml:2:8 file.not-found"});
}

// Without a model, no rule about the device's data types is reported: a B200 supports all of them.
TEST(Load, WithoutAModelNoRuleOfADeviceSpeaks) {
  for (const char* precision : {"mxfp8", "nvfp4", "fp8", "tf32"}) {
    const std::string text =
        "stepcast: 1\nmodel: nowhere.yaml\ncluster: {topology: topologies/dgx-b200.yaml, nodes: "
        "1}\n"
        "training: {sequence_length: 8192, micro_batch_size: 1, gradient_accumulation: 4, "
        "optimizer: adamw, precision: " +
        std::string(precision) + "}\ndata_parallel: {zero_stage: 3, framework: megatron}\n";
    EXPECT_EQ(Mistakes(LoadString(text)),
              (std::vector<std::string>{"s.yaml:2:8 file.not-found",
                                        "s.yaml:5:29 plan.stage-not-of-framework"}));
  }
}

// Parts of a config.json that the model omits are among the scenario's warnings.
TEST(Load, TheModelsWarningsAreTheScenarios) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "squared";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000,
             "hidden_act": "relu", "made_up": 1})";
  const Result<Scenario> loaded =
      LoadString(Shipped("models/gpt2.yaml", (folder / "config.json").string()));
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->model->name, "squared");
  EXPECT_EQ(
      loaded->warnings,
      (std::vector<std::string>{
          "model: 'hidden_act' is 'relu': the forecast uses the activation function SiLU instead",
          "model: 'made_up' is 1: the forecast ignores this key, because it is unknown"}));
}

// Terms of the field and of other programs, and keys without their section.
TEST(Load, SuggestsTheKeyThatWasMeant) {
  const auto hint = [](const std::string& override) {
    const Result<Scenario> loaded = LoadString(std::string(kFlat), {override});
    EXPECT_EQ(loaded.error().size(), 1u) << Messages(loaded);
    EXPECT_EQ(loaded.error().at(0).code, "input.unknown-key");
    return loaded.error().at(0).hint;
  };
  EXPECT_EQ(hint("mbs=2"), "did you mean 'training.micro_batch_size'?");
  EXPECT_EQ(hint("training.mbs=2"), "did you mean 'training.micro_batch_size'?");
  EXPECT_EQ(hint("gbs=64"), "did you mean 'training.global_batch_size'?");
  EXPECT_EQ(hint("grad_acc=2"), "did you mean 'training.gradient_accumulation'?");
  EXPECT_EQ(hint("tp=2"), "did you mean 'parallelism.tensor'?");
  EXPECT_EQ(hint("training.pp=2"), "did you mean 'parallelism.pipeline'?");
  EXPECT_EQ(hint("dp=2"), "did you mean 'parallelism.data'?");
  EXPECT_EQ(hint("micro_batch_size=2"), "did you mean 'training.micro_batch_size'?");
  EXPECT_EQ(hint("training.zero_stage=2"), "did you mean 'data_parallel.zero_stage'?");
  EXPECT_EQ(hint("nodes=2"), "did you mean 'cluster.nodes'?");
  EXPECT_EQ(hint("torch=2"), "did you mean 'software.torch'?");
  EXPECT_EQ(hint("reduce_bucket_size=2"),
            "did you mean 'data_parallel.deepspeed.reduce_bucket_size'?");
  // A slip is still a slip, and a key of nothing has no likeness.
  EXPECT_EQ(hint("training.precison=bf16"), "did you mean 'training.precision'?");
  EXPECT_EQ(hint("training.fp16=true"), "did you mean 'training.precision=fp16'?");
  EXPECT_EQ(hint("data_parallel.bucket_cap_mb=25"),
            "did you mean 'data_parallel.bucket_size=25 MiB'?");
  EXPECT_EQ(hint("zero_optimization.stage=3"), "did you mean 'data_parallel.zero_stage'?");
  EXPECT_EQ(hint("training.batch_size=8"),
            "did you mean 'training.micro_batch_size' (sequences of a rank in each forward pass), "
            "or 'training.global_batch_size' (sequences of all ranks in a step)?");
  EXPECT_EQ(hint("colour=red").substr(0, 14), "known keys are");
}

TEST(Load, ReportsTheMistakesOfAllSectionsAtOnceFromTopToBottom) {
  std::string text = Flat("precision: bf16", "precision: bf17");
  text.replace(text.find("devices: 8"), 10, "devices: x");
  text += "  shard_group_size: 3\n  prefetch: 010\n";
  text += "colour: red\n";
  text += "parallelism: {data: 9, expert: 3}\n";
  EXPECT_EQ(Mistakes(LoadString(text)),
            (std::vector<std::string>{
                "s.yaml:8:35 input.not-an-integer", "s.yaml:14:14 input.unknown-word",
                "s.yaml:20:13 input.not-an-integer", "s.yaml:21:1 input.unknown-key",
                "s.yaml:22:32 plan.axis-not-of-framework"}));
}

// A multi-token-prediction module runs with the head, on the last stage, and reads the embedding of
// the first stage. torchtitan does not sum those gradients.
TEST(Load, FurtherTokensShareTheEmbeddingAcrossStages) {
  const auto codes = [](const char* further) {
    const Result<Scenario> loaded = LoadString(fmt::format(
        "stepcast: 1\n"
        "model: {{kind: transformer, family: llama, num_hidden_layers: 2, hidden_size: 128, "
        "num_attention_heads: 2, intermediate_size: 128, vocab_size: 256{}}}\n"
        "cluster: {{topology: {{kind: flat, devices: 2, gpu: h100-sxm, link: {{latency: 5 us, "
        "bandwidth: 25 GB/s}}}}}}\n"
        "training: {{sequence_length: 16, micro_batch_size: 1, gradient_accumulation: 2, "
        "precision: bf16, optimizer: adamw}}\n"
        "parallelism: {{pipeline: 2}}\n"
        "data_parallel: {{framework: fsdp2, zero_stage: 3}}\n",
        further));
    std::vector<std::string> found;
    if (loaded.has_value()) return found;
    for (const Diagnostic& mistake : loaded.error()) found.push_back(mistake.code);
    return found;
  };
  EXPECT_EQ(codes(""), std::vector<std::string>());
  EXPECT_EQ(codes(", num_nextn_predict_layers: 1"),
            std::vector<std::string>{"plan.tied-across-stages"});
}

// 2 x (3 + 3) minutes per micro-batch: 100 of them are 20 hours, 200 are 40.
TEST(Load, RefusesStepsThatTakeMoreThanADay) {
  const std::string slow = Flat("forward: 1 ms, backward: 2 ms", "forward: 3 min, backward: 3 min");
  EXPECT_EQ(Mistakes(LoadString(slow, {"training.gradient_accumulation=100"})),
            std::vector<std::string>());
  EXPECT_EQ(Mistakes(LoadString(slow, {"training.gradient_accumulation=200"})),
            std::vector<std::string>{"s.yaml:3:3 scenario.step-too-long"});
}

TEST(Load, NamesBothValuesOfADeviceCount) {
  const Result<Scenario> result =
      LoadString(Flat("data_parallel:", "parallelism: {data: 7}\ndata_parallel:"));
  EXPECT_EQ(Messages(result),
            "s.yaml:16:21: error[plan.device-count]: data 7 x tensor 1 x pipeline 1 x context 1 = "
            "7 ranks, but the cluster has 8 devices\n  hint: write data: 8, or omit data (--set "
            "parallelism.data=null)\n");
}

TEST(Load, SuggestsTheFileThatWasMeant) {
  EXPECT_EQ(Messages(LoadString(Shipped("models/gpt2.yaml", "models/gtp2.yaml"))),
            "s.yaml:2:8: error[file.not-found]: 'model' refers to a file that does not exist: "
            "'models/gtp2.yaml'\n"
            "  hint: did you mean 'models/gpt2.yaml'?\n");
}

TEST(Load, AModelIsNoScenario) {
  InputCache cache;
  const auto loaded = Load("llama3.1-8b", {}, cache);
  EXPECT_EQ(loaded.error().at(0).hint,
            "to write a scenario, run stepcast init llama3.1-8b --gpus '8 x h100-sxm' -o my.yaml");
}

// As on the command line.
TEST(Load, TakesTheHubsNamesOfModels) {
  for (const char* name : {"meta-llama/Llama-3.1-8B", "llama3-8b"}) {
    EXPECT_EQ(Messages(LoadString(Shipped("models/gpt2.yaml", name))), "") << name;
  }
}

TEST(Load, AMissingColonAndCommentsOfJsonHaveTheirPlace) {
  const auto fault = [](const std::string& text) { return LoadString(text).error().at(0); };
  const Diagnostic colon = fault("stepcast: 1\nmodel gpt2\ncluster: {}\n");
  EXPECT_EQ(colon.location.line, 2);
  EXPECT_EQ(colon.hint, "write 'model: gpt2'");
  const Diagnostic comment = fault("{\"stepcast\": 1, // the \"version\"\n \"model\": \"gpt2\"}");
  EXPECT_EQ(comment.location.column, 17);
  EXPECT_EQ(comment.message, "neither JSON nor YAML has comments like //");
}

// A key present under another name is reported once.
TEST(Load, AKeyUnderAnotherNameIsNotMissingToo) {
  const auto codes = [](std::string_view from, std::string_view to) {
    std::vector<std::string> found;
    const auto loaded = LoadString(Shipped(from, to));
    if (!loaded) {
      for (const Diagnostic& fault : loaded.error()) found.push_back(fault.code);
    }
    return found;
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(codes("  micro_batch_size: 4\n", "  mbs: 4\n"), Codes{"input.unknown-key"});
  EXPECT_EQ(codes("  gradient_accumulation: 1\n", "  gbs: 64\n"), Codes{"input.unknown-key"});
  EXPECT_EQ(codes("  micro_batch_size: 4\n", "  unknown: 4\n"),
            (Codes{"input.missing-key", "input.unknown-key"}));
}

TEST(Load, TakesSizesAsDeepSpeedWritesThem) {
  const auto with = [](const char* size) {
    return LoadString(Shipped("{zero_stage: 0, framework: ddp}",
                              std::string("{zero_stage: 2, framework: deepspeed, deepspeed: "
                                          "{reduce_bucket_size: ") +
                                  size + "}}"));
  };
  ASSERT_TRUE(with("5e8").has_value()) << Messages(with("5e8"));
  EXPECT_EQ(with("5e8")->plan.data_parallel.deepspeed.reduce_bucket_size, 500'000'000);
  ASSERT_FALSE(with("auto").has_value());
  EXPECT_EQ(with("auto").error().at(0).code, "input.auto");
  EXPECT_FALSE(with("5e80").has_value());
}

// A name without a folder is a shipped file of its kind.
TEST(Load, SuggestsShippedFilesForBareNames) {
  const auto hint = [](const std::string& override) {
    return LoadString(std::string(kShipped), {override}).error().at(0).hint;
  };
  EXPECT_EQ(
      hint("cluster.topology=h100"),
      "h100 is a GPU, not a cluster: write --gpus '8 x h100-sxm', or --cluster dgx-h100; in a "
      "scenario, write cluster: {gpu: h100-sxm, gpus: 8}");
  EXPECT_EQ(hint("model=gpt2.yaml"), "did you mean 'gpt2'?");
  EXPECT_EQ(hint("model=models/mixtral-7b.yaml"), "did you mean 'models/mixtral-8x7b.yaml'?");
  // Another size is not meant, however little differs.
  EXPECT_EQ(hint("model=qwen3-72b"), "did you mean 'qwen2.5-72b'?");
  EXPECT_EQ(hint("model=qwen3-999b").find("did you mean"), std::string::npos);
  // A family that is known not to be modelled is no slip in writing another.
  EXPECT_EQ(hint("model=models/rwkv-7b.yaml").find("mpt"), std::string::npos);
  EXPECT_EQ(hint("training.lora=16"),
            "write for example 'training.lora={rank: 16, targets: q_proj v_proj}'");
  EXPECT_EQ(hint("model=gtp2"), "did you mean 'gpt2'?");
  EXPECT_EQ(hint("calibration=h200.yaml"), "did you mean 'h200'?");
  EXPECT_EQ(hint("calibration=mine"),
            "stepcast looked in the working directory and in the data folder of its build");
}

// A name is enough, and a GPU's form defaults to SXM.
TEST(Load, TakesNamesInThePlaceOfPaths) {
  const auto loaded = LoadString(
      std::string(kShipped), {"model=gpt2", "cluster.topology=dgx-h100", "calibration=h100-sxm"});
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->model->name, "gpt2");
  const auto flat = LoadString(
      std::string(kShipped),
      {"cluster.topology={kind: flat, devices: 8, gpu: h100, link: {latency: 5 us, bandwidth: 300 "
       "GB/s}}",
       "cluster.nodes=null"});
  ASSERT_TRUE(flat.has_value()) << Messages(flat);
  EXPECT_EQ(flat->gpu->name, "h100-sxm");
  EXPECT_NE(std::find(flat->warnings.begin(), flat->warnings.end(),
                      "gpu: h100 is interpreted as h100-sxm; for another form factor, write the "
                      "full name of the GPU"),
            flat->warnings.end());
}

TEST(Load, AppliesOverridesInOrder) {
  const Result<Scenario> loaded = LoadString(
      std::string(kFlat), {"cluster.topology.devices=16", "training.gradient_accumulation=null",
                           "training.global_batch_size=64", "data_parallel.bucket_size=1 MiB",
                           "data_parallel.bucket_size=2 MiB", "name=changed"});
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->cluster->devices(), 16);
  EXPECT_EQ(loaded->plan.training.gradient_accumulation, 2);  // 64 / (2 x 16)
  EXPECT_EQ(loaded->plan.data_parallel.bucket_size, MiB(2));
  EXPECT_EQ(loaded->name, "changed");
}

TEST(Load, PositionsOfOverridesNameTheOption) {
  const Result<Scenario> result = LoadString(
      std::string(kFlat), {"training.precision=bf17", "training.colour=1", "parallelism.data=7",
                           "training.gradient_accumulation.x=1", "nonsense"});
  std::vector<std::string> files;
  for (const Diagnostic& diagnostic : result.error()) {
    files.push_back(diagnostic.location.file + " " + diagnostic.code);
    EXPECT_EQ(diagnostic.location.line, 0);
  }
  EXPECT_EQ(files, (std::vector<std::string>{
                       "--set training.gradient_accumulation.x=1 override.no-mapping",
                       "--set nonsense override.syntax",
                       "--set training.precision=bf17 input.unknown-word",
                       "--set training.colour=1 input.unknown-key",
                       "--set parallelism.data=7 plan.device-count"}));
}

// Null means the default of any known key, present or not.
TEST(Load, NullIsTheDefaultOfEveryKey) {
  const std::vector<std::string> nulls = {
      "data_parallel.bucket_size=null",
      "training.data_loading.prefetch=null",
      "data_parallel.deepspeed=null",
      "software.torch=null",
      "calibration=null",
      "cluster.topology.link.count=null",
      "data_parallel.prefetch=3",
      "data_parallel.prefetch=null",
  };
  const Result<Scenario> loaded = LoadString(std::string(kFlat), nulls);
  ASSERT_EQ(Mistakes(loaded), std::vector<std::string>{
                                  "--set cluster.topology.link.count=null:0:0 input.unknown-key"});
  std::vector<std::string> known = nulls;
  std::erase(known, "cluster.topology.link.count=null");
  const Result<Scenario> as_written = LoadString(std::string(kFlat));
  const Result<Scenario> same = LoadString(std::string(kFlat), known);
  ASSERT_TRUE(same.has_value()) << Messages(same);
  EXPECT_EQ(ToJson(same->resolved), ToJson(as_written->resolved));
  EXPECT_TRUE(same->warnings.empty());

  const Result<Scenario> misspelled = LoadString(
      std::string(kFlat), {"training.presicion=null", "dataparallel.prefetch=null",
                           "data_parallel.deepspeed.reduce_bucket_sise=null", "name.x=null"});
  EXPECT_EQ(Messages(misspelled),
            "--set training.presicion=null: error[input.unknown-key]: unknown key: "
            "'training.presicion'\n"
            "  hint: did you mean 'training.precision'?\n"
            "--set dataparallel.prefetch=null: error[input.unknown-key]: unknown key: "
            "'dataparallel'\n"
            "  hint: did you mean 'data_parallel'?\n"
            "--set data_parallel.deepspeed.reduce_bucket_sise=null: error[input.unknown-key]: "
            "unknown key: 'data_parallel.deepspeed.reduce_bucket_sise'\n"
            "  hint: did you mean 'data_parallel.deepspeed.reduce_bucket_size'?\n"
            "--set name.x=null: error[input.wrong-kind]: 'name' needs text, not a mapping\n"
            "  hint: write for example 'name=a-name'\n");
}

// Recomputation that is off, norms that are one kernel anyway, a fabric that no traffic crosses,
// copies of values that are already FP32.
TEST(Load, WarnsAboutSettingsOfWhatThePlanDoesNotHave) {
  const std::vector<std::string> set = {
      "training.checkpoint_early_stop=true", "training.norm=huggingface",
      "training.parameter_dtype=fp32", "training.master_weights=fp32",
      "communication.nccl_collnet=true"};
  const Result<Scenario> loaded = LoadString(
      "stepcast: 1\n"
      "model: models/gpt2.yaml\n"
      "cluster: {topology: topologies/dgx-a100.yaml}\n"
      "training: {sequence_length: 128, micro_batch_size: 1, gradient_accumulation: 1,\n"
      "           precision: bf16, optimizer: adamw}\n"
      "data_parallel: {zero_stage: 0, framework: ddp}\n",
      set);
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(
      loaded->warnings,
      (std::vector<std::string>{
          "training.master_weights has no effect with fp32 parameters, which need no master "
          "weights",
          "training.checkpoint_early_stop has an effect only with activation_checkpointing full or "
          "selective_op, not with none",
          "communication.nccl_collnet has no effect on one node, because the GPUs of one "
          "node do not use the switches of the fabric",
          "training.norm has no effect, because this model's layers run the same kernels "
          "with the default value"}));
}

TEST(Load, WarnsAboutKeysWithoutEffect) {
  const Result<Scenario> loaded =
      LoadString(std::string(kFlat), {"data_parallel.prefetch=2", "training.attention=math"});
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->warnings,
            (std::vector<std::string>{
                "data_parallel.prefetch has no effect with framework reference at zero_stage 0",
                "training.attention has no effect on a layer list, because the list states times "
                "and activations"}));
  const Result<Scenario> textbook =
      LoadString(Shipped("zero_stage: 0, framework: ddp", "zero_stage: 0, framework: reference"),
                 {"training.dispatch.module=7 us", "training.dispatch.autograd=0 us"});
  ASSERT_TRUE(textbook.has_value()) << Messages(textbook);
  EXPECT_EQ(textbook->warnings,
            (std::vector<std::string>{"training.dispatch has no effect with framework reference, "
                                      "which does not model the host"}));
}

TEST(Load, DispatchComesFromTheProfileUnlessTheScenarioSaysIt) {
  const std::string profile =
      "calibration: {name: mine, provenance: {machine: lab}, host: {dispatch: {ddp: {module: 40 "
      "us, autograd: 10 us}}}}\ntraining:";
  const auto dispatch = [&](const std::vector<std::string>& set) {
    const Result<Scenario> loaded = LoadString(Shipped("training:", profile), set);
    EXPECT_TRUE(loaded.has_value()) << Messages(loaded);
    return loaded->plan.training.dispatch;
  };
  EXPECT_EQ(dispatch({}), (Dispatch{.module = Microseconds(40), .autograd = Microseconds(10)}));
  EXPECT_EQ(dispatch({"training.dispatch.module=7 us", "training.dispatch.autograd=0 us"}),
            (Dispatch{.module = Microseconds(7), .autograd = Time()}));
  // One call launches a compiled block; another framework's code is not this one's.
  EXPECT_EQ(dispatch({"training.compile=true"}), Dispatch());
  EXPECT_EQ(dispatch({"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3"}), Dispatch());
}

TEST(Load, AProfileOfTablesTakesTheRestFromTheGpuType) {
  const Result<Scenario> loaded = LoadString(
      Shipped("training:",
              "calibration: {name: mine, provenance: {machine: lab}, collectives: [{collective: "
              "all_reduce, ranks: 16, nodes: 2, points: [[4 KiB, 1 ms], [1 MiB, 2 ms]]}]}\n"
              "training:"));
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->calibration->name, "mine");
  EXPECT_EQ(loaded->calibration->collectives.size(), 1u);
  EXPECT_TRUE(loaded->calibration->kernels.has_value());
  EXPECT_EQ(
      loaded->warnings,
      (std::vector<std::string>{
          "the calibration profile has no kernels, links, memory, so the forecast uses the values "
          "of calibration/h100-sxm.yaml",
          "the calibration profile 'mine' has no key 'gpu'; the forecast uses the profile for "
          "h100-sxm"}));
}

// A profile of another GPU is not a forecast, so it must be requested explicitly.
TEST(Load, RefusesAProfileOfAnotherGpuUnlessAskedForIt) {
  const std::string a100 = Shipped("dgx-h100", "dgx-a100");
  const std::string pin = "calibration=calibration/h100-sxm.yaml";
  EXPECT_EQ(Messages(LoadString(a100, {pin})),
            "--set calibration=calibration/h100-sxm.yaml: error[calibration.another-gpu]: the "
            "profile 'h100-sxm' is for h100-sxm, h100-96gb, but this GPU is a100-sxm-80gb\n"
            "  hint: remove the profile (--set calibration=null) to use the profile of "
            "a100-sxm-80gb; to keep the profile, with a warning, add --set "
            "calibration_of_another_gpu=true\n");
  const auto own = LoadString(a100, {pin, "calibration=null"});
  ASSERT_TRUE(own.has_value()) << Messages(own);
  EXPECT_EQ(own->calibration->name, "a100-sxm-80gb");
  EXPECT_EQ(own->warnings, std::vector<std::string>{});
  const auto asked = LoadString(a100, {pin, "calibration_of_another_gpu=true"});
  ASSERT_TRUE(asked.has_value()) << Messages(asked);
  EXPECT_EQ(asked->warnings, std::vector<std::string>{
                                 "the calibration profile 'h100-sxm' is for h100-sxm, h100-96gb, "
                                 "but calibration_of_another_gpu allows its use for a100-sxm-80gb; "
                                 "errors may be far larger than the stated range"});
  const auto resolved = LoadString(ToJson(asked->resolved));
  ASSERT_TRUE(resolved.has_value()) << Messages(resolved);
  EXPECT_EQ(resolved->warnings, asked->warnings);
}

TEST(Load, AProfileMayHoldForSeveralGpus) {
  const std::string pin = "calibration=calibration/h100-sxm.yaml";
  for (const char* topology : {"topologies/dgx-h100.yaml", "topologies/grand-teton-h100.yaml"}) {
    const auto loaded = LoadString(Shipped("topologies/dgx-h100.yaml", topology), {pin});
    ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
    EXPECT_EQ(loaded->warnings, std::vector<std::string>{});
  }
  const auto idle = LoadString(std::string(kShipped), {pin, "calibration_of_another_gpu=true"});
  ASSERT_TRUE(idle.has_value()) << Messages(idle);
  EXPECT_EQ(idle->warnings,
            std::vector<std::string>{
                "calibration_of_another_gpu has no effect, because all profiles are for this GPU"});
}

TEST(Load, ProfilesOfOtherNodesAreOfTheirGpusToo) {
  const auto with = [](const std::string& calibration) {
    return Shipped("nodes: 2\n",
                   "nodes: 2\n  other_nodes: [{topology: topologies/dgx-a100.yaml, nodes: 1" +
                       calibration + "}]\n");
  };
  EXPECT_EQ(Mistakes(LoadString(with(""))), std::vector<std::string>{});
  EXPECT_EQ(Mistakes(LoadString(with(", calibration: calibration/h100-sxm.yaml"))),
            std::vector<std::string>{"s.yaml:6:77 calibration.another-gpu"});
  EXPECT_EQ(Mistakes(LoadString(with(", calibration: calibration/h100-sxm.yaml"),
                                {"cluster.other_nodes.0.calibration=null"})),
            std::vector<std::string>{});
}

TEST(Load, AProfileNamesOneGpuAtLeast) {
  EXPECT_EQ(Mistakes(LoadString(Shipped("training:",
                                        "calibration: {name: mine, gpu: [], provenance: {machine: "
                                        "lab}}\ntraining:"))),
            std::vector<std::string>{"s.yaml:6:32 calibration.no-gpu"});
}

TEST(Load, AJobMayHaveAPartOfTheGpus) {
  struct Case {
    std::vector<std::string> set;
    int nodes, gpus, data, idle;
  };
  const Case cases[] = {
      {{"cluster.devices=4"}, 1, 4, 4, 12},
      {{"cluster.devices=12"}, 2, 6, 12, 4},
      {{"cluster.devices=16"}, 2, 8, 16, 0},
      {{"cluster.devices=plan", "parallelism.data=2"}, 1, 2, 2, 14},
      {{"cluster.devices=plan", "parallelism.data=8"}, 1, 8, 8, 8},
      {{"cluster.devices=plan"}, 2, 8, 16, 0},
  };
  for (const Case& each : cases) {
    const auto loaded = LoadString(std::string(kShipped), each.set);
    ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
    EXPECT_EQ(loaded->cluster->nodes(), each.nodes);
    EXPECT_EQ(loaded->cluster->gpus_per_node(), each.gpus);
    EXPECT_EQ(loaded->cluster->devices(), each.nodes * each.gpus);
    EXPECT_EQ(loaded->plan.parallelism.data, each.data);
    EXPECT_EQ(loaded->idle_devices(), each.idle);
    const auto again = LoadString(ToJson(loaded->resolved));
    ASSERT_TRUE(again.has_value()) << Messages(again);
    EXPECT_EQ(ToJson(again->resolved), ToJson(loaded->resolved));
    EXPECT_EQ(again->idle_devices(), each.idle);
  }
}

TEST(Load, ResolvedIsTheSameWithAllGpusAsWithoutTheKey) {
  const auto without = LoadString(std::string(kShipped), {"name=s"});
  const auto with = LoadString(std::string(kShipped), {"name=s", "cluster.devices=16"});
  ASSERT_TRUE(without.has_value() && with.has_value());
  EXPECT_EQ(ToJson(with->resolved), ToJson(without->resolved));
}

TEST(Load, PartsOfAClusterThatAJobCannotHave) {
  const auto mistakes = [](const std::string& text, const std::vector<std::string>& set) {
    return Mistakes(LoadString(text, set));
  };
  const auto one = [](const std::string& line) { return std::vector<std::string>{line}; };
  const std::string text(kShipped);
  EXPECT_EQ(mistakes(text, {"cluster.devices=17"}),
            one("--set cluster.devices=17:0:0 scenario.too-many-devices"));
  EXPECT_EQ(mistakes(text, {"cluster.devices=13"}),
            one("--set cluster.devices=13:0:0 scenario.unequal-nodes"));
  EXPECT_EQ(mistakes(text, {"cluster.devices=most"}),
            one("--set cluster.devices=most:0:0 input.not-an-integer"));
  EXPECT_EQ(mistakes(text, {"cluster.devices=plan", "parallelism.data=32"}),
            one("--set parallelism.data=32:0:0 plan.device-count"));
  EXPECT_EQ(mistakes(std::string(kFlat), {"cluster.devices=4"}),
            one("--set cluster.devices=4:0:0 scenario.devices-of-flat"));
  const std::string mixed = Shipped(
      "nodes: 2\n", "nodes: 2\n  other_nodes: [{topology: topologies/dgx-a100.yaml, nodes: 1}]\n");
  EXPECT_EQ(mistakes(mixed, {"cluster.devices=8"}),
            one("--set cluster.devices=8:0:0 scenario.devices-of-mixed-nodes"));
  EXPECT_EQ(mistakes(mixed, {"cluster.devices=24"}), std::vector<std::string>{});
}

TEST(Load, ADeviceCountSaysHowToLeaveGpusIdle) {
  EXPECT_EQ(
      Messages(LoadString(std::string(kShipped), {"parallelism.data=4"})),
      "--set parallelism.data=4: error[plan.device-count]: data 4 x tensor 1 x pipeline 1 x "
      "context 1 = 4 ranks, but the cluster has 16 devices\n  hint: write data: 16, or omit data "
      "(--set parallelism.data=null); or leave the unused GPUs idle: --set cluster.devices=plan\n");
}

TEST(Load, ASlowDeviceThatIsIdleHasNoEffect) {
  const std::string slow = Shipped(
      "nodes: 2\n",
      "nodes: 2\n  slow_devices: [{device: node0/gpu1, speed: 0.5}, {device: node1/gpu1, speed: "
      "0.5}]\n");
  const auto part = LoadString(slow, {"cluster.devices=8"});
  ASSERT_TRUE(part.has_value()) << Messages(part);
  ASSERT_EQ(part->slow_devices.size(), 1u);
  EXPECT_EQ(part->slow_devices[0].rank, 1);
  EXPECT_EQ(part->warnings,
            std::vector<std::string>{"cluster.slow_devices: the speed of node1/gpu1 has no effect, "
                                     "because the job does not use this device (cluster.devices)"});
  const auto twelve = LoadString(slow, {"cluster.devices=12"});
  ASSERT_TRUE(twelve.has_value()) << Messages(twelve);
  EXPECT_EQ(twelve->slow_devices[1].rank, 7);  // of six of each node
}

std::vector<std::string> WarningsWithTables(const std::string& tables,
                                            const std::vector<std::string>& overrides = {}) {
  const Result<Scenario> loaded = LoadString(
      std::string(kFlat) + "calibration: {name: mine, provenance: {machine: lab}, collectives: [" +
          tables + "]}\n",
      overrides);
  EXPECT_TRUE(loaded.has_value()) << Messages(loaded);
  return loaded.has_value() ? loaded->warnings : std::vector<std::string>{};
}

// FlashAttention-2 on Blackwell causes a warning if it is the default, but not if requested.
TEST(Load, WarnsWhereFlashAttentionIsTakenOnBlackwell) {
  const auto warnings = [](const std::string& gpu, const std::string& framework,
                           const std::string& more = "") {
    InputCache cache;
    const auto loaded = LoadText(
        fmt::format(
            "stepcast: 1\n"
            "model: {{kind: transformer, family: llama, num_hidden_layers: 1, hidden_size: "
            "128, num_attention_heads: 2, intermediate_size: 128, vocab_size: 256}}\n"
            "cluster: {{topology: {{kind: flat, devices: 2, gpu: {}, link: {{latency: 5 us, "
            "bandwidth: 25 GB/s}}}}}}\n"
            "training: {{sequence_length: 16, micro_batch_size: 1, gradient_accumulation: 1, "
            "precision: bf16, optimizer: adamw{}}}\n"
            "data_parallel: {{framework: {}, zero_stage: 0}}\n",
            gpu, more, framework),
        "s.yaml", {}, cache);
    EXPECT_TRUE(loaded.has_value()) << Messages(loaded);
    return loaded.has_value() ? loaded->warnings : std::vector<std::string>{};
  };
  const std::vector<std::string> said = warnings("b200", "deepspeed");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said.front(),
            "training.attention is not set, so flash (FlashAttention-2) is assumed. "
            "FlashAttention-2 has no kernels for b200, and reaches a quarter of cuDNN's rate on "
            "this GPU. If you use cuDNN's attention, write training.attention: cudnn");
  EXPECT_TRUE(warnings("b200", "deepspeed", ", attention: flash").empty());
  EXPECT_TRUE(warnings("b200", "ddp").empty());
  EXPECT_TRUE(warnings("h100-sxm", "deepspeed").empty());
}

TEST(Load, WarnsAboutTablesOfOtherGroups) {
  const auto table = [](int ranks, int nodes) {
    return fmt::format(
        "{{collective: all_reduce, ranks: {}, nodes: {}, points: [[4 KiB, 1 ms], [1 MiB, 2 ms]]}}",
        ranks, nodes);
  };
  EXPECT_EQ(WarningsWithTables(table(8, 8)), std::vector<std::string>{});
  EXPECT_EQ(WarningsWithTables(table(2, 1) + ", " + table(8, 8)), std::vector<std::string>{});
  EXPECT_EQ(WarningsWithTables(table(4, 1) + ", " + table(2, 1)),
            std::vector<std::string>{
                "the forecast does not use the profile's tables of collectives: the tables are "
                "for 4 ranks on 1 node, 2 ranks on 1 node, but this plan uses 8 ranks on "
                "8 nodes (each device of a flat cluster is a node)"});
  // Hybrid sharding: groups of four shards, and of two replicas.
  const std::vector<std::string> hybrid = {"data_parallel.zero_stage=3",
                                           "data_parallel.shard_group_size=4"};
  EXPECT_EQ(WarningsWithTables(table(4, 4), hybrid), std::vector<std::string>{});
  EXPECT_EQ(WarningsWithTables(table(2, 2), hybrid), std::vector<std::string>{});
  EXPECT_EQ(WarningsWithTables(table(8, 1), hybrid).size(), 1u);
  // No rank communicates.
  EXPECT_EQ(WarningsWithTables(table(2, 1), {"cluster.topology.devices=1"}),
            std::vector<std::string>{});
}

// As measured with threads of one machine.
TEST(Load, AFlatClusterTakesTablesOfOtherNodesAndSaysSo) {
  const auto table = [](const char* kind, int ranks, int nodes) {
    return fmt::format(
        "{{collective: {}, ranks: {}, nodes: {}, points: [[4 KiB, 1 ms], [1 MiB, 2 ms]]}}", kind,
        ranks, nodes);
  };
  const auto sentence = [](const char* measured) {
    return fmt::format(
        "each device of a flat cluster is a node, but the calibration profile has no table for "
        "nodes with one GPU. The forecast uses collectives that were measured over {}",
        measured);
  };
  EXPECT_EQ(WarningsWithTables(table("all_reduce", 8, 1) + ", " + table("all_gather", 8, 1)),
            std::vector<std::string>{sentence("8 ranks on 1 node")});
  // The most nodes.
  EXPECT_EQ(WarningsWithTables(table("all_reduce", 8, 1) + ", " + table("all_reduce", 8, 2)),
            std::vector<std::string>{sentence("8 ranks on 2 nodes")});
  // A table that is exact for one kind is not for another.
  EXPECT_EQ(WarningsWithTables(table("all_reduce", 8, 8) + ", " + table("all_gather", 8, 1)),
            std::vector<std::string>{sentence("8 ranks on 1 node")});
  EXPECT_EQ(WarningsWithTables(table("all_reduce", 8, 8) + ", " + table("all_reduce", 8, 1)),
            std::vector<std::string>{});
}

TEST(Load, MeasuredKernelsTakeWhatTheyLackFromTheGpuType) {
  InputCache cache;
  std::string text(kShipped);
  text.insert(text.find("training:"),
              "calibration: {name: mine, provenance: {machine: lab}, kernels: {start_latency: 2 "
              "us, launch: 5 us, collective_launch: 9 us, memory_curve: [[1 MiB, 3 us]]}}\n");
  const auto loaded = LoadText(text, "s.yaml", {}, cache);
  ASSERT_TRUE(loaded.has_value()) << Format(loaded.error());
  EXPECT_EQ(loaded->calibration->kernels->memory_curve.size(), 1u);
  EXPECT_EQ(loaded->calibration->kernels->launch, Microseconds(5));
  EXPECT_FALSE(loaded->calibration->kernels->gemm_tiling[1].empty());
  EXPECT_EQ(
      loaded->warnings,
      (std::vector<std::string>{
          "the calibration profile has no links, memory, kernels.gemm.bf16, kernels.power, "
          "kernels.attention.flash1, kernels.attention.flash2, kernels.attention.flash3, "
          "kernels.attention.cudnn, kernels.gemm_unaligned, kernels.gemm_unaligned_even, "
          "kernels.gemm_unaligned_result, kernels.variation, so the forecast uses the values of "
          "calibration/h100-sxm.yaml",
          "the calibration profile 'mine' has no key 'gpu'; the forecast uses the profile for "
          "h100-sxm"}));
  // How far forecasts of other sources are off, as well.
  std::vector<std::string> general;
  for (const calibration::Residual& residual : loaded->calibration->residuals) {
    general.push_back(residual.of);
  }
  EXPECT_EQ(general, (std::vector<std::string>{"source", "memory"}));
}

TEST(Load, AFlatClusterMayComputeOnTheHost) {
  InputCache cache;
  const auto loaded =
      LoadText(Flat("memory: 80 GiB,", "memory: 80 GiB, gpu: host-cpu,"), "s.yaml", {}, cache);
  ASSERT_TRUE(loaded.has_value()) << Format(loaded.error());
  EXPECT_EQ(loaded->gpu->name, "host-cpu");
  EXPECT_GT(loaded->calibration->kernels->launch, Time());
}

// NCCL may use reducing switches if there are any; asking for them without any is an error.
TEST(Load, ReductionInTheNetworkNeedsAFabricThatReduces) {
  const std::string wanted = std::string(kShipped) + "communication: {nccl_collnet: true}\n";
  const Result<Scenario> loaded = LoadString(wanted);
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_TRUE(loaded->nccl_collnet);
  EXPECT_NE(ToJson(loaded->resolved).find("nccl_collnet"), std::string::npos);
  EXPECT_EQ(Mistakes(LoadString(wanted, {"cluster.topology=topologies/aws-p5.yaml"})),
            std::vector<std::string>{"s.yaml:13:31 nccl.no-sharp"});
}

TEST(Load, FindsFilesBesideTheScenarioBeforeTheShippedOnes) {
  const std::string folder = testing::TempDir() + "load_test/";
  std::filesystem::create_directories(folder + "models");
  std::ofstream(folder + "models/gpt2.yaml")
      << "kind: layers\nlayers: [{name: b, repeat: 1, parameters: [10], forward: 1 ms, "
         "backward: 1 ms, activation: 0 B}]\noptimizer_step: 0 ms\n";
  std::ofstream(folder + "scenario.yaml") << kShipped;
  InputCache cache;
  const Result<Scenario> loaded = Load(folder + "scenario.yaml", {}, cache);
  ASSERT_TRUE(loaded.has_value()) << Messages(loaded);
  EXPECT_EQ(loaded->model->parameter_count(), 10);
  EXPECT_EQ(loaded->name, "load_test");  // scenario.yaml is called after its folder
}

TEST(Load, ReportsMistakesInsideTheFilesItNames) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "bad_model.yaml") << "kind: layers\nlayers: []\ncolour: red\n";
  const Result<Scenario> result =
      LoadString(Shipped("models/gpt2.yaml", folder + "bad_model.yaml"));
  ASSERT_FALSE(result.has_value());
  for (const Diagnostic& diagnostic : result.error()) {
    EXPECT_EQ(diagnostic.location.file, folder + "bad_model.yaml");
    EXPECT_GT(diagnostic.location.line, 0);
  }
  EXPECT_GE(result.error().size(), 2u) << Messages(result);
}

TEST(Load, AnswersForFilesThatCannotBeRead) {
  InputCache cache;
  EXPECT_EQ(Mistakes(Load("/no/such/file.yaml", {}, cache)),
            std::vector<std::string>{"/no/such/file.yaml:0:0 file.not-found"});
  EXPECT_EQ(Mistakes(Load(testing::TempDir(), {}, cache)),
            std::vector<std::string>{testing::TempDir() + ":0:0 file.not-a-file"});
  EXPECT_EQ(Mistakes(LoadString(Shipped("models/gpt2.yaml", "/"))),
            std::vector<std::string>{"/:0:0 file.not-a-file"});
  EXPECT_EQ(Mistakes(LoadString("")), std::vector<std::string>{"s.yaml:1:1 file.empty"});
}

// Threads of a sweep share one cache: the first makes a value, and all get it.
TEST(InputCache, IsSharedBetweenThreads) {
  InputCache cache;
  std::vector<std::string> resolved(8);
  std::vector<const model::Model*> models(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < resolved.size(); ++i) {
    threads.emplace_back([&, i] {
      const Result<Scenario> loaded = LoadText(kShipped, "s.yaml", {}, cache);
      if (!loaded.has_value()) return;
      resolved[i] = ToJson(loaded->resolved);
      models[i] = loaded->model.get();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < resolved.size(); ++i) {
    EXPECT_FALSE(resolved[i].empty());
    EXPECT_EQ(resolved[i], resolved[0]);
    EXPECT_EQ(models[i], models[0]);
  }
}

// Words separated by spaces, or a list of them.
TEST(Load, ListsStandWhereATextOfWordsDoes) {
  InputCache cache;
  const auto text = LoadText(kShipped, "s.yaml",
                             {"training.lora={rank: 4, targets: linear_qkv linear_proj}"}, cache);
  const auto list = LoadText(
      kShipped, "s.yaml", {"training.lora={rank: 4, targets: [linear_qkv, linear_proj]}"}, cache);
  ASSERT_TRUE(text.has_value()) << Format(text.error());
  ASSERT_TRUE(list.has_value()) << Format(list.error());
  EXPECT_TRUE(text->plan == list->plan);
  EXPECT_FALSE(
      LoadText(kShipped, "s.yaml", {"training.lora={rank: 4, targets: []}"}, cache).has_value());
}

// The title may no longer be true.
TEST(Load, ATitleIsFollowedByWhatTheCommandLineChanges) {
  InputCache cache;
  const auto title = [&](const std::vector<std::string>& overrides) {
    const auto loaded = LoadText(kShipped, "s.yaml", overrides, cache);
    return loaded ? loaded->name : Format(loaded.error());
  };
  const std::string own = title({});
  EXPECT_EQ(title({"training.micro_batch_size=2"}), own + ", with training.micro_batch_size=2");
  EXPECT_EQ(title({"training.micro_batch_size=4", "training.compile=null"}),
            own);  // as the file has it
  EXPECT_EQ(title({"training.micro_batch_size=2", "name=other"}), "other");
}

TEST(Load, ATitleDoesNotNameMachinesThatTheCommandLineReplaces) {
  InputCache cache;
  const auto title = [&](const std::string& name) {
    const std::string text = "name: " + name + "\n" + std::string(kShipped);
    const auto loaded = LoadText(text, "s.yaml", {"cluster.nodes=3"}, cache);
    return loaded ? loaded->name : Format(loaded.error());
  };
  EXPECT_EQ(title("8B, FSDP2 on 16 DGX H100"), "8B, FSDP2, with cluster.nodes=3");
  EXPECT_EQ(title("8B on 2,048 nodes of H100 with FSDP2"), "8B with FSDP2, with cluster.nodes=3");
  EXPECT_EQ(title("8B on two A100, bound by the host"),
            "8B, bound by the host, with cluster.nodes=3");
  EXPECT_EQ(title("8B"), "8B, with cluster.nodes=3");
}

}  // namespace
}  // namespace stepcast::scenario
