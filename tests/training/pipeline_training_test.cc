#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/parallel/named_schedules.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/training/threaded_training.h"

// Pipeline plans train like plain data parallelism, bit by bit: activations and their gradients
// carry values from stage to stage (program::EffectKind::kMix).
namespace stepcast::training {
namespace {

constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 20 us, backward: 40 us, activation: 64 B, output: 16 B}
    - {name: plain, parameters: [], forward: 20 us, backward: 40 us, activation: 64 B, output: 16 B}
    - {name: block, repeat: 2, parameters: [24, 7, 1], forward: 20 us, backward: 40 us,
       activation: 64 B, output: 16 B}
  optimizer_step: 20 us
)";

constexpr const char* kEight = R"(
  kind: layers
  layers: [{name: block, repeat: 8, parameters: [24, 7], forward: 20 us, backward: 40 us,
            backward_weight: 15 us, activation: 64 B, output: 16 B}]
  optimizer_step: 20 us
)";

// The head reads the embedding's tensor, so the first and the last stage sum its gradients.
constexpr const char* kTied = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
  max_position_embeddings: 8
)";

constexpr const char* kEncoder = R"(
  kind: transformer
  family: bert
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
  max_position_embeddings: 8
)";

constexpr const char* kMegatronEncoder = R"(
  kind: transformer
  family: megatron-bert
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 12
  max_position_embeddings: 8
)";

struct Case {
  const char* model = kLayers;
  int stages = 2, data = 1;
  std::string training;
  std::string data_parallel;
  int tensor = 1;
  bool sequence_parallel = false;
  int virtual_stages = 1;
  std::string schedule{};  // if not the framework's own
  int tokens = 8;          // per sequence
};

scenario::Scenario Loaded(const Case& one) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: b200, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: {}, micro_batch_size: 1, optimizer: adamw, {}}}
parallelism: {{pipeline: {}, tensor: {}, sequence_parallel: {}, {}}}
data_parallel: {{{}}}
)",
      one.model, one.stages * one.data * one.tensor, one.tokens, one.training, one.stages,
      one.tensor, one.sequence_parallel,
      one.schedule.empty() ? fmt::format("virtual_stages: {}", one.virtual_stages)
                           : "schedule: " + one.schedule,
      one.data_parallel);
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

void Check(const Case& one) {
  const scenario::Scenario scenario = Loaded(one);
  std::vector<program::Program> programs;
  for (int rank = 0; rank < one.stages * one.data * one.tensor; ++rank) {
    programs.push_back(lowering::LowerRank(scenario, {.rank = rank, .data_flow = true}));
    for (const program::Violation& violation : program::Validate(programs.back())) {
      FAIL() << violation.message;
    }
  }
  EXPECT_EQ(WrongAfterTraining(scenario, programs), "") << fmt::format(
      "{} stages {}, {} tensor-parallel ranks{}, {} data-parallel ranks, {}, {}", one.stages,
      one.schedule, one.tensor, one.sequence_parallel ? " with sequence parallelism" : "", one.data,
      one.training, one.data_parallel);
}

// Communication of tensor-parallel ranks, as a layer list and in a transformer.
constexpr const char* kCommunicating = R"(
  kind: layers
  layers:
    - {name: block, repeat: 4, parameters: [24, 7], forward: 20 us, backward: 40 us,
       activation: 64 B, output: 16 B, communication: {
         forward: [[all_reduce, tensor, 64 B], [all_gather, tensor, 64 B]],
         backward: [[reduce_scatter, tensor, 64 B]]}}
  optimizer_step: 20 us
)";
constexpr const char* kLlama = R"(
  kind: transformer
  family: llama
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
)";

constexpr const char* kEightBlocks = R"(
  kind: transformer
  family: llama
  num_hidden_layers: 8
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
)";

