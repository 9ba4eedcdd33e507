#include "src/simulate/company.h"

#include "src/base/check.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

void Companies::Reset(const Schedule& schedule) {
  schedule_ = &schedule;
  count_ = 0;
  profiles_.clear();
  rates_.clear();
  ends_.clear();
  done_.clear();
  Find({});
}

std::uint32_t Companies::With(std::uint32_t company, std::uint32_t profile) {
  const std::uint32_t known = companies_[company].with[profile];
  if (known != kNone) return known;
  members_.assign(ProfilesOf(companies_[company]).begin(), ProfilesOf(companies_[company]).end());
  members_.insert(std::upper_bound(members_.begin(), members_.end(), profile), profile);
  const std::uint32_t found = Find(members_);
  companies_[company].with[profile] = found;
  return found;
}

std::uint32_t Companies::Without(std::uint32_t company, std::uint32_t profile) {
  const auto members = ProfilesOf(companies_[company]);
  if (members.size() == 1) return kNobody;
  members_.assign(members.begin(), members.end());
  members_.erase(std::find(members_.begin(), members_.end(), profile));
  return Find(members_);
}

std::uint64_t Companies::RateOf(std::uint32_t company, std::uint32_t profile) const {
  return rates_[companies_[company].first + PlaceOf(company, profile)];
}

std::size_t Companies::PlaceOf(std::uint32_t company, std::uint32_t profile) const {
  const auto members = ProfilesOf(companies_[company]);
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), profile) -
                                  members.begin());
}

std::uint32_t Companies::Find(std::span<const std::uint32_t> profiles) {
  for (std::size_t c = 0; c < count_; ++c) {
    const auto members = ProfilesOf(companies_[c]);
    if (std::equal(members.begin(), members.end(), profiles.begin(), profiles.end())) {
      return static_cast<std::uint32_t>(c);
    }
  }
  if (companies_.size() == count_) companies_.emplace_back();
  Company& made = companies_[count_];
  made.first = static_cast<std::uint32_t>(profiles_.size());
  made.count = static_cast<std::uint32_t>(profiles.size());
  made.with.assign(schedule_->profiles.size(), kNone);
  made.beside.assign(schedule_->profiles.size(), Disturbance());
  made.chains.assign(schedule_->chains.size(), kNone);
  made.dones.resize(schedule_->chains.size());
  profiles_.insert(profiles_.end(), profiles.begin(), profiles.end());
  // The engine itself says what would be.
  const auto count = static_cast<SharedResources::Activity>(profiles.size());
  probe_.Reset(cost::kResources, count);
  for (SharedResources::Activity i = 0; i < count; ++i) {
    probe_.Start(i, Time(), Seconds(1), schedule_->UsesOf(profiles[i]));
  }
  probe_.Settle(Time());
  for (SharedResources::Activity i = 0; i < count; ++i) rates_.push_back(probe_.rate_units(i));
  return static_cast<std::uint32_t>(count_++);
}

const Companies::Disturbance& Companies::BesideOf(std::uint32_t company, std::uint32_t profile) {
  if (const Disturbance& known = companies_[company].beside[profile]; known.rate != 0) return known;
  // Profile 0 uses nothing.
  const std::uint32_t together = profile == 0 ? company : With(company, profile);
  Company& own = companies_[company];
  Disturbance& beside = own.beside[profile];
  beside.rate = profile == 0 ? SharedResources::kFullRate : RateOf(together, profile);
  for (std::size_t i = 0; i < own.count; ++i) {
    beside.others[i] = RateOf(together, profiles_[own.first + i]);
  }
  return beside;
}

Offsets Companies::Beside(std::uint32_t company, std::uint32_t chain) {
  if (companies_[company].chains[chain] == kNone) AddOffsets(company, chain);
  const Company& own = companies_[company];
  const std::size_t entries = schedule_->chains[chain].count + std::size_t{1};
  return {{ends_.data() + own.chains[chain], entries},
          {done_.data() + own.dones[chain], entries * own.count}};
}

void Companies::AddOffsets(std::uint32_t company, std::uint32_t chain) {
  const std::size_t others = companies_[company].count;
  STEPCAST_CHECK(others <= kMostBeside, "beside few chains pass in one go");
  std::array<std::uint64_t, kMostBeside> undisturbed{};
  for (std::size_t i = 0; i < others; ++i) {
    undisturbed[i] = rates_[companies_[company].first + i];
  }
  companies_[company].chains[chain] = static_cast<std::uint32_t>(ends_.size());
  companies_[company].dones[chain] = static_cast<std::uint32_t>(done_.size());
  Time end;
  std::array<SharedResources::Work, kMostBeside> done{};
  const auto add = [&] {
    ends_.push_back(end);
    for (std::size_t i = 0; i < others; ++i) done_.push_back(done[i]);
  };
  add();
  for (const std::uint32_t target : schedule_->CostsOf(schedule_->chains[chain])) {
    const Cost& cost = schedule_->costs[target];
    const Disturbance& beside = BesideOf(company, cost.profile);
    const Time work =
        beside.rate == SharedResources::kFullRate
            ? cost.work
            : SharedResources::TimeFor(SharedResources::Done(cost.work, SharedResources::kFullRate),
                                       beside.rate);
    for (std::size_t i = 0; i < others; ++i) {
      done[i] += SharedResources::Done(cost.latency, undisturbed[i]) +
                 SharedResources::Done(work, beside.others[i]);
    }
    end += cost.latency + work;
    add();
  }
}

}  // namespace stepcast::simulate
