#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "src/engine/shared_resources.h"

// The rates of concurrent operations of one rank. The solution of engine::SharedResources is cached
// for each set, because the same small sets occur hundreds of times in a step.
namespace stepcast::simulate {

class ConcurrentSets {
 public:
  using Use = engine::SharedResources::Use;
  // The index of a list of resource uses. Operations with the same profile have equal rates.
  using Profile = std::uint32_t;
  // The index of a multiset of profiles.
  using Set = std::uint32_t;
  static constexpr Profile kUsesNothing = 0;
  static constexpr Set kEmpty = 0;

  ConcurrentSets() { Clear(); }

  // Returns the profile of a list of resource uses. Resources are numbered from 0 within the rank.
  // Each resource may occur once.
  Profile Intern(std::span<const Use> uses);
  // Returns the resource uses of a profile. The span remains valid when other profiles are
  // interned.
  std::span<const Use> UsesOf(Profile profile) const { return uses_[profile]; }

  Set With(Set set, Profile profile) { return Step(set, profile, true); }
  // Returns the set without one operation of this profile. The set must contain the profile.
  Set Without(Set set, Profile profile) { return Step(set, profile, false); }
  // Returns the rate of the set's operations with this profile, in units of 2^-38. The set must
  // contain the profile.
  std::uint64_t RateOf(Set set, Profile profile) const {
    const Member* member = members_.data() + first_member_[set];
    while (member->profile != profile) ++member;
    return member->rate;
  }

  // If there are more than a few thousand sets, removes all sets and profiles. Removed sets and
  // profiles are invalid. Owners that simulate many programs call this function to limit memory.
  void Trim();
  // Returns the number of times that Trim removed all sets.
  std::uint32_t cleared() const { return cleared_; }

 private:
  struct Member {
    Profile profile = 0;
    std::uint64_t rate = 0;
  };
  // The transition from one set to another when an operation starts or finishes.
  struct Edge {
    std::uint64_t key = 0;  // 0: none
    Set to = 0;
  };

  void Clear();
  Set Step(Set set, Profile profile, bool with) {
    const std::uint64_t key =
        std::uint64_t{set} << 32 | std::uint64_t{profile} << 1 | (with ? 1 : 0);
    for (std::size_t at = Hash(key);; at = (at + 1) & (edges_.size() - 1)) {
      if (edges_[at].key == key) return edges_[at].to;
      if (edges_[at].key == 0) return FindStep(set, profile, with, key);
    }
  }
  std::size_t Hash(std::uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15 >> 32) & (edges_.size() - 1);
  }
  Set FindStep(Set set, Profile profile, bool with, std::uint64_t key);
  Set SetOf(const std::vector<Profile>& profiles);
  void AddEdge(std::uint64_t key, Set to);

  std::uint32_t cleared_ = 0;
  std::deque<std::vector<Use>> uses_;  // [profile]
  std::map<std::vector<std::uint64_t>, Profile> profiles_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> first_member_;   // [set]: first member; last entry: the end
  std::map<std::vector<Profile>, Set> sets_;  // profiles ascending
  std::vector<Edge> edges_;                   // hash table with open addressing
  std::size_t edge_count_ = 0;
  engine::SharedResources solver_;
  // Scratch memory.
  std::vector<std::uint64_t> key_;
  std::vector<Profile> step_;
};

}  // namespace stepcast::simulate