// One key-value head, shared by two ranks.
constexpr const char* kSharedHead = R"(
  kind: transformer
  family: llama
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  num_key_value_heads: 1
  intermediate_size: 12
  vocab_size: 11
)";

TEST(TensorParallelTraining, WithAKeyValueHeadForTwoRanksIsTheSame) {
  for (const int stages : {1, 2}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const char* recomputation : {"none", "full"}) {
        Check({.model = kSharedHead,
               .stages = stages,
               .data = 2,
               .training = fmt::format(
                   "precision: bf16, gradient_accumulation: 2, activation_checkpointing: {}",
                   recomputation),
               .data_parallel = "zero_stage: 1, framework: megatron",
               .tensor = 2,
               .sequence_parallel = sequence_parallel});
      }
    }
  }
}

TEST(TensorParallelTraining, IsThatOfPlainDataParallelism) {
  const std::vector<std::string> plans = {
      "zero_stage: 0, framework: reference", "zero_stage: 1, framework: reference",
      "zero_stage: 3, framework: reference", "zero_stage: 3, framework: fsdp2",
      "zero_stage: 3, framework: fsdp1",     "zero_stage: 2, framework: fsdp1",
      "zero_stage: 0, framework: megatron",  "zero_stage: 1, framework: megatron",
      "zero_stage: 0, framework: nanotron",  "zero_stage: 1, framework: nanotron"};
  for (const char* model : {kCommunicating, kTied, kLlama}) {
    for (const std::string& plan : plans) {
      for (const int data : {1, 2}) {
        for (const bool sequence_parallel : {false, true}) {
          Check({.model = model,
                 .stages = 1,
                 .data = data,
                 .training = "precision: bf16, gradient_accumulation: 2",
                 .data_parallel = plan,
                 .tensor = 2,
                 .sequence_parallel = sequence_parallel});
        }
      }
    }
  }
}

TEST(TensorParallelTraining, GoesWithPipelinesAndRecomputation) {
  for (const char* model : {kCommunicating, kLlama}) {
    for (const char* framework : {"reference", "megatron", "nanotron"}) {
      for (const int stages : {2, 4}) {
        for (const bool sequence_parallel : {false, true}) {
          for (const char* recomputation : {"none", "full", "full, blocks_per_checkpoint: 2"}) {
            if (model == kCommunicating && recomputation[0] == 'f') continue;
            const bool runs = std::strstr(recomputation, "blocks_per_checkpoint") != nullptr;
            if (runs && std::strcmp(framework, "nanotron") == 0) continue;  // has no such setting
            Check({.model = model,
                   .stages = stages,
                   .data = 1,
                   .training = fmt::format("precision: bf16, gradient_accumulation: 4, "
                                           "activation_checkpointing: {}",
                                           recomputation),
                   .data_parallel = fmt::format("zero_stage: 0, framework: {}", framework),
                   .tensor = 2,
                   .sequence_parallel = sequence_parallel});
          }
        }
      }
    }
  }
}

constexpr const char* kFourHeads = R"(
  kind: transformer
  family: llama
  num_hidden_layers: 2
  hidden_size: 16
  num_attention_heads: 4
  intermediate_size: 12
  vocab_size: 12
)";

// Products in pieces, and the operations that move them.
TEST(TensorParallelTraining, PieceByPiece) {
  const std::pair<const char*, const char*> overlaps[] = {
      {"zero_stage: 1, framework: megatron", "tensor_overlap: user_buffers"},
      {"zero_stage: 3, framework: fsdp2", "tensor_overlap: async, compile: true"}};
  for (const auto& [framework, overlap] : overlaps) {
    for (const int tensor : {2, 4}) {
      for (const int data : {1, 2}) {
        for (const char* recomputation : {"none", "full"}) {
          Check({.model = kFourHeads,
                 .stages = 1,
                 .data = data,
                 .training = fmt::format("precision: bf16, gradient_accumulation: 2, "
                                         "activation_checkpointing: {}, {}",
                                         recomputation, overlap),
                 .data_parallel = framework,
                 .tensor = tensor,
                 .sequence_parallel = true,
                 .tokens = 16});
        }
      }
    }
  }
  Check({.model = kFourHeads,
         .stages = 2,
         .training = "precision: bf16, gradient_accumulation: 4, tensor_overlap: user_buffers",
         .data_parallel = "zero_stage: 0, framework: megatron",
         .tensor = 2,
         .sequence_parallel = true,
         .tokens = 16});
}

