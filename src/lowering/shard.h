#pragma once

#include <cstdint>

namespace stepcast::lowering {

// Elements split evenly over `ranks`: every rank's shard is as long as the longest, the rest is
// padding.
struct Shard {
  std::int64_t elements = 0;  // of the whole
  std::int64_t ranks = 1;

  std::int64_t length() const { return (elements + ranks - 1) / ranks; }
  std::int64_t padded() const { return length() * ranks; }

  // Padding in bytes, of the whole and of one shard; the latter counts from the exact share.
  std::int64_t PaddingOfWhole(std::int64_t bytes) const { return (padded() - elements) * bytes; }
  std::int64_t PaddingOfShard(std::int64_t bytes) const {
    return length() * bytes - elements * bytes / ranks;
  }
};

}  // namespace stepcast::lowering
