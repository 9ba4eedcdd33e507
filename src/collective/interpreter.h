#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/collective/step_list.h"

// Carries out a step list on numbers, one for each byte, to see that it does what its collective
// promises. For tests: it keeps all data of all ranks.
namespace stepcast::collective {

struct Interpretation {
  // [rank][address]: what the steps marked as final left there, 0 where nothing is final.
  std::vector<std::vector<std::int64_t>> results;
  // [rank][address]: how often a step was marked as final there.
  std::vector<std::vector<int>> copies;
  std::vector<std::int64_t> sent;      // [participant]: bytes
  std::vector<std::int64_t> received;  // [participant]: bytes
  // Empty, or what went wrong: workers that wait for ever, messages of another size than expected,
  // messages that were not received.
  std::string fault;
};

// `contributions`: [rank][address], all of the partition's size. A participant that can go on does
// so, the lowest number first or last: no result may depend on it.
Interpretation Interpret(const StepList& list,
                         const std::vector<std::vector<std::int64_t>>& contributions,
                         bool lowest_first);

}  // namespace stepcast::collective