// Parts are cast before they are gathered: by rows for the products of forward and input gradients,
// by columns for those of weight gradients.
TEST(TensorParallelTraining, OfQuantizedOperands) {
  const std::pair<const char*, const char*> casts[] = {
      {"zero_stage: 1, framework: megatron", "precision: fp8"},
      {"zero_stage: 1, framework: megatron", "precision: fp8, fp8_scaling: current"},
      {"zero_stage: 1, framework: megatron", "precision: mxfp8"},
      {"zero_stage: 1, framework: megatron", "precision: nvfp4"},
      {"zero_stage: 1, framework: megatron", "precision: mxfp8, tensor_overlap: user_buffers"},
      {"zero_stage: 3, framework: fsdp2", "precision: fp8"},
      {"zero_stage: 3, framework: fsdp2", "precision: fp8, fp8_scaling: torchao_rowwise"},
      {"zero_stage: 3, framework: fsdp2", "precision: fp8, compile: true, tensor_overlap: async"}};
  for (const auto& [framework, cast] : casts) {
    for (const char* recomputation : {"none", "full"}) {
      Check({.model = kFourHeads,
             .stages = 1,
             .data = 2,
             .training = fmt::format("{}, gradient_accumulation: 2, activation_checkpointing: {}",
                                     cast, recomputation),
             .data_parallel = framework,
             .tensor = 2,
             .sequence_parallel = true,
             .tokens = 16});
    }
  }
}

// The head's bias is divided like its vocabulary; pooler and transform are whole on each rank.
TEST(TensorParallelTraining, OfEncoders) {
  for (const char* model : {kEncoder, kMegatronEncoder}) {
    for (const char* framework : {"reference", "megatron"}) {
      for (const int stages : {1, 2, 4}) {
        for (const int tensor : {1, 2}) {
          for (const char* recomputation : {"none", "full"}) {
            Check({.model = model,
                   .stages = stages,
                   .data = stages == 4 ? 1 : 2,
                   .training = fmt::format("precision: bf16, gradient_accumulation: 4, "
                                           "masked_tokens: 2, activation_checkpointing: {}",
                                           recomputation),
                   .data_parallel = fmt::format("zero_stage: 0, framework: {}", framework),
                   .tensor = tensor});
          }
        }
      }
    }
  }
}

TEST(PipelineTraining, IsThatOfPlainDataParallelism) {
  std::vector<std::string> plans = {
      "zero_stage: 0, framework: reference",
      "zero_stage: 0, framework: reference, bucket_size: 64 B",
      "zero_stage: 0, framework: reference, overlap: false",
      "zero_stage: 1, framework: reference",
      "zero_stage: 0, framework: megatron",
      "zero_stage: 1, framework: megatron",
      "zero_stage: 1, framework: megatron, overlap: false",
  };
  for (const int stages : {2, 4}) {
    for (const int data : {1, 2}) {
      for (const std::string& plan : plans) {
        for (const char* model : {kLayers, kTied}) {
          Check({model, stages, data, "precision: bf16, gradient_accumulation: 4", plan});
        }
        // A power of two for exact means; clipped by a norm over all stages.
        Check({kTied, stages, data,
               "precision: fp32, gradient_accumulation: 2, gradient_clipping: 1", plan});
      }
      for (const char* stage : {"2", "3"}) {
        Check({kLayers, stages, data, "precision: bf16, gradient_accumulation: 4",
               fmt::format("zero_stage: {}, framework: reference", stage)});
      }
    }
  }
}

