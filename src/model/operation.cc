#include "src/model/operation.h"

namespace stepcast::model {

std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations) {
  std::vector<ValueId> open;
  for (const Operation& operation : operations) {
    for (const ValueId value : operation.begins) {
      if (value.lifetime == Lifetime::kCommunicated) open.push_back(value);
    }
    for (const ValueId value : operation.ends) std::erase(open, value);
  }
  std::vector<ValueUse> left;
  for (const ValueId value : open) {
    ValueUse use{.value = value};
    for (const Operation& operation : operations) {
      if (operation.group && operation.group->target.value == value) use = operation.group->target;
    }
    left.push_back(use);
  }
  return left;
}

bool ExchangesRows(const Operation& operation) {
  return operation.group && operation.group->collective == CollectiveKind::kAllToAll &&
         Meet(operation.group->axes, parallel::kExpertAxes);
}

std::vector<std::size_t> TurnEnds(const std::vector<Operation>& operations) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!ExchangesRows(operations[i])) continue;
    while (i + 1 < operations.size() &&
           (ExchangesRows(operations[i + 1]) || operations[i + 1].delayed)) {
      ++i;
    }
    ends.push_back(i + 1);
  }
  if (ends.empty() || ends.back() < operations.size()) ends.push_back(operations.size());
  return ends;
}

}  // namespace stepcast::model
