#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/scenario/scenario.h"

// Whether an executed plan trained as plain data parallelism does. Gradients are small integers
// made from the bits of the parameters (GradientRule::kSmallIntegers), so that their sums are exact
// in any order and one wrong bit anywhere shows in the steps after it.
namespace stepcast::validate {

// Plain data parallelism, written as a few loops: every rank holds everything, gradients of all
// ranks and micro-batches are averaged in double precision, one function updates. What a scenario's
// step program does to values, however sharded, must come to the same.

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

// The parameters and master copies that a rank ends with, as bytes.
runtime::Attempt<std::string> ReadWeights(const program::Program& program, runtime::Device& device);

struct TrainingCheck {
  std::int64_t elements = 0;  // of the model
  std::int64_t compared = 0;  // values, on all ranks together
  // Zero: bit for bit, where the average over ranks and micro-batches is exact (their product is a
  // power of two, at most 64). Else rounding changes gradients that are made from bits, and all
  // that holds is what an optimizer can move an element by, in both directions.
  double bound = 0;
  std::int64_t wrong = 0;  // values that are further off
  double furthest = 0;     // the largest difference of any
  std::string example;     // the first wrong value: its rank, element, value, and what is right
  std::string missing;     // elements that no rank has; empty: none

  bool right() const { return wrong == 0 && missing.empty(); }
};

// `weights`: what ReadWeights gave, by rank. `steps`: how many were run, warm-up included.
runtime::Attempt<TrainingCheck> CheckTraining(const scenario::Scenario& scenario,
                                              const std::vector<std::string>& weights, int steps,
                                              std::uint64_t seed);

}  // namespace stepcast::validate
