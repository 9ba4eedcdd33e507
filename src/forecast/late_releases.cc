#include "src/forecast/late_releases.h"

#include <algorithm>
#include <limits>

#include "src/base/check.h"

namespace stepcast::forecast {

void LateReleases::Build(std::span<const KindChange> changes,
                         std::span<const program::Index> instructions,
                         const DelayedReleases& delayed, const simulate::Schedule& schedule) {
  schedule_ = schedule.id;
  moments_.clear();
  delays_.clear();
  uses_.clear();
  first_.clear();
  parts_.clear();
  shapes_.clear();
  known_.clear();
  sizes_.clear();
  counted_changes_.reset();
  effects_.clear();
  effects_.reserve(changes.size());
  for (const KindChange& change : changes) {
    effects_.push_back(2 * change.kind + (change.release ? 1 : 0));
  }
  std::uint32_t i = 0;      // change
  std::uint32_t begin = 0;  // of the part at hand
  const auto end_part = [&] {
    if (begin < i) AddPart(begin, i);
    begin = i;
  };
  for (std::size_t s = schedule.prologue_segments; s < schedule.segments.size(); ++s) {
    const simulate::Segment& segment = schedule.segments[s];
    bool first = true;
    for (std::uint32_t h = 0; h < segment.item_count; ++h) {
      const simulate::HostItem& item = schedule.host_items[segment.first_item + h];
      if (item.is_task) continue;
      STEPCAST_CHECK(i < changes.size() && item.instruction == instructions[i],
                     "the schedule is the program's");
      if (first || moments_.back().later != item.begin) {
        end_part();
        moments_.push_back({.segment = static_cast<std::uint32_t>(s - schedule.prologue_segments),
                            .later = item.begin,
                            .part = static_cast<std::uint32_t>(parts_.size())});
        first = false;
      }
      const auto uses = delayed.Of(item.instruction);
      ++i;
      if (uses.empty()) continue;
      end_part();
      delays_.push_back({.moment = static_cast<std::uint32_t>(moments_.size() - 1),
                         .part = static_cast<std::uint32_t>(parts_.size()),
                         .kind = changes[i - 1].kind,
                         .first = static_cast<std::uint32_t>(uses_.size()),
                         .last = static_cast<std::uint32_t>(uses_.size() + uses.size())});
      uses_.insert(uses_.end(), uses.begin(), uses.end());
    }
  }
  STEPCAST_CHECK(i == changes.size(), "the schedule is the program's");
  end_part();
}

void LateReleases::AddPart(std::uint32_t first, std::uint32_t last) {
  std::uint64_t hash = last - first;
  for (std::uint32_t i = first; i < last; ++i) {
    hash = (hash ^ effects_[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  first_.push_back(first);
  const auto [known, is_new] = known_.try_emplace(hash, static_cast<std::uint32_t>(shapes_.size()));
  if (!is_new) {
    const Shape& shape = shapes_[known->second];
    if (std::equal(effects_.begin() + first, effects_.begin() + last,
                   effects_.begin() + shape.first, effects_.begin() + shape.last)) {
      parts_.push_back(known->second);
      return;
    }
  }
  parts_.push_back(static_cast<std::uint32_t>(shapes_.size()));
  shapes_.push_back({.first = first, .last = last});
}

void LateReleases::Measure(std::span<const std::int64_t> sizes) {
  if (std::equal(sizes.begin(), sizes.end(), sizes_.begin(), sizes_.end())) return;
  sizes_.assign(sizes.begin(), sizes.end());
  effect_.clear();
  for (const std::int64_t size : sizes) {
    effect_.push_back(size);
    effect_.push_back(-size);
  }
  for (Shape& shape : shapes_) {
    std::int64_t rise = 0, most = std::numeric_limits<std::int64_t>::min();
    for (std::uint32_t i = shape.first; i < shape.last; ++i) {
      rise += effect_[effects_[i]];
      most = std::max(most, rise);
    }
    shape.rise = rise;
    shape.most = most;
  }
}

// Which releases of the step are late, and until when. `next`: the first allocation of the next
// step. False: one is so late that this one finds its buffer still held.
bool LateReleases::FindLate(const MemoryTimes& times, std::uint32_t step, Time next,
                            std::span<const std::int64_t> sizes) {
  const Time* const segments = times.segments.data() + step * times.step_segments();
  const Time* const ends = times.ends.data() + step * times.delayed->count();
  const auto count = static_cast<std::uint32_t>(moments_.size());
  times_.resize(count);
  for (std::uint32_t m = 0; m < count; ++m) {
    times_[m] = segments[moments_[m].segment] + moments_[m].later;
  }
  late_.assign(parts_.size() + 1, 0);
  until_.resize(delays_.size());
  // Operations mostly end in the order of the releases that wait for them.
  std::uint32_t noticed = 0;  // the moment
  for (std::size_t d = 0; d < delays_.size(); ++d) {
    const Delay& delay = delays_[d];
    Time until = ends[uses_[delay.first]];
    for (std::uint32_t use = delay.first + 1; use < delay.last; ++use) {
      until = std::max(until, ends[uses_[use]]);
    }
    if (until <= times_[delay.moment]) {
      until_[d] = delay.part;
      continue;
    }
    noticed = std::max(noticed, delay.moment + 1);
    while (times_[noticed - 1] >= until) --noticed;
    while (noticed < count && times_[noticed] < until) ++noticed;
    if (noticed == count && until > next) return false;
    until_[d] =
        noticed < count ? moments_[noticed].part : static_cast<std::uint32_t>(parts_.size());
    const std::int64_t size = sizes[delay.kind];
    late_[delay.part] += size;
    late_[until_[d]] -= size;
  }
  return true;
}

// How many buffers of each kind are handed out after so many changes.
void LateReleases::Count(std::uint32_t changes) {
  if (counted_changes_ == changes) return;
  counted_changes_ = changes;
  counted_.assign(sizes_.size(), 0);
  for (std::uint32_t i = 0; i < changes; ++i) {
    counted_[effects_[i] / 2] += effects_[i] % 2 == 0 ? 1 : -1;
  }
}

std::optional<LateReleases::Peak> LateReleases::MostHeld(const MemoryTimes& times,
                                                         std::span<const std::int64_t> sizes,
                                                         std::int64_t held) {
  STEPCAST_CHECK(times.schedule->id == schedule_, "it was built for this schedule");
  STEPCAST_CHECK(times.steps > 0 && times.segments.size() >= times.steps * times.step_segments() &&
                     times.ends.size() >= times.steps * times.delayed->count(),
                 "the times of all steps that were run are known");
  Measure(sizes);
  counts_.assign(sizes.size(), 0);
  Peak peak{.total = held, .counts = counts_};
  if (moments_.empty()) return peak;
  // The first change of a step, which is an allocation.
  const auto begin_of = [&](std::uint32_t step) {
    const auto time = [&](std::uint32_t of) {
      return times.segments[of * times.step_segments() + moments_.front().segment] +
             moments_.front().later;
    };
    if (step == times.step_ends.size()) return Time::Max();
    if (step < times.steps) return time(step);
    return time(step - 1) + (times.step_ends[step] - times.step_ends[step - 1]);
  };
  std::optional<std::uint32_t> changes;  // of the step until the peak
  for (std::uint32_t step = 0; step < times.steps; ++step) {
    if (!FindLate(times, step, begin_of(step + 1), sizes)) return std::nullopt;
    std::int64_t now = held;
    std::size_t best = parts_.size();
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Shape& shape = shapes_[parts_[p]];
      now += late_[p];
      if (now + shape.most > peak.total) {
        peak.total = now + shape.most;
        best = p;
      }
      now += shape.rise;
    }
    if (best == parts_.size()) continue;
    const Shape& shape = shapes_[parts_[best]];
    std::uint32_t i = first_[best];
    std::int64_t rise = 0;
    do {
      rise += effect_[effects_[i++]];
    } while (rise != shape.most);
    changes = i;
    late_counts_.assign(sizes.size(), 0);
    for (std::size_t d = 0; d < delays_.size(); ++d) {
      if (delays_[d].part <= best && best < until_[d]) ++late_counts_[delays_[d].kind];
    }
  }
  if (!changes) return peak;
  Count(*changes);
  for (std::size_t k = 0; k < counts_.size(); ++k) counts_[k] = counted_[k] + late_counts_[k];
  return peak;
}

}  // namespace stepcast::forecast
