#include "src/cost/prices.h"

namespace stepcast::cost {

const CollectivePrice& SlowestPrice(std::span<const PricedKind> kinds, program::Index collective) {
  const PricedKind& first = kinds.front();
  const CollectivePrice* slowest = &first.prices->collectives[collective];
  for (const PricedKind& kind : kinds.subspan(1)) {
    if (kind.program->collectives != first.program->collectives) continue;
    const CollectivePrice& price = kind.prices->collectives[collective];
    if (price.demand.alone() > slowest->demand.alone()) slowest = &price;
  }
  return *slowest;
}

}  // namespace stepcast::cost
