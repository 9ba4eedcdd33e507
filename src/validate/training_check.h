#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/model/model.h"
#include "src/parallel/rank_grid.h"
#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/scenario/scenario.h"

// Checks whether an executed plan computes the same parameters as plain data parallelism. Gradients
// are small integers, computed from the bits of the parameters (GradientRule::kSmallIntegers). Sums
// of these gradients are exact in any order, and a single wrong bit changes all later steps.
namespace stepcast::validate {

// Plain data parallelism, computed by a few loops. Every rank has all parameters, gradients of all
// ranks and micro-batches are averaged in double precision, and one function updates the
// parameters. A scenario's step program must compute the same values, independent of its sharding.

enum class Gradients : std::uint8_t { kSmallIntegers, kQuadratic };

// The values of all elements of the model, tensor by tensor in registration order.
struct Weights {
  std::vector<float> parameters;  // values of the storage type, converted to FP32
  std::vector<float> masters;     // values that the optimizer updates: FP32 copies, or the
                                  // parameters
  std::vector<bool> used;         // false: no rank uses the element, because another element
                                  // replaces it
};

// Returns the weights after `steps` steps of the scenario, starting from `seed`. With small-integer
// gradients, averages and weights are bitwise exact if the numbers of ranks and micro-batches are
// powers of two.
Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed);

// Returns a rank's final parameters and master copies, as bytes.
runtime::Attempt<std::string> ReadWeights(const program::Program& program, runtime::Device& device);

struct TrainingCheck {
  std::int64_t elements = 0;  // number of the model's elements
  std::int64_t compared = 0;  // number of compared values, on all ranks together
  // The largest allowed difference. Zero (bitwise equality) requires that ranks times micro-batches
  // is a power of two of at most 64, because averages are then exact. Otherwise, rounding changes
  // gradients that are computed from bits, and the bound is twice the maximum distance by which the
  // optimizer can move an element.
  double bound = 0;
  std::int64_t wrong = 0;  // number of values that differ by more than the bound
  double furthest = 0;     // largest difference
  std::string example;     // the first wrong value: rank, element, value and expected value
  std::string missing;     // elements that no rank has; may be empty

  bool right() const { return wrong == 0 && missing.empty(); }
};

// Checks an executed training. `weights` has the results of ReadWeights, indexed by rank. `steps`
// is the number of executed steps, including warm-up.
runtime::Attempt<TrainingCheck> CheckTraining(const scenario::Scenario& scenario,
                                              const std::vector<std::string>& weights, int steps,
                                              std::uint64_t seed);

// Computes the seeds of gradients for plans whose passes communicate. Each rank computes a 32-bit
// check word from the check words that it receives from other pipeline stages and from collectives
// inside layers. The seeds equal the seeds of step programs (lowering/passes.h), but are computed
// directly from the layers' operation lists, for all ranks of a pipeline stage together.
class PlainPasses {
 public:
  explicit PlainPasses(const scenario::Scenario& scenario);

  // Returns true if passes do not communicate: there is one pipeline stage, and layers, sequences
  // and experts are not divided among ranks. Gradients then depend only on rank, step and
  // micro-batch.
  bool apart() const { return apart_; }
  // Returns the number of ranks in a pipeline stage. The ranks of the first stage represent the
  // ranks of all stages.
  int ranks() const { return ranks_; }
  // The seed of each layer's contribution to each tensor's gradient, indexed by
  // [rank][layer][position in Layer::tensors].
  using Seeds = std::vector<std::vector<std::vector<std::uint32_t>>>;
  Seeds Of(std::uint32_t step, int micro_batch) const;

 private:
  Seeds NoSeeds() const;
  bool SplitsBackward(int stage, int micro_batch) const;

  const scenario::Scenario& scenario_;
  const bool apart_;
  const parallel::Grids grids_;
  const int ranks_;
  std::vector<model::LayerWork> works_;
  std::vector<int> work_of_layer_;
  std::vector<int> stages_;  // first layer of each chunk, and the end of the last chunk
  // Whether backward has two passes, indexed by [chunk][micro-batch]. Empty if no backward has two
  // passes.
  std::vector<std::vector<bool>> split_;
};

}  // namespace stepcast::validate
