#pragma once

#include <span>

#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::cost {

// What ranks of a kind run, on the devices and nodes that they have.
struct PricedKind {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  friend bool operator==(const PricedKind&, const PricedKind&) = default;
};

// The price of a collective, by its number in the first kind's program, in a group with ranks of
// all of these kinds: of their prices the one that takes longest, for they finish together
// (scenario/node_kinds.h). A kind with other collectives counts for nothing.
const CollectivePrice& SlowestPrice(std::span<const PricedKind> kinds, program::Index collective);

}  // namespace stepcast::cost
