#pragma once

#include <cstdint>

namespace stepcast::lowering {

// Elements split evenly over `ranks`: every rank's shard is as long as the longest, the rest is
// padding. Number: std::int64_t, or Amount (formulas.h).
template <typename Number>
class BasicShard {
 public:
  BasicShard() = default;
  BasicShard(const Number& elements, const Number& ranks)
      : elements_(elements),
        ranks_(ranks),
        length_((elements + ranks - 1) / ranks),
        padded_(length_ * ranks) {}

  const Number& elements() const { return elements_; }  // of the whole
  const Number& ranks() const { return ranks_; }
  const Number& length() const { return length_; }
  const Number& padded() const { return padded_; }

  // Padding in bytes, of the whole and of one shard; the latter counts from the exact share.
  Number PaddingOfWhole(std::int64_t bytes) const { return (padded_ - elements_) * bytes; }
  Number PaddingOfShard(std::int64_t bytes) const {
    return length_ * bytes - elements_ * bytes / ranks_;
  }

 private:
  Number elements_ = 0, ranks_ = 1, length_ = 0, padded_ = 0;
};

using Shard = BasicShard<std::int64_t>;

}  // namespace stepcast::lowering
