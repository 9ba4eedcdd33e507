#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
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
};

// Activities by their profiles (Schedule::profiles), ascending: which of them is who does not
// matter, for those who ask the same get the same.
class Companies {
 public:
  // Nobody: the company of that number.
  static constexpr std::uint32_t kNobody = 0;
  // Chains pass beside so many at most.
  static constexpr std::size_t kMostBeside = 3;

  // Begins with a schedule, which stays as it is while this is used. What becomes of whom beside
  // whom is kept: the next row of a sweep has mostly the same operations.
  void Reset(const Schedule& schedule);

  std::uint32_t With(std::uint32_t company, std::uint32_t profile) {
    const Company& own = Known(company);
    const std::uint32_t known = with_[own.number * kinds_.size() + profile];
    return known != kNone ? known : FindWith(company, profile);
  }
  // `profile` is a member's.
  std::uint32_t Without(std::uint32_t company, std::uint32_t profile);

  // A member's rate, in units of 2^-38.
  std::uint64_t RateOf(std::uint32_t company, std::uint32_t profile) const {
    return members_[companies_[company].first + PlaceOf(company, profile)].rate;
  }
  // A member's place in Offsets::done.
  std::size_t PlaceOf(std::uint32_t company, std::uint32_t profile) const {
    return PlaceOfKind(company, kinds_[profile]);
  }

  // Entries up to that before the chain's operation `until`, or more. The company has no more
  // members than kMostBeside. Stays until the next call.
  Offsets Beside(std::uint32_t company, std::uint32_t chain, std::uint32_t until);
  // How long an operation took of a chain that passed beside the company.
  Time DurationOf(std::uint32_t company, std::uint32_t chain, std::uint32_t place) const {
    const Time* const ends = ends_.data() + places_[PlaceOfChain(company, chain)].ends;
    return ends[place + 1] - ends[place];
  }

 private:
  // Kinds are profiles of all schedules: those with the same uses have the same.
  using Kind = std::uint32_t;
  using Uses = std::vector<std::uint64_t>;  // resource and share in one number

  // What an operation of some kind comes to beside a company.
  struct Disturbance {
    std::uint64_t rate = 0;  // 0: not found out yet
    std::array<std::uint64_t, kMostBeside> others{};
  };
  struct Company {
    std::uint32_t first = 0;  // in `members_`
    std::uint32_t count = 0;
    std::uint32_t round = 0;   // in which what follows counts
    std::uint32_t number = 0;  // of the companies that came up
    // Where its entries begin in `places_` and in `disturbances_`, once something ran beside it.
    std::uint32_t places = kNone;
    std::uint32_t disturbances = 0;
  };
  struct Member {
    Kind kind = 0;
    std::uint32_t without = kNone;  // the company without it; kNone: not found out yet
    std::uint64_t rate = 0;
  };
  // Where the offsets of a chain beside a company are.
  struct Place {
    std::uint32_t ends = kNone;  // kNone: nowhere yet
    std::uint32_t done = 0;
    std::uint32_t known = 0;  // so many operations
  };
  // Beyond so many all are forgotten.
  static constexpr std::size_t kMostKinds = 1024;
  static constexpr std::size_t kMostCompanies = 8192;

  std::span<const Member> MembersOf(std::uint32_t company) const {
    return {members_.data() + companies_[company].first, companies_[company].count};
  }
  std::size_t PlaceOfKind(std::uint32_t company, Kind kind) const {
    const Member* const members = members_.data() + companies_[company].first;
    std::size_t place = 0;
    while (members[place].kind != kind) ++place;
    return place;
  }
  std::size_t PlaceOfChain(std::uint32_t company, std::uint32_t chain) const {
    return companies_[company].places + chain;
  }
  // Among those that came up.
  Company& Known(std::uint32_t company) {
    Company& known = companies_[company];
    if (known.round != round_) ComesUp(known);
    return known;
  }
  void ComesUp(Company& company);
  void Forget();
  Kind KindOf(std::span<const engine::SharedResources::Use> uses);
  std::uint32_t FindWith(std::uint32_t company, std::uint32_t profile);
  std::uint32_t Find();
  const Disturbance& DisturbanceOf(std::uint32_t company, std::uint32_t profile);
  void AddOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until);

  // Kept from schedule to schedule.
  std::map<Uses, Kind> kind_of_;
  std::vector<std::vector<engine::SharedResources::Use>> uses_;  // by kind
  std::map<std::vector<Kind>, std::uint32_t> company_of_;
  std::unordered_map<std::uint64_t, std::uint32_t> found_with_;  // by company and kind
  std::vector<Company> companies_;
  std::vector<Member> members_;  // by company
  std::vector<Kind> looked_for_;

  // Of the schedule.
  const Schedule* schedule_ = nullptr;
  std::uint32_t round_ = 0;                // counts schedules
  std::vector<Kind> kinds_;                // by profile
  std::uint32_t count_ = 0;                // companies that came up
  std::vector<std::uint32_t> with_;        // by such a company, then profile; kNone: look it up
  std::vector<Disturbance> disturbances_;  // by company beside which something ran, then profile
  std::vector<Place> places_;              // by company beside which something ran, then chain
  std::vector<Time> ends_;
  std::vector<engine::SharedResources::Work> done_;
  engine::SharedResources probe_;
  Uses key_;
};

}  // namespace stepcast::simulate
