#pragma once

#include <cstddef>
#include <span>

#include "src/program/data_flow.h"

// Groups an operation's effects into launches: one kernel executes several pieces at once
// (effects.h).
namespace stepcast::runtime::cuda {

// The number of leading effects that fit into one launch. They have one kind and the same types,
// and none reads or writes what another one writes. Exception: sums of squares may write the same
// number, because they are added in order. Parts of a collective (kCollective) are never grouped.
// Returns at least 1 if there is an effect. Requires buffers that do not overlap.
std::size_t FirstBatch(std::span<const program::Effect> effects, bool adamw);

}  // namespace stepcast::runtime::cuda
