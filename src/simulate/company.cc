#include "src/simulate/company.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

void Companies::Reset(const Schedule& schedule) {
  schedule_ = &schedule;
  companies_.clear();
  members_.clear();
  with_.clear();
  beside_count_ = 0;
  disturbances_.clear();
  places_.clear();
  ends_.clear();
  done_.clear();
  Find({});
}

std::uint32_t Companies::With(std::uint32_t company, std::uint32_t profile) {
  if (const std::uint32_t known = WithOf(company, profile); known != kNone) return known;
  looked_for_.clear();
  for (const Member& member : MembersOf(company)) looked_for_.push_back(member.profile);
  looked_for_.insert(std::upper_bound(looked_for_.begin(), looked_for_.end(), profile), profile);
  const std::uint32_t found = Find(looked_for_);
  WithOf(company, profile) = found;
  return found;
}

std::uint32_t Companies::Without(std::uint32_t company, std::uint32_t profile) {
  const std::size_t place = PlaceOf(company, profile);
  if (const std::uint32_t known = MembersOf(company)[place].without; known != kNone) return known;
  looked_for_.clear();
  for (const Member& member : MembersOf(company)) looked_for_.push_back(member.profile);
  looked_for_.erase(looked_for_.begin() + static_cast<std::ptrdiff_t>(place));
  const std::uint32_t found = Find(looked_for_);
  members_[companies_[company].first + place].without = found;
  return found;
}

std::uint32_t Companies::Find(std::span<const std::uint32_t> profiles) {
  for (std::uint32_t c = 0; c < companies_.size(); ++c) {
    const auto members = MembersOf(c);
    if (std::equal(members.begin(), members.end(), profiles.begin(), profiles.end(),
                   [](const Member& member, std::uint32_t p) { return member.profile == p; })) {
      return c;
    }
  }
  const auto made = static_cast<std::uint32_t>(companies_.size());
  const auto count = static_cast<SharedResources::Activity>(profiles.size());
  companies_.push_back({.first = static_cast<std::uint32_t>(members_.size()), .count = count});
  with_.resize(with_.size() + schedule_->profiles.size(), kNone);
  // The engine itself says what would be.
  probe_.Reset(cost::kResources, count);
  for (SharedResources::Activity i = 0; i < count; ++i) {
    probe_.Start(i, Time(), Seconds(1), schedule_->UsesOf(profiles[i]));
  }
  probe_.Settle(Time());
  for (SharedResources::Activity i = 0; i < count; ++i) {
    members_.push_back({.profile = profiles[i], .rate = probe_.rate_units(i)});
  }
  return made;
}

const Companies::Disturbance& Companies::DisturbanceOf(std::uint32_t company,
                                                       std::uint32_t profile) {
  Disturbance& disturbance =
      disturbances_[companies_[company].beside * schedule_->profiles.size() + profile];
  if (disturbance.rate != 0) return disturbance;
  // Profile 0 uses nothing.
  const std::uint32_t together = profile == 0 ? company : With(company, profile);
  disturbance.rate = profile == 0 ? SharedResources::kFullRate : RateOf(together, profile);
  const auto members = MembersOf(company);
  for (std::size_t i = 0; i < members.size(); ++i) {
    disturbance.others[i] = RateOf(together, members[i].profile);
  }
  return disturbance;
}

Offsets Companies::Beside(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
  Company& own = companies_[company];
  if (own.beside == kNone) {
    own.beside = beside_count_++;
    disturbances_.resize(beside_count_ * schedule_->profiles.size());
    places_.resize(beside_count_ * schedule_->chains.size());
  }
  const Place& place = places_[PlaceOfChain(company, chain)];
  if (place.known < until || place.ends == kNone) AddOffsets(company, chain, until);
  return {ends_.data() + place.ends, done_.data() + place.done};
}

void Companies::AddOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
  const std::size_t others = companies_[company].count;
  STEPCAST_CHECK(others <= kMostBeside, "beside few chains pass in one go");
  Place& place = places_[PlaceOfChain(company, chain)];
  const auto costs = schedule_->CostsOf(schedule_->chains[chain]);
  if (place.ends == kNone) {
    place.ends = static_cast<std::uint32_t>(ends_.size());
    place.done = static_cast<std::uint32_t>(done_.size());
    ends_.resize(ends_.size() + costs.size() + 1);
    done_.resize(done_.size() + (costs.size() + 1) * others);
  }
  std::array<std::uint64_t, kMostBeside> undisturbed{};
  for (std::size_t i = 0; i < others; ++i) undisturbed[i] = MembersOf(company)[i].rate;
  for (; place.known < until; ++place.known) {
    const Cost& cost = schedule_->costs[costs[place.known]];
    const Disturbance& beside = DisturbanceOf(company, cost.profile);
    const Time work =
        beside.rate == SharedResources::kFullRate
            ? cost.work
            : SharedResources::TimeFor(SharedResources::Done(cost.work, SharedResources::kFullRate),
                                       beside.rate);
    Time* const end = ends_.data() + place.ends + place.known;
    end[1] = end[0] + cost.latency + work;
    SharedResources::Work* const done = done_.data() + place.done + place.known * others;
    for (std::size_t i = 0; i < others; ++i) {
      done[others + i] = done[i] + SharedResources::Done(cost.latency, undisturbed[i]) +
                         SharedResources::Done(work, beside.others[i]);
    }
  }
}

}  // namespace stepcast::simulate
