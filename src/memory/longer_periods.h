#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/program/longer_step.h"

namespace stepcast::memory {

// A replay steps with this class through the periods that a longer step has and its program does
// not (program/longer_step.h). When a period leaves the allocator in the state in which an earlier
// one left it, the periods between the two repeat from there on and add nothing to a peak: whole
// repetitions of them are skipped. Such a cycle often has several periods, because blocks of equal
// size change places and have their old ones again after as many micro-batches as are alive at
// once.
class LongerPeriods {
 public:
  explicit LongerPeriods(const program::LongerStep& longer)
      : left_(longer.more), micro_batches_(longer.micro_batches) {}

  // Goes on to the next period. It returns false when none is left.
  bool Next() {
    if (left_ == 0) return false;
    --left_;
    ++number_;
    return true;
  }

  // The present period comes `number` periods, or `later` micro-batches, after the program's last
  // one.
  std::int64_t number() const { return number_; }
  std::int64_t later() const { return number_ * micro_batches_; }

  // Look is to be called after the present period. Periods beyond the first 64 are not compared:
  // looking at a state takes about as long as replaying a period.
  bool looks() const { return left_ > 0 && number_ <= kLooks && !repeats_; }
  // `left_behind` is everything that decides what further periods do. Times and micro-batches in it
  // are counted from the end of the present period, so that states of two periods can be equal.
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
  std::vector<std::vector<std::int64_t>> seen_;  // the state after each period so far
};

}  // namespace stepcast::memory
