#pragma once

#include <cstdint>

namespace stepcast::lowering {

// Elements split evenly over `ranks`: every rank's shard is as long as the longest, the rest is
// padding. Number: std::int64_t, or Amount (formulas.h).
template <typename Number>
struct BasicShard {
  Number elements = 0;  // of the whole
  Number ranks = 1;

  Number length() const { return (elements + ranks - 1) / ranks; }
  Number padded() const { return length() * ranks; }

  // Padding in bytes, of the whole and of one shard; the latter counts from the exact share.
  Number PaddingOfWhole(std::int64_t bytes) const { return (padded() - elements) * bytes; }
  Number PaddingOfShard(std::int64_t bytes) const {
    return length() * bytes - elements * bytes / ranks;
  }
};

using Shard = BasicShard<std::int64_t>;

}  // namespace stepcast::lowering
