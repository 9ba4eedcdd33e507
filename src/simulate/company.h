#pragma once

#include <algorithm>
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
// after its beginning, and how much the others have got done by then. Both count from the chain's
// first operation; entry k is before the k-th, and there is one more than operations.
struct Offsets {
  std::span<const Time> ends;
  // By entry, then by member of the company.
  std::span<const engine::SharedResources::Work> done;
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
  std::uint32_t Without(std::uint32_t company, std::uint32_t profile);

  std::size_t SizeOf(std::uint32_t company) const { return companies_[company].count; }
  // A member's rate, in units of 2^-38.
  std::uint64_t RateOf(std::uint32_t company, std::uint32_t profile) const;
  // A member's place in Offsets::done.
  std::size_t PlaceOf(std::uint32_t company, std::uint32_t profile) const;

  // The company has no more members than kMostBeside. Stays until the next call.
  Offsets Beside(std::uint32_t company, std::uint32_t chain);
  // How long an operation took of a chain that passed beside the company.
  Time DurationOf(std::uint32_t company, std::uint32_t chain, std::uint32_t place) const {
    const Time* const ends = ends_.data() + companies_[company].chains[chain];
    return ends[place + 1] - ends[place];
  }

 private:
  // What an operation of some profile comes to beside a company.
  struct Disturbance {
    std::uint64_t rate = 0;  // 0: not found out yet
    std::array<std::uint64_t, kMostBeside> others{};
  };
  struct Company {
    std::uint32_t first = 0;  // in `profiles_`, `rates_`
    std::uint32_t count = 0;
    std::vector<std::uint32_t> with;    // by profile; kNone: not found out yet
    std::vector<Disturbance> beside;    // by profile
    std::vector<std::uint32_t> chains;  // where their offsets begin in `ends_`; kNone: not yet
    std::vector<std::uint32_t> dones;   // ... and in `done_`
  };

  std::span<const std::uint32_t> ProfilesOf(const Company& company) const {
    return {profiles_.data() + company.first, company.count};
  }
  std::uint32_t Find(std::span<const std::uint32_t> profiles);
  const Disturbance& BesideOf(std::uint32_t company, std::uint32_t profile);
  void AddOffsets(std::uint32_t company, std::uint32_t chain);

  const Schedule* schedule_ = nullptr;
  std::vector<Company> companies_;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> profiles_;  // by company
  std::vector<std::uint64_t> rates_;     // likewise
  std::vector<std::uint32_t> members_;   // of the one that is looked for
  std::vector<Time> ends_;
  std::vector<engine::SharedResources::Work> done_;
  engine::SharedResources probe_;
};

}  // namespace stepcast::simulate
