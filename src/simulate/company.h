#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/simulate/schedule.h"

// What becomes of activities that share the resources of one rank: the same few work side by side
// hundreds of times in a step, so it is found out once, by asking the engine.
namespace stepcast::simulate {

// Where a chain's operations end that run one after the other beside others who go on all the time:
// after its beginning, and how much the others have got done by then. Entry k is before operation
// k.
struct Offsets {
  const Time* ends = nullptr;
  const engine::SharedResources::Work* done = nullptr;  // by entry, then by member of the company
  std::uint32_t known = 0;                              // the last entry
};

// Activities by their profiles (Schedule::profiles): which of them is who does not
// matter, for those who ask the same get the same.
class Companies {
 public:
  // Nobody: the company of that number.
  static constexpr std::uint32_t kNobody = 0;
  // Chains pass beside so many at most.
  static constexpr std::size_t kMostBeside = 3;

  // Begins with a schedule, which stays as it is while this is used. If it is the one of the last
  // time at other costs, what does not depend on these stays known.
  void Reset(const Schedule& schedule);

  std::uint32_t With(std::uint32_t company, std::uint32_t profile) {
    const std::uint32_t known = with_[companies_[company].with + profile];
    return known != kNone ? known : FindWith(company, profile);
  }
  // `profile` is a member's.
  std::uint32_t Without(std::uint32_t company, std::uint32_t profile) {
    const std::uint32_t member = companies_[company].first + PlaceOf(company, profile);
    const std::uint32_t known = members_[member].without;
    return known != kNone ? known : FindWithout(company, member);
  }

  // A member's rate, in units of 2^-38.
  std::uint64_t RateOf(std::uint32_t company, std::uint32_t profile) const {
    return members_[companies_[company].first + PlaceOf(company, profile)].rate;
  }
  // A member's place in Offsets::done.
  std::uint32_t PlaceOf(std::uint32_t company, std::uint32_t profile) const {
    const Member* const members = members_.data() + companies_[company].first;
    std::uint32_t place = 0;
    while (members[place].profile != profile) ++place;
    return place;
  }

  // What an operation of some own profile comes to beside a company, and its members, by place.
  struct Disturbance {
    std::uint64_t rate = 0;  // 0: not found out yet
    std::array<std::uint64_t, kMostBeside> others{};
  };
  // The company has no more members than kMostBeside. Stays until the next call.
  const Disturbance& Beside(std::uint32_t company, std::uint32_t profile) {
    if (companies_[company].places == kNone) MakePlaces(company);
    const Disturbance& known = disturbances_[companies_[company].disturbances + profile];
    return known.rate != 0 ? known : FindDisturbance(company, profile);
  }

  // Entries up to that before the chain's operation `until`, or more. The company has no more
  // members than kMostBeside. Stays until the next call.
  Offsets Beside(std::uint32_t company, std::uint32_t chain, std::uint32_t until) {
    const Company& own = companies_[company];
    if (own.places != kNone) {
      const Place& place = places_[own.places + chain];
      if (place.known >= until && place.round == schedule_->chain_rounds[chain] &&
          place.ends != kNone) {
        return {ends_.data() + place.ends, done_.data() + place.done, place.known};
      }
    }
    return FindOffsets(company, chain, until);
  }
  // How long an operation took of a chain that passed beside the company.
  Time DurationOf(std::uint32_t company, std::uint32_t chain, std::uint32_t place) const {
    const Time* const ends = ends_.data() + places_[PlaceOfChain(company, chain)].ends;
    return ends[place + 1] - ends[place];
  }

 private:
  struct Company {
    std::uint32_t first = 0;  // in `members_`
    std::uint32_t count = 0;
    // Where its entries begin in `with_`; those of the first row, which are all kNone, until
    // somebody has joined it.
    std::uint32_t with = 0;
    // Where they begin in `places_` and in `disturbances_`, once something ran beside it.
    std::uint32_t places = kNone;
    std::uint32_t disturbances = 0;
  };
  struct Member {
    std::uint32_t profile = 0;
    std::uint32_t without = kNone;  // the company without it; kNone: not found out yet
    std::uint64_t rate = 0;
  };
  // Beyond so many, what is known is not kept.
  static constexpr std::size_t kMostEnds = 1 << 16;

  // Where the offsets of a chain beside a company are.
  struct Place {
    std::uint32_t ends = kNone;  // kNone: nowhere yet
    std::uint32_t done = 0;
    std::uint32_t known = 0;  // so many operations, ...
    std::uint32_t round = 0;  // ... in the chain's round
  };
  std::span<const Member> MembersOf(std::uint32_t company) const {
    return {members_.data() + companies_[company].first, companies_[company].count};
  }
  std::size_t PlaceOfChain(std::uint32_t company, std::uint32_t chain) const {
    return companies_[company].places + chain;
  }
  std::uint32_t FindWith(std::uint32_t company, std::uint32_t profile);
  std::uint32_t FindWithout(std::uint32_t company, std::uint32_t member);
  std::uint32_t Add(std::uint32_t company, std::uint32_t profile);
  std::span<const std::uint64_t> RatesWith(std::span<const Member> members, std::uint32_t profile);
  void MakePlaces(std::uint32_t company);
  const Disturbance& FindDisturbance(std::uint32_t company, std::uint32_t profile);
  Offsets FindOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until);
  void AddOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until);

  const Schedule* schedule_ = nullptr;
  std::uint64_t id_ = 0;      // its own
  std::uint32_t rounds_ = 0;  // of its profiles
  std::size_t profiles_ = 0;  // how many it has, ...
  std::size_t own_ = 0;       // ... and how many of them costs have
  std::vector<Company> companies_;
  std::vector<Member> members_;      // by company, profiles descending
  std::vector<std::uint32_t> with_;  // by company, then profile; kNone: not found out yet
  // Of a company that is being made, or would be.
  engine::SharedResources probe_;
  std::vector<std::uint64_t> rates_;  // RatesWith's answer
  std::vector<Disturbance>
      disturbances_;           // by company beside which something ran, then own profile
  std::vector<Place> places_;  // by company beside which something ran, then chain
  // So many entries count; what comes after them is room.
  std::size_t ends_used_ = 0, done_used_ = 0;
  std::vector<Time> ends_;
  std::vector<engine::SharedResources::Work> done_;
};

}  // namespace stepcast::simulate
