#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/collective/step_list.h"

// Executes a step list on numbers, one for each byte, to check that the list computes its
// collective. For tests: it keeps all data of all ranks.
namespace stepcast::collective {

struct Interpretation {
  // [rank][address]: the value left by the steps marked as final; 0 if no step there is final.
  std::vector<std::vector<std::int64_t>> results;
  // [rank][address]: the number of steps marked as final.
  std::vector<std::vector<int>> copies;
  std::vector<std::int64_t> sent;      // [participant]: bytes
  std::vector<std::int64_t> received;  // [participant]: bytes
  // Empty, or the fault: workers that wait forever, messages of an unexpected size, or messages
  // that were never received.
  std::string fault;
};

// `contributions`: [rank][address], all of the partition's size. Of the participants that can
// continue, the lowest number runs first, or the highest: no result may depend on the order.
Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first);

}  // namespace stepcast::collective
