#include "src/model/expert_parallel.h"

namespace stepcast::model {

const char* Name(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kAllToAll ? "all_to_all" : "all_gather";
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

}  // namespace stepcast::model
