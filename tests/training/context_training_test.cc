#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/training/threaded_training.h"

// Context-parallel plans train like plain data parallelism, bit by bit: attention's messages carry
// values (program::EffectKind::kMix).
namespace stepcast::training {
namespace {

struct Case {
  std::string parallelism;  // with `ranks` ranks
  int ranks = 2;
  std::string training = "precision: bf16, gradient_accumulation: 2";
  std::string data_parallel = "zero_stage: 1, framework: megatron";
};

scenario::Scenario Loaded(const Case& one) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model:
  kind: transformer
  family: llama
  num_hidden_layers: 2
  hidden_size: 16
  num_attention_heads: 8
  num_key_value_heads: 4
  intermediate_size: 12
  vocab_size: 12
cluster:
  topology: {{kind: flat, devices: {}, gpu: b200, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 32, micro_batch_size: 1, optimizer: adamw, {}}}
parallelism: {{{}}}
data_parallel: {{{}}}
)",
      one.ranks, one.training, one.parallelism, one.data_parallel);
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

void Check(const Case& one) {
  const scenario::Scenario scenario = Loaded(one);
  std::vector<program::Program> programs;
  for (int rank = 0; rank < one.ranks; ++rank) {
    programs.push_back(lowering::LowerRank(scenario, {.rank = rank, .data_flow = true}));
    for (const program::Violation& violation : program::Validate(programs.back())) {
      FAIL() << violation.message;
    }
  }
  EXPECT_EQ(WrongAfterTraining(scenario, programs), "")
      << one.parallelism << "; " << one.training << "; " << one.data_parallel;
}

const std::vector<std::string> kMethods = {"ring", "all_gather", "all_to_all"};

TEST(ContextParallelTraining, IsThatOfPlainDataParallelism) {
  for (const char* plan :
       {"zero_stage: 0, framework: reference", "zero_stage: 1, framework: reference",
        "zero_stage: 3, framework: reference", "zero_stage: 0, framework: megatron",
        "zero_stage: 1, framework: megatron"}) {
    for (const std::string& method : kMethods) {
      for (const int context : {2, 4}) {
        Check({.parallelism = fmt::format("context: {}, context_method: {}", context, method),
               .ranks = 4,
               .data_parallel = plan});
      }
    }
  }
}

TEST(ContextParallelTraining, OfFsdp2) {
  for (const char* method : {"ring", "all_gather"}) {
    for (const int context : {2, 4}) {
      Check({.parallelism = fmt::format("context: {}, context_method: {}", context, method),
             .ranks = 4,
             .data_parallel = "zero_stage: 3, framework: fsdp2"});
    }
  }
  Check({.parallelism = "context: 2",
         .ranks = 8,
         .data_parallel = "zero_stage: 3, framework: fsdp2, shard_group_size: 2"});
}

TEST(ContextParallelTraining, OfGroupsThatShareOutHeads) {
  for (const char* framework : {"reference", "megatron"}) {
    for (const int inner : {2, 4}) {
      Check({.parallelism =
                 fmt::format("context: 8, context_method: hierarchical, context_inner: {}", inner),
             .ranks = 8,
             .data_parallel = fmt::format("zero_stage: 1, framework: {}", framework)});
    }
  }
}

TEST(ContextParallelTraining, GoesWithTensorParallelismPipelinesAndRecomputation) {
  for (const std::string& method : kMethods) {
    for (const char* framework : {"reference", "megatron"}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const char* recomputation : {"none", "selective", "full"}) {
          Check(
              {.parallelism = fmt::format("context: 2, context_method: {}, tensor: 2, pipeline: 2, "
                                          "sequence_parallel: {}",
                                          method, sequence_parallel),
               .ranks = 8,
               .training = fmt::format(
                   "precision: bf16, gradient_accumulation: 2, activation_checkpointing: {}",
                   recomputation),
               .data_parallel = fmt::format("zero_stage: 0, framework: {}", framework)});
        }
      }
    }
  }
}

TEST(ContextParallelTraining, OfClippedGradients) {
  Check({.parallelism = "context: 2",
         .ranks = 4,
         .training = "precision: bf16, gradient_accumulation: 1, gradient_clipping: 1"});
}

}  // namespace
}  // namespace stepcast::training
