#pragma once

#include <cstdint>

namespace stepcast::lowering {

// Elements split evenly over `ranks`: every rank's shard is as long as the longest, the rest is
// padding.
class Shard {
 public:
  Shard() = default;
  Shard(std::int64_t elements, std::int64_t ranks)
      : elements_(elements),
        ranks_(ranks),
        length_((elements + ranks - 1) / ranks),
        padded_(length_ * ranks) {}

  std::int64_t elements() const { return elements_; }  // of the whole
  std::int64_t ranks() const { return ranks_; }
  std::int64_t length() const { return length_; }
  std::int64_t padded() const { return padded_; }

  // Padding in bytes, of the whole and of one shard; the latter counts from the exact share.
  std::int64_t PaddingOfWhole(std::int64_t bytes) const { return (padded_ - elements_) * bytes; }
  std::int64_t PaddingOfShard(std::int64_t bytes) const {
    return length_ * bytes - elements_ * bytes / ranks_;
  }

 private:
  std::int64_t elements_ = 0, ranks_ = 1, length_ = 0, padded_ = 0;
};

}  // namespace stepcast::lowering
