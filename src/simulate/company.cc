#include "src/simulate/company.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

namespace {

// Room for so many more; what it holds from before does not matter.
template <typename T>
std::uint32_t Extend(std::vector<T>& entries, std::size_t& used, std::size_t more) {
  const std::size_t first = used;
  used += more;
  if (used > entries.size()) entries.resize(2 * used);
  return static_cast<std::uint32_t>(first);
}

}  // namespace

void Companies::Reset(const Schedule& schedule) {
  schedule_ = &schedule;
  const bool known = id_ == schedule.id && own_ == schedule.own_profiles &&
                     ends_used_ <= kMostEnds && !companies_.empty();
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
    companies_.front().with = 0;
    disturbances_.resize(own_);
    places_.resize(schedule.chains.size());
    return;
  }
  disturbances_.assign(own_, {});
  places_.assign(schedule.chains.size(), {});
  ends_used_ = 0;
  done_used_ = 0;
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
  std::uint32_t& row = companies_[company].with;
  if (row == 0) {
    row = static_cast<std::uint32_t>(with_.size());
    with_.resize(with_.size() + profiles_, kNone);
  }
  with_[row + profile] = found;
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
  const auto rates = RatesWith(MembersOf(company), profile);
  for (std::uint32_t i = 0; i < other.count; ++i) {
    const Member member = members_[other.first + i];
    members_.push_back({.profile = member.profile, .rate = rates[i]});
  }
  members_.push_back({.profile = profile, .without = company, .rate = rates[other.count]});
  companies_.push_back({.first = first, .count = other.count + 1});
  return static_cast<std::uint32_t>(companies_.size() - 1);
}

// Of the members, and after these of one more: the engine itself says what would be.
std::span<const std::uint64_t> Companies::RatesWith(std::span<const Member> members,
                                                    std::uint32_t profile) {
  const auto uses = schedule_->UsesOf(profile);
  const auto last = static_cast<SharedResources::Activity>(members.size());
  rates_.assign(last + 1, SharedResources::kFullRate);
  if (last == 1) {
    rates_[0] = rates_[1] = SharedResources::RateOfTwo(schedule_->UsesOf(members[0].profile), uses);
  } else if (last > 1) {
    probe_.Reset(cost::kResources, last + 1);
    for (SharedResources::Activity i = 0; i < last; ++i) {
      probe_.Start(i, Time(), Seconds(1), schedule_->UsesOf(members[i].profile));
    }
    probe_.Start(last, Time(), Seconds(1), uses);
    probe_.Settle(Time());
    for (SharedResources::Activity i = 0; i <= last; ++i) rates_[i] = probe_.rate_units(i);
  }
  return rates_;
}

// What would be if somebody joined the company. Activities with the same uses have the same rate,
// so that one of a member's profile has the member's.
const Companies::Disturbance& Companies::FindDisturbance(std::uint32_t company,
                                                         std::uint32_t profile) {
  const auto members = MembersOf(company);
  Disturbance& disturbance = disturbances_[companies_[company].disturbances + profile];
  if (schedule_->UsesOf(profile).empty()) {
    disturbance.rate = SharedResources::kFullRate;
    for (std::size_t i = 0; i < members.size(); ++i) disturbance.others[i] = members[i].rate;
    return disturbance;
  }
  const auto rates = RatesWith(members, profile);
  disturbance.rate = rates.back();
  std::copy(rates.begin(), rates.end() - 1, disturbance.others.begin());
  return disturbance;
}

void Companies::MakePlaces(std::uint32_t company) {
  Company& own = companies_[company];
  own.places = static_cast<std::uint32_t>(places_.size());
  places_.resize(places_.size() + schedule_->chains.size());
  own.disturbances = static_cast<std::uint32_t>(disturbances_.size());
  disturbances_.resize(disturbances_.size() + own_);
}

Offsets Companies::FindOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
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
    place.ends = Extend(ends_, ends_used_, costs.size() + 1);
    place.done = Extend(done_, done_used_, (costs.size() + 1) * others);
    ends_[place.ends] = Time();
    for (std::size_t i = 0; i < others; ++i) done_[place.done + i] = 0;
  }
  std::array<std::uint64_t, kMostBeside> undisturbed{};
  for (std::size_t i = 0; i < others; ++i) undisturbed[i] = MembersOf(company)[i].rate;
  const Disturbance* const disturbances = disturbances_.data() + companies_[company].disturbances;
  Time* ends = ends_.data() + place.ends + place.known;
  SharedResources::Work* done = done_.data() + place.done + place.known * others;
  for (; place.known < until; ++place.known, ++ends, done += others) {
    const Cost& cost = schedule_->costs[costs[place.known]];
    const Disturbance& beside = disturbances[cost.profile].rate != 0
                                    ? disturbances[cost.profile]
                                    : FindDisturbance(company, cost.profile);
    const Time work =
        beside.rate == SharedResources::kFullRate
            ? cost.work
            : SharedResources::TimeFor(SharedResources::Done(cost.work, SharedResources::kFullRate),
                                       beside.rate);
    ends[1] = ends[0] + cost.latency + work;
    for (std::size_t i = 0; i < others; ++i) {
      done[others + i] = done[i] + SharedResources::Done(work, beside.others[i]);
    }
    if (cost.latency == Time()) continue;
    for (std::size_t i = 0; i < others; ++i) {
      done[others + i] += SharedResources::Done(cost.latency, undisturbed[i]);
    }
  }
}

}  // namespace stepcast::simulate
