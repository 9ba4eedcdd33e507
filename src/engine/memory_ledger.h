#pragma once

#include <span>
#include <vector>

#include "src/base/bytes.h"

namespace stepcast::engine {

// How much memory is in use, by category, now and at the worst moment. Categories are numbers below
// the count given to the constructor; what they mean is the owner's business.
//
// The peak is the first moment at which the total was highest; at_peak() is what was in use then,
// category by category, so the parts add up to peak(). An order of calls is all there is: there is
// no time here.
class MemoryLedger {
 public:
  explicit MemoryLedger(int categories)
      : in_use_(static_cast<std::size_t>(categories)),
        at_peak_(static_cast<std::size_t>(categories)) {}

  void Allocate(int category, Bytes size);
  // Requires that the category holds at least `size`.
  void Release(int category, Bytes size);

  Bytes total() const { return total_; }
  Bytes in_use(int category) const { return in_use_[static_cast<std::size_t>(category)]; }
  Bytes peak() const { return peak_; }
  std::span<const Bytes> at_peak() const { return at_peak_; }

 private:
  Bytes total_;
  Bytes peak_;
  std::vector<Bytes> in_use_;
  std::vector<Bytes> at_peak_;
};

}  // namespace stepcast::engine
