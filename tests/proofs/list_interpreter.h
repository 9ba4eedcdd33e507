#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/collective/step_list.h"

// Executes a step list on numbers, one number for each byte, to check that the list computes its
// collective. Only for tests, because all data of all ranks is stored.
namespace stepcast::collective {

struct Interpretation {
  // [rank][address]: the value left by the final steps at this address; 0 if there is none.
  std::vector<std::vector<std::int64_t>> results;
  // [rank][address]: the number of final steps at this address.
  std::vector<std::vector<int>> copies;
  std::vector<std::int64_t> sent;      // [participant]: bytes
  std::vector<std::int64_t> received;  // [participant]: bytes
  // Empty, or a description of the fault: workers that wait forever, messages of an unexpected
  // size, or messages that were never received.
  std::string fault;
};

// Executes the list. `contributions` are indexed by rank and address; each rank's contribution has
// the partition's size. If `lowest_first` is true, the participant with the lowest number runs
// first, among the participants that can continue; otherwise, the participant with the highest
// number. No result may depend on this order.
Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first);

}  // namespace stepcast::collective
