#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/collective/step_list.h"

// All combinations of an algorithm and a collective that the algorithm supports, for tests.
namespace stepcast::collective {

struct Sample {
  std::string_view algorithm;
  CollectiveKind kind;
};
std::vector<Sample> AllSamples();

struct SampleShape {
  Bytes size;
  int nodes = 1;
  int ranks_per_node = 1;
  int channels = 1;
  int loops = 1;
  int slices = 1;          // for a ring
  int root = 0;            // taken modulo the number of ranks
  std::uint32_t seed = 0;  // 0: rings in ascending order; otherwise shuffled differently per
                           // channel
};
// Returns the step list of a sample. Algorithms for one node, or for one rank per node, use nodes *
// ranks_per_node ranks.
std::unique_ptr<StepList> MakeSample(const Sample& sample, const SampleShape& shape);

}  // namespace stepcast::collective
