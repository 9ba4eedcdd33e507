#include "src/model/expert_parallel.h"

#include <algorithm>

namespace stepcast::model {

const char* Name(Dispatcher dispatcher) {
  switch (dispatcher) {
    case Dispatcher::kAllToAll:
      return "all_to_all";
    case Dispatcher::kAllGather:
      return "all_gather";
    case Dispatcher::kDeepEp:
      return "deepep";
    case Dispatcher::kHybridEp:
      return "hybridep";
  }
  return "";
}

const char* Name(ExpertProducts products) {
  switch (products) {
    case ExpertProducts::kGrouped:
      return "grouped";
    case ExpertProducts::kStreams:
      return "streams";
    case ExpertProducts::kLooped:
      return "looped";
  }
  return "";
}

const char* Name(ExpertImplementation implementation) {
  switch (implementation) {
    case ExpertImplementation::kMegatron:
      return "megatron";
    case ExpertImplementation::kTorchtitan:
      return "torchtitan";
    case ExpertImplementation::kTransformers:
      return "transformers";
    case ExpertImplementation::kDeepSpeed:
      return "deepspeed";
    case ExpertImplementation::kAutoEp:
      return "autoep";
  }
  return "";
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
