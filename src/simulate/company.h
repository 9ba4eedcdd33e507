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
};

// Activities by their profiles (Schedule::profiles), ascending: which of them is who does not
// matter, for those who ask the same get the same.
class Companies {
 public:
  // Nobody: the company of that number.
  static constexpr std::uint32_t kNobody = 0;
  // Chains pass beside so many at most.
  static constexpr std::size_t kMostBeside = 3;

  // Forgets all, for a schedule that stays as it is while this is used.
  void Reset(const Schedule& schedule);

  std::uint32_t With(std::uint32_t company, std::uint32_t profile);
  // `profile` is a member's.
  std::uint32_t Without(std::uint32_t company, std::uint32_t profile);

  // A member's rate, in units of 2^-38.
  std::uint64_t RateOf(std::uint32_t company, std::uint32_t profile) const {
    return MembersOf(company)[PlaceOf(company, profile)].rate;
  }
  // A member's place in Offsets::done.
  std::size_t PlaceOf(std::uint32_t company, std::uint32_t profile) const {
    const auto members = MembersOf(company);
    std::size_t place = 0;
    while (members[place].profile != profile) ++place;
    return place;
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
  struct Company {
    std::uint32_t first = 0;  // in `members_`
    std::uint32_t count = 0;
    std::uint32_t beside = kNone;  // its entries in what follows, by profile and by chain; none yet
  };
  struct Member {
    std::uint32_t profile = 0;
    std::uint32_t without = kNone;  // the company without it; kNone: not found out yet
    std::uint64_t rate = 0;
  };
  // What an operation of some profile comes to beside a company.
  struct Disturbance {
    std::uint64_t rate = 0;  // 0: not found out yet
    std::array<std::uint64_t, kMostBeside> others{};
  };
  // Where the offsets of a chain beside a company are.
  struct Place {
    std::uint32_t ends = kNone;  // kNone: nowhere yet
    std::uint32_t done = 0;
    std::uint32_t known = 0;  // so many operations
  };

  std::span<const Member> MembersOf(std::uint32_t company) const {
    return {members_.data() + companies_[company].first, companies_[company].count};
  }
  std::uint32_t& WithOf(std::uint32_t company, std::uint32_t profile) {
    return with_[company * schedule_->profiles.size() + profile];
  }
  std::size_t PlaceOfChain(std::uint32_t company, std::uint32_t chain) const {
    return companies_[company].beside * schedule_->chains.size() + chain;
  }
  std::uint32_t Find(std::span<const std::uint32_t> profiles);
  const Disturbance& DisturbanceOf(std::uint32_t company, std::uint32_t profile);
  void AddOffsets(std::uint32_t company, std::uint32_t chain, std::uint32_t until);

  const Schedule* schedule_ = nullptr;
  std::vector<Company> companies_;
  std::vector<Member> members_;            // by company
  std::vector<std::uint32_t> with_;        // by company, then profile; kNone: not found out yet
  std::uint32_t beside_count_ = 0;         // companies beside which something ran
  std::vector<Disturbance> disturbances_;  // by such a company, then profile
  std::vector<Place> places_;              // by such a company, then chain
  std::vector<std::uint32_t> looked_for_;  // profiles
  std::vector<Time> ends_;
  std::vector<engine::SharedResources::Work> done_;
  engine::SharedResources probe_;
};

}  // namespace stepcast::simulate
