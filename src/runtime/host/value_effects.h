#pragma once

#include <cstddef>
#include <cstdint>

#include "src/program/data_flow.h"
#include "src/runtime/device.h"

// Executes effects (program/data_flow.h) on values in memory, with the arithmetic of
// runtime/values.
namespace stepcast::runtime::host {

// An effect with the addresses of its ranges. An address is null if the effect has no such range.
struct BoundEffect {
  program::Effect effect;
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::byte* states = nullptr;
};

struct EffectContext {
  int rank = 0;
  std::uint32_t step = 0;
  int micro_batch = 0;
  GradientRule gradients = GradientRule::kComputed;
  bool adamw = true;
  // The result of the operation's GEMM. Null: the operation has no GEMM. With kComputed, gradients
  // are copies of the GEMM's result, which is repeated if there are more gradients than elements.
  const float* product = nullptr;
  std::int64_t product_elements = 0;
};

// Executes an effect of any kind except kCollective.
void Apply(const BoundEffect& bound, const EffectContext& context);

// Writes `elements` initial values of the model, starting with element `first_element`, or writes
// zeros.
void WriteInitial(const program::StatePart& part, std::byte* target, std::uint64_t seed);

// Converts values to FP32.
void ReadValues(const std::byte* source, DataType type, std::int64_t count, float* values);

// Returns the total size of the effect's target and source, in bytes.
std::int64_t BytesMoved(const program::Effect& effect);

}  // namespace stepcast::runtime::host
