// A program with repeated micro-batches represents the whole one: the same instructions and bounds.

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/price.h"
#include "src/lowering/lowering.h"
#include "src/planner/bounds.h"
#include "src/scenario/load.h"

namespace stepcast::planner {
namespace {

using program::Instruction;

constexpr const char* kLayers = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: embedding, repeat: 1, parameters: [400000], forward: 1 ms, backward: 1 ms,
       activation: 3 MiB}
    - {name: block, repeat: 2, parameters: [300000, 1000, 70000], forward: 5 ms, backward: 11 ms,
       activation: 64 MiB}
  optimizer_step: 2 ms
cluster:
  topology: {kind: flat, devices: 4, memory: 1 GiB, link: {latency: 50 us, bandwidth: 1 GB/s}}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

// With real kernels, which have issue times.
constexpr const char* kModel = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

struct Case {
  const char* text = kLayers;
  std::vector<std::string> set;
};

Case AnyPlan() {
  Case any;
  const auto vary = [&any](const char* key, std::vector<const char*> values) {
    any.set.push_back(std::string(key) + "=" + *rc::gen::elementOf(values));
  };
  if (*rc::gen::inRange(0, 4) == 0) {
    any.text = kModel;
    vary("training.activation_checkpointing", {"none", "selective", "full"});
  } else {
    vary("cluster.topology.link.bandwidth", {"100 MB/s", "1 GB/s", "20 GB/s"});
    vary("cluster.topology.devices", {"1", "4", "8"});
  }
  any.set.push_back(fmt::format("training.gradient_accumulation={}", *rc::gen::inRange(16, 41)));
  vary("training.step_barrier", {"false", "true"});
  vary("training.host_waits", {"never", "micro_batch", "phase", "launch"});
  const std::string framework = *rc::gen::elementOf(std::vector<std::string>{
      "reference", "ddp", "fsdp1", "fsdp2", "deepspeed", "deepspeed", "megatron", "nanotron"});
  any.set.push_back("data_parallel.framework=" + framework);
  if (framework == "reference") {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3"});
    vary("data_parallel.overlap", {"true", "false"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
  } else if (framework == "ddp") {
    vary("data_parallel.bucket_size", {"0 B", "1 MiB", "25 MiB"});
    vary("data_parallel.gradient_as_bucket_view", {"true", "false"});
  } else if (framework == "fsdp1") {
    vary("data_parallel.zero_stage", {"2", "3"});
    vary("data_parallel.backward_prefetch", {"pre", "post", "none"});
    vary("data_parallel.forward_prefetch", {"true", "false"});
    vary("data_parallel.limit_all_gathers", {"true", "false"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
  } else if (framework == "fsdp2") {
    vary("data_parallel.zero_stage", {"2", "3"});
    vary("data_parallel.prefetch", {"0", "1", "2", "3"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
  } else if (framework == "megatron" || framework == "nanotron") {
    vary("data_parallel.zero_stage", {"0", "1"});
  } else {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3", "3", "3"});
    vary("data_parallel.overlap", {"true", "false"});
    vary("data_parallel.deepspeed.reduce_bucket_size", {"350000", "1000000", "500000000"});
    vary("data_parallel.deepspeed.stage3_prefetch_bucket_size", {"0", "100000", "50000000"});
    vary("data_parallel.deepspeed.stage3_param_persistence_threshold", {"0", "2000", "100000"});
    vary("data_parallel.deepspeed.stage3_max_reuse_distance", {"0", "1000000000"});
    vary("data_parallel.deepspeed.zero_hpz_partition_size", {"1", "1", "2"});
    if (any.text == kModel) vary("data_parallel.deepspeed.offload_optimizer", {"none", "cpu"});
  }
  return any;
}

// The instruction of the short step at each place of the expanded step.
std::vector<std::size_t> WrittenOut(const ShortProgram& shorter) {
  const Repeated& repeated = shorter.repeated;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < shorter.program.step.size(); ++i) {
    all.push_back(i);
    if (repeated.more == 0 || i + 1 != repeated.last) continue;
    for (std::int64_t more = 0; more < repeated.more; ++more) {
      for (std::size_t j = repeated.first; j < repeated.last; ++j) all.push_back(j);
    }
  }
  return all;
}

bool IsEvent(const Instruction& instruction) {
  using program::Opcode;
  return instruction.opcode == Opcode::kRecordEvent || instruction.opcode == Opcode::kWaitEvent ||
         instruction.opcode == Opcode::kHostWaitEvent;
}

// The last record of an event in a step, counted from its end; kNoSource for none.
std::size_t LastRecord(const program::Program& program, program::Index event) {
  for (std::size_t i = program.step.size(); i-- > 0;) {
    const Instruction& instruction = program.step[i];
    if (instruction.opcode == program::Opcode::kRecordEvent && instruction.operand == event) {
      return program.step.size() - i;
    }
  }
  return kNoSource;
}

TEST(ShortProgramLaws, StandsForTheWholeProgram) {
  scenario::InputCache cache;
  int shorter_ones = 0, all = 0;
  rc::detail::checkGTest([&] {
    const Case any = AnyPlan();
    const auto scenario = scenario::LoadText(any.text, "test", any.set, cache);
    if (!scenario) return;  // not a plan that can exist
    RC_LOG() << fmt::format("{}\n", fmt::join(any.set, " "));
    const program::Program whole = lowering::LowerRank(*scenario);
    const ShortProgram shorter = LowerShort(*scenario);
    ++all;
    if (shorter.repeated.more > 0) ++shorter_ones;
    const std::vector<std::size_t> places = WrittenOut(shorter);
    RC_ASSERT(places.size() == whole.step.size());
    std::vector<Instruction> step;
    for (const std::size_t place : places) step.push_back(shorter.program.step[place]);
    const auto sources = SourcesOfWaits(shorter.program), whole_sources = SourcesOfWaits(whole);
    for (std::size_t i = 0; i < step.size(); ++i) {
      RC_ASSERT(step[i].opcode == whole.step[i].opcode);
      RC_ASSERT(step[i].stream == whole.step[i].stream);
      if (!IsEvent(step[i])) RC_ASSERT(step[i].operand == whole.step[i].operand);
      const std::size_t source = sources[places[i]];
      if (source == kNoSource) {
        RC_ASSERT(whole_sources[i] == kNoSource);
        if (step[i].opcode != program::Opcode::kRecordEvent && IsEvent(step[i])) {
          // In the step before.
          RC_ASSERT(LastRecord(shorter.program, step[i].operand) ==
                    LastRecord(whole, whole.step[i].operand));
        }
      } else if (source == whole_sources[i]) {
        // Belongs to the first micro-batch.
      } else {
        RC_ASSERT(places[i] - source == i - whole_sources[i]);
      }
      RC_ASSERT(step[i].phase == whole.step[i].phase);
      RC_ASSERT(step[i].use_count == whole.step[i].use_count);
      for (program::Index u = 0; u < step[i].use_count; ++u) {
        const program::BufferUse& one = shorter.program.uses[step[i].first_use + u];
        const program::BufferUse& other = whole.uses[whole.step[i].first_use + u];
        RC_ASSERT(one.buffer == other.buffer);
        RC_ASSERT(one.write == other.write);
      }
    }
    RC_ASSERT(shorter.program.streams.size() == whole.streams.size());
    RC_ASSERT(shorter.program.collectives == whole.collectives);
    RC_ASSERT(shorter.program.buffers.size() == whole.buffers.size());
    for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
      RC_ASSERT(shorter.program.buffers[i].size == whole.buffers[i].size);
      RC_ASSERT(shorter.program.buffers[i].category == whole.buffers[i].category);
    }

    const auto whole_prices = cost::Price(whole, *scenario);
    const auto prices = cost::Price(shorter.program, *scenario);
    RC_ASSERT(whole_prices.has_value());
    RC_ASSERT(prices.has_value());
    for (const bool barrier : {false, true}) {
      for (const bool collectives : {false, true}) {
        RC_ASSERT(
            UncontendedStepTime(shorter.program, *prices, barrier, collectives, shorter.repeated) ==
            UncontendedStepTime(whole, *whole_prices, barrier, collectives));
      }
    }
    RC_ASSERT(ContendedComputeTime(shorter.program, *prices, true, shorter.repeated) ==
              ContendedComputeTime(whole, *whole_prices, true));
    RC_ASSERT(PeakInHostOrder(shorter.program, shorter.repeated) == PeakInHostOrder(whole));
  });
  EXPECT_GE(all, 30);
  EXPECT_GE(shorter_ones, all / 3);
}

}  // namespace
}  // namespace stepcast::planner
