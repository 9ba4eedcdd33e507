#include "src/model/operation.h"

namespace stepcast::model {

std::vector<ValueUse> LeftToTheNextKernel(const std::vector<Operation>& operations) {
  std::vector<int> open;
  for (const Operation& operation : operations) {
    open.insert(open.end(), operation.begins.begin(), operation.begins.end());
    for (const int value : operation.ends) std::erase(open, value);
  }
  std::vector<ValueUse> left;
  for (const int value : open) {
    ValueUse use{.table = ValueUse::Table::kCommunicated, .index = value};
    for (const Operation& operation : operations) {
      if (!operation.group) continue;
      const ValueUse& target = operation.group->target;
      if (target.table == use.table && target.index == value) use = target;
    }
    left.push_back(use);
  }
  return left;
}

}  // namespace stepcast::model
