#include "src/lowering/data_loading_and_saving.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

scenario::Scenario Loaded(const std::string& training, const std::string& data_parallel) {
  static scenario::InputCache cache;
  // 16,000 parameters; eight GPUs in a node, two nodes.
  const std::string text = fmt::format(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {{name: a, repeat: 2, parameters: [8000], forward: 1 ms, backward: 2 ms, activation: 0 B}}
  optimizer_step: 1 ms
cluster: {{topology: topologies/dgx-a100.yaml, nodes: 2}}
training: {{sequence_length: 8, micro_batch_size: 1, precision: bf16, optimizer: adamw, {}}}
data_parallel: {{{}}}
)",
                                       training, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  return *scenario;
}

program::Program Lowered(const std::string& training) {
  program::Program program = LowerRank(Loaded(training, "zero_stage: 0, framework: ddp"), {});
  EXPECT_TRUE(program::Validate(program).empty()) << training;
  return program;
}

const Kernel* Find(const program::Program& program, const std::string& name) {
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

// Records, host waits and events of micro-batches, in program order.
std::vector<std::string> Order(const program::Program& program) {
  std::vector<std::string> order;
  for (const program::Instruction& instruction : program.step) {
    const bool waits = instruction.opcode == Opcode::kHostWaitEvent;
    if (!waits && instruction.opcode != Opcode::kRecordEvent) continue;
    if (program.NameOf(program.events[instruction.operand]) != "micro-batch loaded") continue;
    order.push_back((waits ? "wait " : "ask ") + std::to_string(instruction.operand));
  }
  // Numbered from the first.
  for (std::string& one : order) {
    const auto at = one.find(' ') + 1;
    const int number = std::stoi(one.substr(at));
    int first = number;
    for (std::size_t e = 0; e < program.events.size(); ++e) {
      if (program.NameOf(program.events[e]) == "micro-batch loaded") {
        first = static_cast<int>(e);
        break;
      }
    }
    one = one.substr(0, at) + std::to_string(number - first);
  }
  return order;
}

TEST(DataLoading, WithoutWorkersTheHostLoads) {
  const auto program = Lowered("gradient_accumulation: 3, data_loading: {time: 5 ms, workers: 0}");
  int tasks = 0;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kHostTask) continue;
    ++tasks;
    EXPECT_EQ(program.host_tasks[instruction.operand].duration, Milliseconds(5));
  }
  EXPECT_EQ(tasks, 3);
}

// Four workers that take 10 ms each make one every 2.5 ms.
TEST(DataLoading, WorkersShareTheTime) {
  const auto program = Lowered("gradient_accumulation: 1, data_loading: {time: 10 ms, workers: 4}");
  const Kernel* load = Find(program, "load_micro_batch");
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(load->given, Microseconds(2500));
  EXPECT_TRUE(load->on_host);
}

// One worker, two ahead, three micro-batches a step. Micro-batch 0 was requested when number 1 of
// the last step was taken, 1 when 2 was, and 2 when 0 of this step was.
TEST(DataLoading, WaitsForWhatWasAskedForSoManyAhead) {
  EXPECT_EQ(Order(Lowered("gradient_accumulation: 3, data_loading: {time: 1 ms, workers: 1, "
                          "prefetch: 2}")),
            (std::vector<std::string>{"wait 1", "ask 0", "wait 2", "ask 1", "wait 0", "ask 2"}));
  // More than a step's ahead are a step's: those of the same place in the last step.
  EXPECT_EQ(Order(Lowered("gradient_accumulation: 3, data_loading: {time: 1 ms, workers: 4, "
                          "prefetch: 2}")),
            (std::vector<std::string>{"wait 0", "ask 0", "wait 1", "ask 1", "wait 2", "ask 2"}));
}

TEST(DataLoading, CopiesWhatItIsToldTo) {
  for (const bool pinned : {true, false}) {
    const auto program =
        Lowered(fmt::format("gradient_accumulation: 2, data_loading: {{time: 1 ms, bytes: 3 MB, "
                            "pin_memory: {}}}",
                            pinned));
    int copies = 0, waits = 0;
    for (const program::Instruction& instruction : program.step) {
      waits += instruction.opcode == Opcode::kHostWaitEvent;
      if (instruction.opcode != Opcode::kCopy) continue;
      ++copies;
      EXPECT_EQ(program.copies[instruction.operand].bytes, Bytes(3'000'000));
      EXPECT_EQ(program.copies[instruction.operand].direction,
                program::CopyDirection::kHostToDevice);
    }
    EXPECT_EQ(copies, 2);
    EXPECT_EQ(waits, pinned ? 0 : 2);
  }
}

