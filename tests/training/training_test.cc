// The data flow of lowered programs, run for all ranks, against plain data parallelism.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/data_flow_validator.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/training/interpreter.h"
#include "tests/training/plain_training.h"

namespace stepcast::training {
namespace {

constexpr std::uint64_t kSeed = 20'240'229;

scenario::Scenario Loaded(const std::string& text) {
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *scenario;
}

// Layers of a few odd-sized tensors, and one without any.
constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 1 ms, backward: 2 ms, activation: 0 B}
    - {name: plain, parameters: [], forward: 1 ms, backward: 2 ms, activation: 0 B}
    - {name: block, repeat: 3, parameters: [24, 7, 1], forward: 1 ms, backward: 2 ms,
       activation: 0 B}
  optimizer_step: 1 ms
)";

// A transformer whose head reads the embedding's tensor.
constexpr const char* kTied = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 2
  hidden_size: 6
  num_attention_heads: 2
  intermediate_size: 10
  vocab_size: 11
  max_position_embeddings: 8
)";

std::string Text(const std::string& model, int ranks, const std::string& training,
                 const std::string& data_parallel) {
  return fmt::format(R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, optimizer: adamw, {}}}
data_parallel: {{{}}}
)",
                     model, ranks, training, data_parallel);
}

// Every rank's state against the plain weights; what ranks keep together is all of the model.
void ExpectPlainWeights(const scenario::Scenario& scenario, Gradients gradients, int steps,
                        double bound, const std::string& text) {
  const int ranks = static_cast<int>(scenario.plan.parallelism.data);
  std::vector<program::Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(lowering::Lower(scenario, {.rank = rank, .data_flow = true}));
    const auto violations = program::Validate(programs.back());
    ASSERT_TRUE(violations.empty()) << text << violations.front().message;
    const auto sentences = program::ValidateDataFlow(programs.back());
    ASSERT_TRUE(sentences.empty()) << text << sentences.front();
  }
  Interpreter interpreter(std::move(programs), gradients, kSeed);
  for (int step = 0; step < steps; ++step) interpreter.Step();
  const Weights plain = TrainPlainly(scenario, gradients, steps, kSeed);

  const auto count = static_cast<std::int64_t>(plain.parameters.size());
  std::vector<bool> has_parameter(count, false), has_state(count, false);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const program::StatePart& part : interpreter.program(rank).data_flow.state) {
      auto& has = part.role == program::StateRole::kParameter ? has_parameter : has_state;
      std::fill_n(has.begin() + part.first_element, part.elements, true);
      if (part.role == program::StateRole::kMoment) continue;
      const bool master = part.role == program::StateRole::kMaster;
      const std::vector<float>& expected = master ? plain.masters : plain.parameters;
      const std::vector<float> values = interpreter.Read(rank, part);
      for (std::int64_t i = 0; i < part.elements; ++i) {
        const float right = expected[part.first_element + i];
        if (bound == 0 ? values[i] == right : std::abs(values[i] - right) <= bound) continue;
        FAIL() << text << "rank " << rank << ": " << (master ? "master copy" : "parameter")
               << " of element " << part.first_element + i << " is " << values[i] << ", not "
               << right;
      }
    }
  }
  EXPECT_EQ(std::count(has_parameter.begin(), has_parameter.end(), false), 0) << text;
  EXPECT_EQ(std::count(has_state.begin(), has_state.end(), false), 0) << text;
}

void ExpectSameBits(const std::string& text) {
  ExpectPlainWeights(Loaded(text), Gradients::kSmallIntegers, 3, 0, text);
}

// All techniques, each with all that it can do to values.
std::vector<std::string> DataParallelPlans(int ranks) {
  std::vector<std::string> plans;
  const auto add = [&](const std::string& base, std::vector<std::string> variants) {
    plans.push_back(base);
    for (const std::string& variant : variants) plans.push_back(base + ", " + variant);
  };
  add("zero_stage: 0, framework: reference",
      {"overlap: false", "bucket_size: 0 B", "bucket_size: 64 B"});
  for (const char* stage : {"1", "2"}) {
    add(fmt::format("zero_stage: {}, framework: reference", stage),
        {"overlap: false", "bucket_size: 0 B", "bucket_size: 64 B, first_bucket_size: 16 B",
         "accumulate_unsharded: true", "shard_group_size: 1"});
  }
  const std::vector<std::string> sharded = {
      "prefetch: 0", "prefetch: 3", "reshard_after_forward: false", "accumulate_unsharded: true"};
  add("zero_stage: 3, framework: reference", sharded);
  add("zero_stage: 3, framework: reference", {"overlap: false"});
  add("zero_stage: 0, framework: ddp",
      {"bucket_size: 0 B", "bucket_size: 64 B", "gradient_as_bucket_view: true",
       "find_unused_parameters: true, bucket_size: 64 B"});
  add("zero_stage: 3, framework: fsdp2", sharded);
  if (ranks >= 4) {
    for (const char* stage : {"1", "2", "3"}) {
      add(fmt::format("zero_stage: {}, framework: reference, shard_group_size: 2", stage),
          {"accumulate_unsharded: true"});
    }
    add("zero_stage: 3, framework: reference, reshard_after_forward: 2", {"prefetch: 2"});
    add("zero_stage: 3, framework: fsdp2, shard_group_size: 2", {"accumulate_unsharded: true"});
    add("zero_stage: 3, framework: fsdp2, reshard_after_forward: 2", {"prefetch: 2"});
  }
  return plans;
}

TEST(Training, EveryPlanOfALayerListTrainsAsPlainDataParallelism) {
  for (const int ranks : {1, 2, 4}) {
    for (const std::string& plan : DataParallelPlans(ranks)) {
      for (const char* micro : {"1", "2", "4"}) {
        ExpectSameBits(Text(kLayers, ranks,
                            fmt::format("precision: bf16, gradient_accumulation: {}", micro),
                            plan));
      }
    }
  }
}

TEST(Training, EveryPlanOfATransformerTrainsAsPlainDataParallelism) {
  for (const std::string& plan : DataParallelPlans(4)) {
    for (const char* precision : {"bf16", "fp32"}) {
      ExpectSameBits(
          Text(kTied, 4, fmt::format("precision: {}, gradient_accumulation: 2", precision), plan));
    }
  }
}

}  // namespace
}  // namespace stepcast::training
