// PyTorch's own upper bounds of FSDP2's memory (pytorch/pytorch
// test/distributed/_composable/fsdp/test_fully_shard_memory.py), checked over random layers.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/program.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;
using program::Phase;

struct Peaks {
  std::int64_t forward = 0, backward = 0;  // beside what lives from step to step, without gradients
  std::int64_t largest_gather = 0;         // bytes of the largest unit, padded, as it is gathered
};

// In host order, in which FSDP2 allocates and frees.
Peaks PeaksOf(const program::Program& program) {
  Peaks peaks;
  std::int64_t alive = 0;
  for (const program::Instruction& instruction : program.step) {
    const bool allocates = instruction.opcode == Opcode::kAllocate;
    if (!allocates && instruction.opcode != Opcode::kRelease) continue;
    const program::Buffer& buffer = program.buffers[instruction.operand];
    if (program.NameOf(buffer).ends_with("/gradient shard")) continue;
    alive += (allocates ? 1 : -1) * buffer.size.count();
    if (program.NameOf(buffer).ends_with("/gather buffer")) {
      peaks.largest_gather = std::max(peaks.largest_gather, buffer.size.count());
    }
    if (instruction.phase == Phase::kForward) peaks.forward = std::max(peaks.forward, alive);
    if (instruction.phase == Phase::kBackward) peaks.backward = std::max(peaks.backward, alive);
  }
  return peaks;
}

RC_GTEST_PROP(Fsdp2Memory, StaysWithinPyTorchsUpperBounds, ()) {
  const auto number = [](int from, int to) { return *rc::gen::inRange(from, to); };
  std::string layers;
  const int kinds = number(1, 5);
  for (int kind = 0; kind < kinds; ++kind) {
    std::string parameters;
    const int tensors = number(1, 4);
    for (int tensor = 0; tensor < tensors; ++tensor) {
      parameters += fmt::format("{}{}", tensor == 0 ? "" : ", ", number(1, 5000));
    }
    layers += fmt::format(
        "    - {{name: l{}, repeat: {}, parameters: [{}], forward: 1 ms, backward: 1 ms, "
        "activation: 0 B}}\n",
        kind, number(1, 4), parameters);
  }
  const bool wide = *rc::gen::arbitrary<bool>();
  const bool keeps = *rc::gen::arbitrary<bool>();
  const std::string text = fmt::format(
      "\nstepcast: 1\nmodel:\n  kind: layers\n  layers:\n{}  optimizer_step: 1 ms\n"
      "cluster:\n  topology: {{kind: flat, devices: {}, memory: 80 GiB, "
      "link: {{latency: 5 us, bandwidth: 25 GB/s}}}}\n"
      "training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, "
      "precision: bf16, reduce_dtype: {}, optimizer: adamw}}\n"
      "data_parallel: {{zero_stage: 3, framework: fsdp2, reshard_after_forward: {}}}\n",
      layers, number(2, 9), wide ? "fp32" : "bf16", keeps ? "false" : "true");
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  RC_ASSERT(scenario.has_value());
  const program::Program program = LowerRank(*scenario);
  const Peaks peaks = PeaksOf(program);
  const std::int64_t unit = peaks.largest_gather;
  std::int64_t whole = 0;
  for (const program::Buffer& buffer : program.buffers) {
    if (program.NameOf(buffer).ends_with("/gather buffer")) whole += buffer.size.count();
  }
  // Gathered parameters, full parameters and gradients have 16 bits; reduced values have 16 or 32.
  const std::int64_t reduced = wide ? 2 * unit : unit;
  if (keeps) {
    RC_ASSERT(peaks.forward <= whole + unit);
    RC_ASSERT(peaks.backward <= whole + unit + unit + reduced);
  } else {
    RC_ASSERT(peaks.forward <= 3 * unit);
    RC_ASSERT(peaks.backward <= 3 * unit + reduced);
  }
}

}  // namespace
}  // namespace stepcast::lowering
