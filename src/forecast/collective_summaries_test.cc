
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

// Tensor parallelism all-reduces the embedding and the loss in the tensor group. Once a step, the
// gradients of norms and biases are summed in the same group, on a separate communicator.
constexpr const char* kScenario = R"(
stepcast: 1
model: {kind: transformer, family: gpt2, num_hidden_layers: 2, hidden_size: 1024, num_attention_heads: 8,
        intermediate_size: 4096, vocab_size: 1024, max_position_embeddings: 512}
cluster: {topology: topologies/dgx-a100.yaml}
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
parallelism: {tensor: 2, sequence_parallel: true}
data_parallel: {zero_stage: 1, framework: megatron}
)";

TEST(SummariseCollectives, HasOneRowForEachCollectiveAndGroup) {
  scenario::InputCache cache;
  const auto scenario = scenario::LoadText(kScenario, "test", {}, cache);
  ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
  const auto run = Simulate(*scenario);
  ASSERT_TRUE(run.has_value()) << Format(run.error());
  std::set<std::pair<CollectiveKind, std::string>> seen;
  for (const CollectiveSummary& row : run->forecast.collectives) {
    EXPECT_TRUE(seen.emplace(row.collective, row.group).second) << row.group;
    if (row.collective != CollectiveKind::kAllReduce || row.group != "tensor") continue;
    // For each of two micro-batches: the embedding's sums, 512 tokens of 1024 numbers of 2 bytes,
    // and three FP32 numbers per token for the loss. Once: the gradients of five norms' weights and
    // biases and of four product biases, 14 vectors of 1024 FP32 numbers. Each of two ranks sends
    // as many bytes as are summed.
    EXPECT_EQ(row.calls, 2 * (1 + 3) + 1);
    EXPECT_DOUBLE_EQ(row.wire_bytes_per_rank, 2 * (512 * 1024 * 2 + 3 * 512 * 4) + 14 * 1024 * 4);
  }
  EXPECT_TRUE(seen.contains({CollectiveKind::kAllReduce, "tensor"}));
}

}  // namespace
}  // namespace stepcast::forecast
