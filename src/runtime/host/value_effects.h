#pragma once

#include <cstddef>
#include <cstdint>

#include "src/program/data_flow.h"
#include "src/runtime/device.h"

// Effects of operations on the training's values, in memory: program/data_flow.h with the
// arithmetic of runtime/values.
namespace stepcast::runtime::host {

// An effect and where its ranges lie in memory; null where the effect has none.
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
  // The result of the operation's matrix product, if it is one: gradients come from it under
  // kComputed, over and over if it has fewer elements.
  const float* product = nullptr;
  std::int64_t product_elements = 0;
};

// All but kCollective.
void Apply(const BoundEffect& bound, const EffectContext& context);

// The model's initial values, `elements` of them from `first_element` on, or zeros.
void WriteInitial(const program::StatePart& part, std::byte* target, std::uint64_t seed);

// Values as FP32.
void ReadValues(const std::byte* source, DataType type, std::int64_t count, float* values);

// Memory that the effect's target and source take up.
std::int64_t BytesMoved(const program::Effect& effect);

}  // namespace stepcast::runtime::host
