#pragma once

#include <cstddef>
#include <span>

#include "src/program/data_flow.h"

// Which of an operation's effects a GPU can do at once: a kernel of several pieces (effects.h).
namespace stepcast::runtime::cuda {

// How many of the first effects are of one kind, with the same types, and such that none reads or
// writes what another one writes; sums of squares into one number are added up in order, so that
// they may write the same. At least 1 where there is one. Parts of a collective (kCollective) are
// one by one, as their communicator takes them. Requires buffers that do not overlap.
std::size_t FirstBatch(std::span<const program::Effect> effects, bool adamw);

}  // namespace stepcast::runtime::cuda
