#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/lowering/pipeline_stage.h"
#include "src/plan/pipeline.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

// The stage's passes: "F0.1" is the forward of micro-batch 0 through the stage's chunk 1.
// Collectives launched before and after a pass are next to it.
std::string Text(int stages, int stage, int micro_batches) {
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(
      fmt::format("stepcast: 1\n"
                  "model: {{kind: layers, layers: [{{name: block, repeat: {}, parameters: [8], "
                  "forward: 1 ms, backward: 2 ms, activation: 8 B, output: 8 B}}],\n"
                  "  optimizer_step: 1 ms}}\n"
                  "cluster: {{topology: {{kind: flat, devices: {}, memory: 1 GiB,\n"
                  "  link: {{latency: 1 us, bandwidth: 1 GB/s}}}}}}\n"
                  "training: {{sequence_length: 1, micro_batch_size: 1, precision: bf16,\n"
                  "  gradient_accumulation: {}, optimizer: adamw}}\n"
                  "parallelism: {{pipeline: {}, virtual_stages: 2}}\n"
                  "data_parallel: {{zero_stage: 1, framework: megatron}}\n",
                  2 * stages, 2 * stages, micro_batches, stages),
      "test", {}, cache);
  if (!scenario) return Format(scenario.error());
  const PipelineStage part(*scenario, plan::ScheduleOf(scenario->plan), stage);
  const MegatronAlignment alignment = MegatronAlignmentOf(part);
  std::string text;
  for (std::size_t pass = 0; pass < part.passes().size(); ++pass) {
    const parallel::Action& action = part.passes()[pass];
    for (const std::size_t chunk : alignment.gathered_before[pass]) {
      text += fmt::format("gather {} ", chunk);
    }
    text += fmt::format("{}{}.{} ", action.task == parallel::Task::kForward ? 'F' : 'B',
                        action.micro_batch, part.chunk_of(action));
    if (const auto chunk = alignment.reduced_after[pass]) text += fmt::format("reduce {} ", *chunk);
  }
  return text;
}

// Two stages of two chunks, four micro-batches. Backwards run chunk 1 for micro-batches 0 and 1,
// then chunk 0, then chunk 1 for 2 and 3, then chunk 0. The last backward of chunk 1 is the sixth
// of eight, that of chunk 0 the eighth. In the pipeline, stage 1 is one pass behind stage 0. Stage
// 0 ends its own sixth when stage 1 ends its seventh, so stage 1 reduces there. Collectives due
// after its eighth pass go to the end.
TEST(MegatronAlignmentTest, TwoStagesOfTwoChunks) {
  EXPECT_EQ(Text(2, 0, 4),
            "gather 0 gather 1 F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 "
            "B3.1 reduce 1 B2.0 B3.0 reduce 0 ");
  EXPECT_EQ(Text(2, 1, 4),
            "gather 0 gather 1 F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 "
            "B3.1 B2.0 reduce 1 B3.0 ");
}

}  // namespace
}  // namespace stepcast::lowering