// nanotron has 16-bit parameters and one chunk per stage, with all forwards first or in turns.
TEST(PipelineTraining, OfNanotronIsThatOfPlainDataParallelism) {
  for (const char* plan :
       {"zero_stage: 0, framework: nanotron", "zero_stage: 1, framework: nanotron"}) {
    for (const char* model : {kLayers, kTied, kLlama}) {
      for (const int stages : {2, 4}) {
        for (const char* clipping : {"", ", gradient_clipping: 1"}) {
          Check({.model = model,
                 .stages = stages,
                 .data = 2,
                 .training = fmt::format("precision: bf16, gradient_accumulation: 4{}", clipping),
                 .data_parallel = plan,
                 .schedule = stages == 2 ? "gpipe" : "1f1b"});
        }
      }
    }
  }
}

TEST(PipelineTraining, WithVirtualStages) {
  for (const char* model : {kCommunicating, kLlama, kTied}) {
    for (const char* plan :
         {"zero_stage: 0, framework: reference", "zero_stage: 1, framework: reference",
          // The last chunk's bucket has all its gradients before the last pass.
          "zero_stage: 0, framework: reference, bucket_size: 64 B",
          "zero_stage: 1, framework: reference, bucket_size: 64 B",
          "zero_stage: 0, framework: reference, bucket_size: 64 B, overlap: false",
          "zero_stage: 0, framework: megatron", "zero_stage: 1, framework: megatron",
          "zero_stage: 1, framework: megatron, overlap: false",
          "zero_stage: 1, framework: megatron, align_grad_reduce: false, align_param_gather: false",
          "zero_stage: 1, framework: megatron, overlap_param_gather_with_optimizer_step: true"}) {
      for (const int tensor : {1, 2}) {
        Check({.model = model,
               .stages = 2,
               .data = 2,
               .training = "precision: bf16, gradient_accumulation: 4",
               .data_parallel = plan,
               .tensor = tensor,
               .sequence_parallel = tensor == 2,
               .virtual_stages = 2});
      }
    }
  }
}

// If each micro-batch is reduced, each bucket has gradients of one chunk.
TEST(PipelineTraining, WithVirtualStagesThatReduceEachMicroBatch) {
  for (const char* model : {kCommunicating, kLlama}) {
    for (const char* plan :
         {"", ", bucket_size: 64 B", ", overlap: false", ", accumulate_unsharded: true"}) {
      for (const int tensor : {1, 2}) {
        Check({.model = model,
               .stages = 2,
               .data = 2,
               .training = "precision: bf16, gradient_accumulation: 4",
               .data_parallel = fmt::format("framework: reference, zero_stage: 2{}", plan),
               .tensor = tensor,
               .sequence_parallel = tensor == 2,
               .virtual_stages = 2});
      }
    }
  }
}

// Messages of Megatron-LM before 2023: in batches that all ranks wait for, also with virtual
// stages, and in parts.
TEST(PipelineTraining, WithBatchesOfMessages) {
  for (const char* plan :
       {"overlap_p2p_comm: false", "overlap_p2p_comm: false, batch_p2p_sync: false",
        "overlap_p2p_comm: false, scatter_gather_tensors_in_pipeline: true"}) {
    for (const auto& [micro_batches, tensor] : {std::pair(4, 1), std::pair(8, 2)}) {
      Check({.model = tensor == 1 ? kEight : kEightBlocks,
             .stages = 4,
             .data = 1,
             .training = fmt::format("precision: bf16, gradient_accumulation: {}", micro_batches),
             .data_parallel = fmt::format("zero_stage: 0, framework: megatron, {}", plan),
             .tensor = tensor,
             .virtual_stages = 2});
    }
  }
  for (const char* model : {kCommunicating, kLlama, kTied}) {
    Check({.model = model,
           .stages = 2,
           .data = 2,
           .training = "precision: bf16, gradient_accumulation: 4",
           .data_parallel =
               "zero_stage: 1, framework: megatron, scatter_gather_tensors_in_pipeline: true",
           .tensor = 2});
  }
}

