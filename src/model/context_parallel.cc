#include "src/model/context_parallel.h"

namespace stepcast::model {

const char* Name(ContextMethod method) {
  switch (method) {
    case ContextMethod::kRing:
      return "ring";
    case ContextMethod::kAllGather:
      return "all_gather";
    case ContextMethod::kAllToAll:
      return "all_to_all";
    case ContextMethod::kHierarchical:
      return "hierarchical";
  }
  return "";
}

}  // namespace stepcast::model
