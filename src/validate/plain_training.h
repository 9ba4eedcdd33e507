#pragma once

#include <cstdint>
#include <vector>

#include "src/base/data_type.h"
#include "src/scenario/scenario.h"

// Plain data parallelism, written as a few loops: every rank holds everything, gradients of all
// ranks and micro-batches are averaged in double precision, one function updates. What a scenario's
// step program does to values, however sharded, must come to the same.
namespace stepcast::validate {

enum class Gradients : std::uint8_t { kSmallIntegers, kQuadratic };

// Every element of the model, tensor by tensor in registration order.
struct Weights {
  std::vector<float> parameters;  // as they are stored, widened
  std::vector<float> masters;     // what is updated: FP32 copies, or the parameters themselves
  std::vector<bool> used;         // false: another element stands for it on all ranks
};

// The weights after `steps` steps of the scenario from `seed` on. With small integers the average
// is exact, and so are the weights, bit by bit, while ranks and micro-batches are powers of two.
Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed);

}  // namespace stepcast::validate
