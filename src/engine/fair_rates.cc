#include "src/engine/fair_rates.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::engine {
namespace {

using Use = SharedResources::Use;

constexpr std::uint64_t kFullRate = SharedResources::kFullRate;
// share x rate: the whole of a resource.
constexpr std::uint64_t kCapacity = std::uint64_t{SharedResources::kWhole} * kFullRate;

struct Resource {
  std::uint32_t number = 0;
  std::uint64_t left = kCapacity;
  std::uint64_t not_fixed = 0;  // shares of the activities whose rate is not fixed yet
  std::uint64_t level = 0;      // the rate at which those use it up
  bool lowest = false;
};

}  // namespace

// Only what both use can be used up. They are stopped by the same resource, the one that both
// together use most of.
std::uint64_t FairRateOfTwo(std::span<const Use> one, std::span<const Use> other) {
  std::array<std::uint32_t, kMostSharedByFew> shares{};
  for (const Use& use : one) {
    STEPCAST_CHECK(use.resource < kMostSharedByFew, "a few activities share few resources");
    shares[use.resource] = use.share;
  }
  std::uint64_t most = SharedResources::kWhole;
  for (const Use& use : other) {
    STEPCAST_CHECK(use.resource < kMostSharedByFew, "a few activities share few resources");
    most = std::max(most, std::uint64_t{shares[use.resource]} + use.share);
  }
  return most == SharedResources::kWhole ? kFullRate : kCapacity / most;
}

void FindFairRates(std::span<const std::span<const Use>> uses, std::span<std::uint64_t> rates) {
  if (uses.size() == 2) {
    rates[0] = rates[1] = FairRateOfTwo(uses[0], uses[1]);
    return;
  }
  std::array<std::uint64_t, kMostSharedByFew> totals{};
  for (const auto& own : uses) {
    for (const Use& use : own) {
      STEPCAST_CHECK(use.resource < kMostSharedByFew, "a few activities share few resources");
      totals[use.resource] += use.share;
    }
  }
  // The over-subscribed ones; the others stop nobody.
  std::array<Resource, kMostSharedByFew> resources;
  std::array<Resource*, kMostSharedByFew> by_number{};
  std::size_t count = 0;
  for (std::uint32_t r = 0; r < kMostSharedByFew; ++r) {
    if (totals[r] <= SharedResources::kWhole) continue;
    Resource& resource = resources[count++];
    resource.number = r;
    resource.not_fixed = totals[r];
    by_number[r] = &resource;
  }
  // Progressive filling; 0 is the rate of one that is not fixed yet.
  std::fill(rates.begin(), rates.end(), 0);
  while (true) {
    std::uint64_t level = kFullRate;
    for (std::size_t i = 0; i < count; ++i) {
      Resource& resource = resources[i];
      resource.level = resource.not_fixed <= resource.left >> SharedResources::kRateBits
                           ? kFullRate
                           : resource.left / resource.not_fixed;
      level = std::min(level, resource.level);
    }
    if (level == kFullRate) break;
    // All that are used up at this level, so that what is alike is treated alike to the last bit.
    for (std::size_t i = 0; i < count; ++i) {
      resources[i].lowest = resources[i].level == level;
    }
    for (std::size_t a = 0; a < uses.size(); ++a) {
      if (rates[a] != 0) continue;
      const bool stopped = std::any_of(uses[a].begin(), uses[a].end(), [&](const Use& use) {
        const Resource* const resource = by_number[use.resource];
        return use.share > 0 && resource != nullptr && resource->lowest;
      });
      if (!stopped) continue;
      rates[a] = level;
      for (const Use& use : uses[a]) {
        Resource* const resource = by_number[use.resource];
        if (resource == nullptr) continue;
        resource->left -= use.share * level;
        resource->not_fixed -= use.share;
      }
    }
  }
  std::replace(rates.begin(), rates.end(), std::uint64_t{0}, kFullRate);
}

}  // namespace stepcast::engine
