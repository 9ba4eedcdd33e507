#pragma once

#include <cstddef>
#include <span>

#include "src/program/data_flow.h"

// Groups an operation's effects into launches: one kernel executes several pieces at once
// (effects.h).
namespace stepcast::runtime::cuda {

// The number of leading effects that can be one launch. They have one kind and the same types, and
// none reads or writes what another writes. Exception: sums of squares may write the same number,
// since they are added in order. Parts of a collective (kCollective) are never grouped. At least 1
// if there is an effect. Requires buffers that do not overlap.
std::size_t FirstBatch(std::span<const program::Effect> effects, bool adamw);

}  // namespace stepcast::runtime::cuda
