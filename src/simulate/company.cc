#include "src/simulate/company.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

void Companies::Reset(const Schedule& schedule) {
  schedule_ = &schedule;
  ++round_;
  count_ = 0;
  with_.clear();
  disturbances_.clear();
  places_.clear();
  ends_.clear();
  done_.clear();
  if (companies_.empty() || uses_.size() > kMostKinds || companies_.size() > kMostCompanies) {
    Forget();
  }
  // Mostly they are those of the schedule before.
  const std::size_t count = schedule.profiles.size();
  kinds_.resize(count, kNone);
  for (std::uint32_t profile = 0; profile < count; ++profile) {
    const auto uses = schedule.UsesOf(profile);
    const Kind before = kinds_[profile];
    const bool same =
        before < uses_.size() && std::equal(uses.begin(), uses.end(), uses_[before].begin(),
                                            uses_[before].end(), [](const auto& a, const auto& b) {
                                              return a.resource == b.resource && a.share == b.share;
                                            });
    if (!same) kinds_[profile] = KindOf(uses);
  }
}

void Companies::Forget() {
  kind_of_.clear();
  uses_.clear();
  company_of_.clear();
  found_with_.clear();
  companies_.clear();
  members_.clear();
  looked_for_.clear();
  Find();
}

Companies::Kind Companies::KindOf(std::span<const SharedResources::Use> uses) {
  key_.clear();
  for (const SharedResources::Use& use : uses) {
    key_.push_back(std::uint64_t{use.resource} << 32 | use.share);
  }
  const auto [found, added] = kind_of_.try_emplace(key_, static_cast<Kind>(uses_.size()));
  if (added) uses_.emplace_back(uses.begin(), uses.end());
  return found->second;
}

void Companies::ComesUp(Company& company) {
  company.round = round_;
  company.number = count_++;
  company.places = kNone;
  with_.resize(count_ * kinds_.size(), kNone);
}

std::uint32_t Companies::FindWith(std::uint32_t company, std::uint32_t profile) {
  const Kind kind = kinds_[profile];
  const auto [found, added] = found_with_.try_emplace(std::uint64_t{company} << 32 | kind, kNone);
  if (added) {
    looked_for_.clear();
    for (const Member& member : MembersOf(company)) looked_for_.push_back(member.kind);
    looked_for_.insert(std::upper_bound(looked_for_.begin(), looked_for_.end(), kind), kind);
    found->second = Find();
  }
  with_[companies_[company].number * kinds_.size() + profile] = found->second;
  return found->second;
}

std::uint32_t Companies::Without(std::uint32_t company, std::uint32_t profile) {
  const std::size_t place = PlaceOf(company, profile);
  const std::size_t member = companies_[company].first + place;
  if (members_[member].without != kNone) return members_[member].without;
  looked_for_.clear();
  for (const Member& other : MembersOf(company)) looked_for_.push_back(other.kind);
  looked_for_.erase(looked_for_.begin() + static_cast<std::ptrdiff_t>(place));
  const std::uint32_t found = Find();
  members_[member].without = found;
  return found;
}

// The company of those that are looked for.
std::uint32_t Companies::Find() {
  const auto [found, added] =
      company_of_.try_emplace(looked_for_, static_cast<std::uint32_t>(companies_.size()));
  if (!added) return found->second;
  const auto count = static_cast<SharedResources::Activity>(looked_for_.size());
  companies_.push_back({.first = static_cast<std::uint32_t>(members_.size()), .count = count});
  // The engine itself says what would be.
  probe_.Reset(cost::kResources, count);
  for (SharedResources::Activity i = 0; i < count; ++i) {
    probe_.Start(i, Time(), Seconds(1), uses_[looked_for_[i]]);
  }
  probe_.Settle(Time());
  for (SharedResources::Activity i = 0; i < count; ++i) {
    members_.push_back({.kind = looked_for_[i], .rate = probe_.rate_units(i)});
  }
  return found->second;
}

const Companies::Disturbance& Companies::DisturbanceOf(std::uint32_t company,
                                                       std::uint32_t profile) {
  const std::size_t at = companies_[company].disturbances + profile;
  if (disturbances_[at].rate != 0) return disturbances_[at];
  const Kind kind = kinds_[profile];
  const bool alone = uses_[kind].empty();
  const std::uint32_t together = alone ? company : With(company, profile);
  const Member* const members = members_.data() + companies_[together].first;
  Disturbance& disturbance = disturbances_[at];
  disturbance.rate = alone ? SharedResources::kFullRate : members[PlaceOfKind(together, kind)].rate;
  const auto others = MembersOf(company);
  for (std::size_t i = 0; i < others.size(); ++i) {
    disturbance.others[i] = members[PlaceOfKind(together, others[i].kind)].rate;
  }
  return disturbance;
}

Offsets Companies::Beside(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
  Company& own = Known(company);
  if (own.places == kNone) {
    own.places = static_cast<std::uint32_t>(places_.size());
    places_.resize(places_.size() + schedule_->chains.size());
    own.disturbances = static_cast<std::uint32_t>(disturbances_.size());
    disturbances_.resize(disturbances_.size() + kinds_.size());
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
