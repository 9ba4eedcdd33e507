#include "src/model/expert_parallel.h"

#include <algorithm>
#include <cstddef>

namespace stepcast::model {

const char* Name(Dispatcher dispatcher) {
  constexpr const char* kNames[] = {"all_to_all", "all_gather", "deepep", "hybridep"};
  return kNames[static_cast<std::size_t>(dispatcher)];
}

const char* Name(ExpertProducts products) {
  constexpr const char* kNames[] = {"grouped", "streams", "looped"};
  return kNames[static_cast<std::size_t>(products)];
}

const char* Name(ExpertImplementation implementation) {
  constexpr const char* kNames[] = {"megatron", "torchtitan", "transformers", "deepspeed",
                                    "autoep"};
  return kNames[static_cast<std::size_t>(implementation)];
}

double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit) {
  const std::int64_t open = limit > 0 && limit < groups ? limit : groups;
  const std::int64_t each = experts / groups;
  // The probability that a group has no chosen expert: all are chosen among the other groups.
  double none = 1;
  for (std::int64_t i = 0; i < chosen; ++i) {
    const std::int64_t left = open * each - i;
    if (left <= 0) break;
    none *= std::max(0.0, static_cast<double>(left - each) / static_cast<double>(left));
  }
  return static_cast<double>(open) * (1 - none);
}

}  // namespace stepcast::model