TEST(PipelineTraining, AsMegatronDidIn2021) {
  for (const char* model : {kLlama, kTied}) {
    Check({.model = model,
           .stages = 2,
           .data = 2,
           .training = "precision: bf16, gradient_accumulation: 4, "
                       "async_tensor_model_parallel_allreduce: false",
           .data_parallel = "zero_stage: 0, framework: megatron, overlap: false, "
                            "gradient_accumulation_fusion: false, "
                            "scatter_gather_tensors_in_pipeline: true",
           .tensor = 2});
  }
}

TEST(PipelineTraining, OfDeepSpeed) {
  for (const char* stage : {"0", "1"}) {
    for (const char* model : {kCommunicating, kLlama, kTied}) {
      for (const int tensor : {1, 2}) {
        for (const char* training : {"precision: bf16", "precision: bf16, gradient_dtype: fp32",
                                     "precision: fp32, gradient_clipping: 1"}) {
          // Stage 0 accumulates in the parameters' type.
          if (stage[0] == '0' && std::string_view(training).ends_with("dtype: fp32")) continue;
          Check({.model = model,
                 .stages = 2,
                 .data = 2,
                 .training = fmt::format("{}, gradient_accumulation: 4", training),
                 .data_parallel = fmt::format(
                     "zero_stage: {}, framework: deepspeed, deepspeed: {{reduce_bucket_size: 100}}",
                     stage),
                 .tensor = tensor});
        }
      }
    }
    // Also with fewer micro-batches than stages, whose messages cross differently.
    for (const int micro_batches : {8, 2, 1}) {
      Check({.model = kEight,
             .stages = 4,
             .data = 1,
             .training = fmt::format("precision: bf16, gradient_accumulation: {}", micro_batches),
             .data_parallel = fmt::format(
                 "zero_stage: {}, framework: deepspeed, deepspeed: {{reduce_bucket_size: 100}}",
                 stage)});
    }
  }
}

// Sharded parameters stay gathered, and gradients are reduced after the last micro-batch.
TEST(PipelineTraining, OfFsdp2) {
  const Case cases[] = {
      {.model = kLayers, .training = "precision: bf16", .data_parallel = "zero_stage: 3"},
      {.model = kLlama,
       .training = "precision: bf16, parameter_dtype: fp32, reduce_dtype: fp32",
       .data_parallel = "zero_stage: 2",
       .schedule = "gpipe"},
      {.model = kCommunicating,
       .training = "precision: fp32, gradient_clipping: 1",
       .data_parallel = "zero_stage: 3, units: layer, prefetch: 2"},
      {.model = kLlama,
       .training = "precision: bf16, parameter_dtype: fp32, reduce_dtype: fp32",
       .data_parallel = "zero_stage: 3, reshard_after_forward: true"},
      {.model = kLlama,
       .training = "precision: bf16, gradient_clipping: 1",
       .data_parallel = "zero_stage: 3, shard_group_size: 1",
       .schedule = "gpipe"}};
  for (const int stages : {2, 4}) {
    for (const int data : {1, 2}) {
      for (Case one : cases) {
        one.stages = stages;
        one.data = data;
        one.training += ", gradient_accumulation: 4";
        one.data_parallel += ", framework: fsdp2";
        Check(one);
      }
    }
  }
}

