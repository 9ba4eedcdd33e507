#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/collective/step_list.h"

// Executes a step list on numbers, one number for each byte, to check that the list computes its
// collective. Only for tests, because all data of all ranks is stored.
namespace stepcast::collective {

struct Interpretation {
  // The value that the final steps leave at an address, as [rank][address]. 0 if no final step
  // writes there.
  std::vector<std::vector<std::int64_t>> results;
  // The number of final steps at an address, as [rank][address].
  std::vector<std::vector<int>> copies;
  std::vector<std::int64_t> sent;      // [participant]: bytes
  std::vector<std::int64_t> received;  // [participant]: bytes
  // Empty, or a description of the fault: workers that wait forever, messages of an unexpected
  // size, or messages that no one received.
  std::string fault;
};

// Executes the list. `contributions` are indexed by rank and address; each rank's contribution has
// the partition's size. If `lowest_first`, the participant with the lowest number runs first, among
// the participants that can continue. Otherwise, the participant with the highest number runs
// first. No result may depend on this order.
Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first);

}  // namespace stepcast::collective
