#pragma once

#include <cstdint>
#include <span>

#include "src/engine/shared_resources.h"

// The rates at which a few activities run side by side, for owners who ask about so many different
// few that keeping track of who comes and goes costs more than the answer. They are those of
// SharedResources (shared_resources.h), to the bit.
namespace stepcast::engine {

// Resources are numbered below this.
inline constexpr std::uint32_t kMostSharedByFew = 8;

// Of two: neither can be stopped without the other, so both run at this rate; in units of 2^-38.
std::uint64_t FairRateOfTwo(std::span<const SharedResources::Use> one,
                            std::span<const SharedResources::Use> other);

// By activity, in units of 2^-38. `rates` has as many entries as `uses`.
void FindFairRates(std::span<const std::span<const SharedResources::Use>> uses,
                   std::span<std::uint64_t> rates);

}  // namespace stepcast::engine
