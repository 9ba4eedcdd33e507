// What FSDP2's units communicate and keep in pipelines, counted in the programs of all stages.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "fmt/format.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/plan/pipeline.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

constexpr std::int64_t kElements = 96;  // of a block, divisible by all numbers of ranks below

struct Drawn {
  int stages = 2, data = 2, shard = 2, virtual_stages = 1, micro_batches = 4, blocks = 1;
  std::string schedule = "1f1b";
  bool wide = true;  // reduced in 32 bits

  std::string Text() const {
    return fmt::format(
        "\nstepcast: 1\nmodel:\n  kind: layers\n  layers:\n"
        "    - {{name: block, repeat: {}, parameters: [{}], forward: 1 ms, backward: 2 ms, "
        "backward_weight: 1 ms, activation: 64 B, output: 16 B}}\n  optimizer_step: 1 ms\n"
        "cluster:\n  topology: {{kind: flat, devices: {}, memory: 80 GiB, "
        "link: {{latency: 5 us, bandwidth: 25 GB/s}}}}\n"
        "training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: {}, "
        "precision: bf16, reduce_dtype: {}, optimizer: adamw}}\n"
        "parallelism: {{pipeline: {}, schedule: {}, virtual_stages: {}}}\n"
        "data_parallel: {{zero_stage: 3, framework: fsdp2, shard_group_size: {}}}\n",
        blocks * stages * virtual_stages, kElements, stages * data, micro_batches,
        wide ? "fp32" : "bf16", stages, schedule, virtual_stages, shard);
  }
};

Drawn AnyPipeline() {
  Drawn drawn;
  drawn.stages = *rc::gen::element(2, 4);
  drawn.data = *rc::gen::element(1, 2, 4);
  drawn.shard = std::min(drawn.data, *rc::gen::element(1, 2, 4));
  drawn.blocks = *rc::gen::inRange(1, 4);
  drawn.micro_batches = drawn.stages * *rc::gen::inRange(1, 3);
  drawn.wide = *rc::gen::arbitrary<bool>();
  drawn.schedule = *rc::gen::element<std::string>("1f1b", "gpipe", "interleaved_1f1b",
                                                  "breadth_first", "zb_v", "dualpipe_v");
  if (drawn.schedule == "dualpipe_v") {
    drawn.micro_batches = std::max(drawn.micro_batches, 2 * drawn.stages);
  }
  const bool of_two = drawn.schedule == "zb_v" || drawn.schedule == "dualpipe_v";
  const bool of_many = drawn.schedule == "interleaved_1f1b" || drawn.schedule == "breadth_first";
  drawn.virtual_stages = of_two ? 2 : of_many ? *rc::gen::inRange(1, 6) : 1;
  return drawn;
}

// A chunk is gathered each time that the schedule says so, or once a step if it does not. Gradients
// are reduced once a step, and all-reduced over replicas once. At the last backward, whole
// gradients of all chunks exist, and parameters of at most three chunks.
RC_GTEST_PROP(Fsdp2Pipeline, GathersByRunsAndReducesOnce, ()) {
  const Drawn drawn = AnyPipeline();
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(drawn.Text(), "test", {}, cache);
  RC_ASSERT(scenario.has_value());
  const parallel::PipelineSchedule schedule = plan::ScheduleOf(scenario->plan);
  for (int stage = 0; stage < drawn.stages; ++stage) {
    std::int64_t runs = 0;
    for (const parallel::ScheduleEntry& entry :
         schedule.stages[static_cast<std::size_t>(stage)].entries) {
      const auto* pass = std::get_if<parallel::ParameterPass>(&entry);
      if (pass != nullptr && pass->kind == parallel::ParameterPass::Kind::kUnshard) ++runs;
    }
    if (!plan::RunsListedActions(scenario->plan)) runs = 1;
    const program::Program program = LowerRank(*scenario, {.rank = stage * drawn.data});
    for (const program::Violation& violation : program::Validate(program)) {
      RC_FAIL(violation.message);
    }
    std::int64_t gathered = 0, scattered = 0, reduced = 0;
    std::int64_t parameters = 0, gradients = 0, most_parameters = 0, most_gradients = 0;
    for (const program::Instruction& instruction : program.step) {
      if (instruction.opcode == Opcode::kCollective) {
        const program::Collective& collective = program.collectives[instruction.operand];
        const std::int64_t bytes = collective.bytes.count();
        if (collective.kind == CollectiveKind::kAllGather) gathered += bytes;
        if (collective.kind == CollectiveKind::kReduceScatter) scattered += bytes;
        if (collective.kind == CollectiveKind::kAllReduce) reduced += bytes;
      }
      const bool allocates = instruction.opcode == Opcode::kAllocate;
      if (!allocates && instruction.opcode != Opcode::kRelease) continue;
      const program::Buffer& buffer = program.buffers[instruction.operand];
      const std::int64_t change = (allocates ? 1 : -1) * buffer.size.count();
      if (program.NameOf(buffer).ends_with("/parameters")) parameters += change;
      if (program.NameOf(buffer).ends_with("/accumulated gradients")) gradients += change;
      most_parameters = std::max(most_parameters, parameters);
      most_gradients = std::max(most_gradients, gradients);
    }
    const std::int64_t chunk = drawn.blocks * kElements;
    const std::int64_t all = chunk * drawn.virtual_stages;
    const std::int64_t wide = drawn.wide ? 4 : 2;
    RC_ASSERT(gathered == (drawn.shard > 1 ? runs * chunk * 2 : 0));
    RC_ASSERT(scattered == (drawn.shard > 1 ? all * wide : 0));
    RC_ASSERT(reduced == (drawn.data > drawn.shard ? all * wide / drawn.shard : 0));
    RC_ASSERT(most_parameters == std::min(3, drawn.virtual_stages) * chunk * 2);
    RC_ASSERT(most_gradients <= (drawn.wide ? all * 4 : 0));
    RC_ASSERT(most_gradients >= (drawn.wide ? chunk * 4 : 0));
  }
}

// Nothing before the first adapter is trained. The embedding, alone in the first chunk, uses none
// of the received gradient, whose memory is released when it has arrived.
TEST(Fsdp2PipelineTest, FrozenEmbeddingsAwaitWhatIsSent) {
  scenario::InputCache cache;
  for (const char* schedule : {"interleaved_1f1b", "breadth_first", "zb_v", "dualpipe_v"}) {
    const auto scenario = scenario::LoadText(
        fmt::format(
            "stepcast: 1\n"
            "model: {{kind: transformer, family: llama, num_hidden_layers: 6, hidden_size: "
            "64, num_attention_heads: 8, intermediate_size: 128, vocab_size: 256}}\n"
            "cluster: {{topology: {{kind: flat, devices: 8, gpu: h100-sxm, link: {{latency: "
            "5 us, bandwidth: 25 GB/s}}}}}}\n"
            "training: {{sequence_length: 32, micro_batch_size: 1, gradient_accumulation: "
            "8, precision: bf16, optimizer: adamw, lora: {{rank: 4, targets: q_proj}}}}\n"
            "parallelism: {{pipeline: 4, schedule: {}, virtual_stages: 2}}\n"
            "data_parallel: {{zero_stage: 2, framework: fsdp2}}\n",
            schedule),
        "test", {}, cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    for (const program::Program& own : Lower(*scenario)) {
      for (const program::Violation& violation : program::Validate(own)) {
        ADD_FAILURE() << schedule << ": " << violation.message;
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::lowering
