#include "src/simulate/company.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

void Companies::Reset(const Schedule& schedule) {
  schedule_ = &schedule;
  const bool known = id_ == schedule.id && own_ == schedule.own_profiles &&
                     ends_.size() <= kMostEnds && !companies_.empty();
  if (known && rounds_ == schedule.profile_rounds) return;
  id_ = schedule.id;
  rounds_ = schedule.profile_rounds;
  profiles_ = schedule.profiles.size();
  own_ = schedule.own_profiles;
  with_.assign(profiles_, kNone);
  members_.clear();
  if (known) {
    // Beside nobody all is as it was.
    companies_.resize(1);
    disturbances_.resize(own_);
    places_.resize(schedule.chains.size());
    return;
  }
  disturbances_.assign(own_, {});
  places_.assign(schedule.chains.size(), {});
  ends_.clear();
  done_.clear();
  companies_.assign(1, {.places = 0, .disturbances = 0});
}

// Each company is made in one way: member by member, profiles descending, so that what comes beside
// a collective makes one more of its company.
std::uint32_t Companies::FindWith(std::uint32_t company, std::uint32_t profile) {
  const Company own = companies_[company];
  const std::uint32_t last = own.first + own.count - 1;
  std::uint32_t found = kNone;
  if (own.count == 0 || members_[last].profile >= profile) {
    found = Add(company, profile);
  } else {
    const std::uint32_t last_profile = members_[last].profile;
    found = With(With(members_[last].without, profile), last_profile);
  }
  with_[company * profiles_ + profile] = found;
  return found;
}

std::uint32_t Companies::FindWithout(std::uint32_t company, std::uint32_t member) {
  const Company own = companies_[company];
  const Member last = members_[own.first + own.count - 1];
  const std::uint32_t found = With(Without(last.without, members_[member].profile), last.profile);
  members_[member].without = found;
  return found;
}

// A new company: the other one, and after all of these one more.
std::uint32_t Companies::Add(std::uint32_t company, std::uint32_t profile) {
  const Company other = companies_[company];
  const auto first = static_cast<std::uint32_t>(members_.size());
  const std::uint32_t count = other.count + 1;
  for (std::uint32_t i = 0; i < other.count; ++i) {
    const Member member = members_[other.first + i];
    members_.push_back({.profile = member.profile});
  }
  members_.push_back({.profile = profile, .without = company});
  // The engine itself says what would be.
  probe_.Reset(cost::kResources, count);
  for (SharedResources::Activity i = 0; i < count; ++i) {
    probe_.Start(i, Time(), Seconds(1), schedule_->UsesOf(members_[first + i].profile));
  }
  probe_.Settle(Time());
  for (SharedResources::Activity i = 0; i < count; ++i) {
    members_[first + i].rate = probe_.rate_units(i);
  }
  companies_.push_back({.first = first, .count = count});
  with_.resize(companies_.size() * profiles_, kNone);
  return static_cast<std::uint32_t>(companies_.size() - 1);
}

const Companies::Disturbance& Companies::DisturbanceOf(std::uint32_t company,
                                                       std::uint32_t profile) {
  const std::size_t at = companies_[company].disturbances + profile;
  if (disturbances_[at].rate != 0) return disturbances_[at];
  const bool alone = schedule_->UsesOf(profile).empty();
  const std::uint32_t together = alone ? company : With(company, profile);
  const Member* const members = members_.data() + companies_[together].first;
  Disturbance& disturbance = disturbances_[at];
  disturbance.rate = alone ? SharedResources::kFullRate : members[PlaceOf(together, profile)].rate;
  const auto others = MembersOf(company);
  for (std::size_t i = 0; i < others.size(); ++i) {
    disturbance.others[i] = members[PlaceOf(together, others[i].profile)].rate;
  }
  return disturbance;
}

void Companies::MakePlaces(std::uint32_t company) {
  Company& own = companies_[company];
  own.places = static_cast<std::uint32_t>(places_.size());
  places_.resize(places_.size() + schedule_->chains.size());
  own.disturbances = static_cast<std::uint32_t>(disturbances_.size());
  disturbances_.resize(disturbances_.size() + own_);
}

const Companies::Disturbance& Companies::Beside(std::uint32_t company, std::uint32_t profile) {
  if (companies_[company].places == kNone) MakePlaces(company);
  return DisturbanceOf(company, profile);
}

Offsets Companies::Beside(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
  if (companies_[company].places == kNone) MakePlaces(company);
  Place& place = places_[PlaceOfChain(company, chain)];
  if (place.round != schedule_->chain_rounds[chain]) {
    place.round = schedule_->chain_rounds[chain];
    place.known = 0;
  }
  if (place.known < until || place.ends == kNone) AddOffsets(company, chain, until);
  return {ends_.data() + place.ends, done_.data() + place.done, place.known};
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