// bf16 parameters and three FP32 arrays: 14 bytes each.
TEST(CheckpointSaving, WhoSavesWhat) {
  const std::string training =
      "gradient_accumulation: 1, master_weights: fp32, "
      "checkpoint_saving: {every: 100, bandwidth: 2 GB/s}";
  const auto bytes = [&](const std::string& data_parallel) {
    const scenario::Scenario scenario = Loaded(training, data_parallel);
    return CheckpointBytesOf(scenario, *scenario.model);
  };
  // The first rank everything.
  EXPECT_EQ(bytes("zero_stage: 0, framework: ddp").of_rank, Bytes(14 * 16'000));
  EXPECT_EQ(bytes("zero_stage: 0, framework: ddp").of_node, Bytes(14 * 16'000));
  // Sixteen ranks a sixteenth each, eight of them in a node.
  EXPECT_EQ(bytes("zero_stage: 3, framework: fsdp2").of_rank, Bytes(14 * 1000));
  EXPECT_EQ(bytes("zero_stage: 3, framework: fsdp2").of_node, Bytes(14 * 8000));
  // Hybrid: one of the two copies, an eighth each.
  EXPECT_EQ(bytes("zero_stage: 3, framework: fsdp2, shard_group_size: 8").of_rank,
            Bytes(14 * 2000));
  EXPECT_EQ(bytes("zero_stage: 3, framework: fsdp2, shard_group_size: 8").of_node,
            Bytes(14 * 16'000));
  // Parameters by the first rank, states by all.
  EXPECT_EQ(bytes("zero_stage: 1, framework: megatron").of_rank, Bytes(2 * 16'000 + 12 * 1000));
  EXPECT_EQ(bytes("zero_stage: 1, framework: megatron").of_node, Bytes(2 * 16'000 + 12 * 8000));
}

// 224,000 bytes over 100 steps: 2240 a step, which take 1.12 us at 2 GB/s.
TEST(CheckpointSaving, AStepBearsItsPart) {
  for (const bool async : {false, true}) {
    const auto program =
        Lowered(fmt::format("gradient_accumulation: 1, master_weights: fp32, checkpoint_saving: "
                            "{{every: 100, mode: {}, bandwidth: 2 GB/s}}",
                            async ? "async" : "sync"));
    const Kernel* write = Find(program, "write_checkpoint");
    ASSERT_NE(write, nullptr);
    EXPECT_EQ(write->given, Nanoseconds(1120));
    for (const program::Instruction& instruction : program.step) {
      if (instruction.opcode == Opcode::kCopy) {
        EXPECT_EQ(program.copies[instruction.operand].bytes, Bytes(2240));
      }
      if (instruction.opcode != Opcode::kKernel ||
          program.kernels[instruction.operand].name != "write_checkpoint") {
        continue;
      }
      EXPECT_EQ(instruction.stream == program::Program::kComputeStream, !async);
    }
  }
}

// A checkpoint that is still being written is in the node's memory.
TEST(CheckpointSaving, AsyncTakesHostMemory) {
  const auto host = [](const char* mode) {
    return HostBytesOfNode(Loaded(fmt::format("gradient_accumulation: 1, master_weights: fp32, "
                                              "checkpoint_saving: {{every: 100, mode: {}, "
                                              "bandwidth: 2 GB/s}}",
                                              mode),
                                  "zero_stage: 3, framework: fsdp2"));
  };
  EXPECT_EQ(host("sync").memory, Bytes(0));
  EXPECT_EQ(host("async").memory, Bytes(14 * 8000));
}

// Programs of every plan are free of races with data loading and saving.
TEST(DataLoadingAndSaving, EveryPlanStaysFreeOfRaces) {
  for (const std::string plan :
       {"zero_stage: 0, framework: reference", "zero_stage: 2, framework: reference",
        "zero_stage: 3, framework: reference", "zero_stage: 3, framework: fsdp1",
        "zero_stage: 3, framework: fsdp2", "zero_stage: 1, framework: megatron",
        "zero_stage: 3, framework: deepspeed", "zero_stage: 0, framework: nanotron",
        "zero_stage: 1, framework: nanotron"}) {
    for (const std::string work :
         {"data_loading: {time: 1 ms, bytes: 1 MiB}",
          "data_loading: {time: 1 ms, workers: 2, bytes: 1 MiB}",
          "data_loading: {time: 1 ms, bytes: 1 MiB, pin_memory: false}",
          "checkpoint_saving: {every: 10, bandwidth: 1 GB/s}",
          "checkpoint_saving: {every: 10, bandwidth: 1 GB/s, mode: async}"}) {
      for (const std::string waits : {"never", "step", "update", "micro_batch", "phase"}) {
        const std::string training =
            fmt::format("gradient_accumulation: 2, host_waits: {}, {}", waits, work);
        EXPECT_TRUE(program::Validate(LowerRank(Loaded(training, plan), {})).empty())
            << plan << "; " << training;
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::lowering
