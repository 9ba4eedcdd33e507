// Runs reported by others: measured steps are within the stated range. A run that was out of memory
// does not fit, or fits with a probability of at most one half.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

struct Row {
  std::vector<std::string> set;
  double seconds;  // measured; 0: out of memory
  double gib = 0;  // measured memory reserved by the allocator; 0: not reported
};

void Expect(const std::string& text, const std::vector<Row>& rows) {
  static auto& cache = *new scenario::InputCache();
  for (const Row& row : rows) {
    const auto scenario = scenario::LoadText(text, "test", row.set, cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    auto run = forecast::Simulate(*scenario);
    ASSERT_TRUE(run.has_value());
    const forecast::Forecast& forecast = run->forecast;
    if (row.seconds == 0) {
      EXPECT_LE(forecast.memory.fit_probability, 0.5) << testing::PrintToString(row.set);
      continue;
    }
    EXPECT_LE(forecast.step_time_range->low.seconds(), row.seconds)
        << testing::PrintToString(row.set);
    EXPECT_GE(forecast.step_time_range->high.seconds(), row.seconds)
        << testing::PrintToString(row.set);
    if (row.gib == 0) continue;
    // 90 % of peaks are within 15 % (docs/uncertainty.md).
    const double reserved = static_cast<double>(forecast.memory.reserved.count()) / (1 << 30);
    EXPECT_NEAR(reserved, row.gib, 0.07 * row.gib) << testing::PrintToString(row.set);
  }
}

// LambdaLabsML/torchtitan, gb300/ (2026): GPT-OSS 20B on 64 GPUs of a rack, with FlexAttention.
TEST(ReportedRuns, GptOssOnGb300) {
  const std::string alone = "training.activation_checkpointing=none";
  const std::string operations = "training.activation_checkpointing=selective_op";
  const std::string compile = "training.compile=true", chunk = "training.loss_chunk=8192";
  const auto batch = [](int sequences) {
    return "training.micro_batch_size=" + std::to_string(sequences);
  };
  Expect(R"(
stepcast: 1
model: models/gpt-oss-20b.yaml
cluster: {topology: topologies/gb300-nvl72.yaml, devices: 64}
software: {torch: "2.12", expandable_segments: true}
training: {sequence_length: 8192, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, reduce_dtype: fp32, optimizer: adamw,
           optimizer_implementation: fused, activation_checkpointing: full, gradient_clipping: 1,
           loss: chunked, loss_chunk: 1024}
data_parallel: {framework: fsdp2, zero_stage: 3}
)",
         {{{}, 0.912},
          {{alone, batch(4)}, 1.803},
          {{alone, batch(6), compile}, 1.634},
          {{alone, batch(7), compile}, 1.818},
          {{operations, batch(8), compile, chunk}, 2.388},
          {{operations, batch(24), compile, chunk}, 6.679}});
}

// pytorch/torchtitan issue 1789: memory of selective_op for all-to-alls of experts.
TEST(ReportedRuns, DeepSeekWithSelectiveOp) {
  Expect(R"(
stepcast: 1
model: models/deepseek-v2-lite.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
software: {expandable_segments: true}
training: {sequence_length: 4096, micro_batch_size: 4, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, reduce_dtype: fp32, optimizer: adamw,
           optimizer_implementation: fused, activation_checkpointing: selective_op,
           gradient_clipping: 1, loss: fused, checkpoint_early_stop: false}
parallelism: {expert: 8}
data_parallel: {framework: fsdp2, zero_stage: 3}
)",
         {{{}, 1.408, 73.3}, {{"training.micro_batch_size=8"}, 0}});
}

// pytorch/torchtitan pull request 1690: eager tensor parallelism over a node.
TEST(ReportedRuns, QwenWithEagerTensorParallelism) {
  Expect(R"(
stepcast: 1
model: models/qwen3-32b.yaml
cluster: {topology: topologies/grand-teton-h100.yaml, nodes: 4}
software: {expandable_segments: true}
training: {sequence_length: 4096, micro_batch_size: 16, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, reduce_dtype: fp32, optimizer: adamw,
           optimizer_implementation: fused, activation_checkpointing: full, gradient_clipping: 1,
           checkpoint_early_stop: false}
parallelism: {tensor: 8, sequence_parallel: true}
data_parallel: {framework: fsdp2, zero_stage: 3}
)",
         {{{}, 9.35, 43.5},
          {{"training.micro_batch_size=32"}, 18.56, 70.8},
          {{"training.micro_batch_size=64"}, 0}});
}

// NVIDIA-NeMo/Speech issue 14712 (2025): GPT-OSS before cuDNN had a kernel with sinks.
TEST(ReportedRuns, GptOssWithoutAKernelWithSinks) {
  Expect(R"(
stepcast: 1
model: models/gpt-oss-20b.yaml
cluster: {topology: topologies/dgx-b200.yaml, nodes: 1}
software: {torch: "2.9"}
training: {sequence_length: 16384, micro_batch_size: 1, global_batch_size: 32, precision: bf16,
           optimizer: adamw, gradient_clipping: 1}
parallelism: {pipeline: 2, expert: 2, expert_tensor: 1}
data_parallel: {framework: megatron, zero_stage: 1}
)",
         // The fit is also uncertain if no release is stated.
         {{{}, 0}, {{"software.torch=null"}, 0}});
}

// yanring/Megatron-MoE-ModelZoo issue 7: experts with NCCL's all-to-alls, one sequence at a time.
TEST(ReportedRuns, AHostThatDoesNotKeepUp) {
  Expect(R"(
stepcast: 1
model: models/qwen3-30b-a3b.yaml
cluster: {topology: topologies/dgx-b200.yaml, nodes: 1}
software: {expandable_segments: true}
training: {sequence_length: 4096, micro_batch_size: 1, global_batch_size: 64, precision: bf16,
           optimizer: adamw, gradient_clipping: 1, loss: fused}
parallelism: {expert: 8, expert_tensor: 1}
data_parallel: {framework: megatron, zero_stage: 1, overlap_param_gather: true}
)",
         {{{}, 5.0}});
}

// hiyouga/LLaMA-Factory issue 4133: 7.7 billion parameters with ZeRO-2 on 40 GB, where the
// allocator must return memory.
TEST(ReportedRuns, Zero2OnFullDevices) {
  Expect(R"(
stepcast: 1
model: {kind: transformer, family: qwen2, hidden_size: 4096, num_hidden_layers: 32,
        num_attention_heads: 32, num_key_value_heads: 32, intermediate_size: 11008,
        vocab_size: 151936, tie_word_embeddings: false}
cluster: {topology: topologies/dgx-a100-40gb.yaml, nodes: 1}
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 1, precision: fp16,
           optimizer: adamw, activation_checkpointing: full, gradient_clipping: 1,
           norm: huggingface, rotary: huggingface, activation_function: huggingface}
data_parallel: {framework: deepspeed, zero_stage: 2, overlap: true,
                deepspeed: {reduce_bucket_size: 500000000, round_robin_gradients: true}}
)",
         {{{}, 0}});
}

}  // namespace
}  // namespace stepcast
