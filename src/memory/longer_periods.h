#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/program/longer_step.h"

namespace stepcast::memory {

// Counts through the periods that a longer step has more than its program (program/longer_step.h).
// What repeats is left out: where a period leaves everything as an earlier one left it, so do those
// that follow, one after the other, and figures stay as they are. Blocks of one size often change
// places, and have their old ones again after as many micro-batches as are alive at once.
class LongerPeriods {
 public:
  explicit LongerPeriods(const program::LongerStep& longer)
      : left_(longer.more), micro_batches_(longer.micro_batches) {}

  // To the next one. False: there is none.
  bool Next() {
    if (left_ == 0) return false;
    --left_;
    ++number_;
    return true;
  }

  // The one at hand: so many periods, and micro-batches, behind the program's own.
  std::int64_t number() const { return number_; }
  std::int64_t later() const { return number_ * micro_batches_; }

  // Whether to tell what it leaves.
  bool looks() const { return left_ > 0 && number_ <= kLooks && !repeats_; }
  // All that decides what further periods come to, with times and micro-batches as seen from the
  // end of the period at hand.
  void Look(std::vector<std::int64_t> left_behind) {
    const auto as_before = std::find(seen_.begin(), seen_.end(), left_behind);
    repeats_ = as_before != seen_.end();
    if (repeats_) left_ %= seen_.end() - as_before;
    seen_.push_back(std::move(left_behind));
  }

 private:
  static constexpr std::int64_t kLooks = 64;

  std::int64_t left_, micro_batches_, number_ = 0;
  bool repeats_ = false;
  std::vector<std::vector<std::int64_t>> seen_;  // behind each period so far
};

}  // namespace stepcast::memory