TEST(PipelineTraining, OfFsdp2ByEverySchedule) {
  for (const char* schedule :
       {"interleaved_1f1b, virtual_stages: 2", "zb_v", "dualpipe_v",
        "breadth_first, virtual_stages: 2", "breadth_first, virtual_stages: 4"}) {
    const std::pair<const char*, const char*> plans[] = {
        {"zero_stage: 3", "precision: bf16"},
        {"zero_stage: 3, units: layer, reshard_after_forward: true",
         "precision: bf16, parameter_dtype: fp32, reduce_dtype: fp32"}};
    for (const auto& [plan, training] : plans) {
      for (const int tensor : {1, 2}) {
        Check({.model = kEightBlocks,
               .stages = 2,
               .data = 2,
               .training = fmt::format("{}, gradient_accumulation: 4", training),
               .data_parallel =
                   fmt::format("framework: fsdp2, {}, shard_group_size: {}", plan, tensor),
               .tensor = tensor,
               .sequence_parallel = tensor == 2,
               .schedule = schedule});
      }
    }
  }
}

// Embedding and head on stages of their own: the embedding's output is the result of a collective.
TEST(PipelineTraining, WithStagesWithoutBlocks) {
  for (const char* schedule : {"1f1b, stage_layers: [0, 4]", "1f1b, stage_layers: [4, 0]",
                               "interleaved_1f1b, virtual_stages: 2, stage_layers: [0, 2, 2, 0]",
                               "zb_v, stage_layers: [0, 3, 1, 0]"}) {
    for (const char* model : {kLlama, kTied}) {
      for (const int tensor : {1, 2}) {
        for (const bool sequence_parallel : {false, true}) {
          Check({.model = model,
                 .stages = 2,
                 .data = 2,
                 .training = "precision: bf16, gradient_accumulation: 4",
                 .data_parallel = schedule[0] == 'z' ? "zero_stage: 1, framework: reference"
                                                     : "zero_stage: 1, framework: megatron",
                 .tensor = tensor,
                 .sequence_parallel = sequence_parallel,
                 .schedule = schedule});
        }
      }
    }
  }
}

TEST(PipelineTraining, WithVirtualStagesThatRecompute) {
  for (const char* blocks : {"checkpointed_blocks: first 1", "blocks_per_checkpoint: 2"}) {
    Check({.model = kEightBlocks,
           .stages = 2,
           .data = 1,
           .training = fmt::format("precision: bf16, gradient_accumulation: 2, "
                                   "activation_checkpointing: full, {}",
                                   blocks),
           .data_parallel = "zero_stage: 0, framework: megatron",
           .tensor = 2,
           .sequence_parallel = true,
           .virtual_stages = 2});
  }
}

TEST(PipelineTraining, ByEverySchedule) {
  for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
    if (named.two_copies) continue;
    for (const char* model : {kCommunicating, kLlama, kTied}) {
      for (const char* plan :
           {"zero_stage: 0, framework: reference", "zero_stage: 1, framework: reference"}) {
        for (const int tensor : {1, 2}) {
          Check({.model = model,
                 .stages = 2,
                 .data = 2,
                 .training = "precision: bf16, gradient_accumulation: 4",
                 .data_parallel = plan,
                 .tensor = tensor,
                 .sequence_parallel = tensor == 2,
                 .schedule = std::string(named.name)});
        }
      }
    }
  }
}

TEST(PipelineTraining, WithFourStagesOnFourDevices) {
  for (const char* schedule :
       {"gpipe", "breadth_first, virtual_stages: 2", "zb_h1", "zb_h2", "zb_v", "dualpipe_v"}) {
    Check({.model = kEight,
           .stages = 4,
           .data = 1,
           .training = "precision: bf16, gradient_accumulation: 8",
           .data_parallel = "zero_stage: 0, framework: reference",
           .schedule = schedule});
  }
}

TEST(PipelineTraining, WithWhatTheHostDoesOnTheWay) {
  Check({kTied, 2, 2,
         "precision: bf16, gradient_accumulation: 4, data_loading: {time: 10 us, workers: 1}, "
         "checkpoint_saving: {every: 10, bandwidth: 1 GB/s}",
         "zero_stage: 1, framework: megatron"});
}

}  // namespace
}  // namespace stepcast::training
