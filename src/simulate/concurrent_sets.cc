#include "src/simulate/concurrent_sets.h"

#include <algorithm>

#include "src/base/time.h"
#include "src/cost/demand.h"

namespace stepcast::simulate {

using engine::SharedResources;

namespace {

constexpr std::size_t kFirstEdges = 256;
constexpr std::size_t kMostSets = 4096;

}  // namespace

void ConcurrentSets::Clear() {
  ++cleared_;
  uses_.assign(1, {});
  profiles_.clear();
  profiles_.emplace(std::vector<std::uint64_t>(), kUsesNothing);
  members_.clear();
  first_member_ = {0, 0};
  sets_.clear();
  sets_.emplace(std::vector<Profile>(), kEmpty);
  edges_.assign(kFirstEdges, {});
  edge_count_ = 0;
}

void ConcurrentSets::Trim() {
  if (first_member_.size() + uses_.size() > kMostSets) Clear();
}

ConcurrentSets::Profile ConcurrentSets::Intern(std::span<const Use> uses) {
  if (uses.empty()) return kUsesNothing;
  key_.clear();
  for (const Use& use : uses) {
    key_.push_back(static_cast<std::uint64_t>(use.way) << 62 | std::uint64_t{use.resource} << 32 |
                   use.share);
  }
  const auto [entry, added] = profiles_.try_emplace(key_, static_cast<Profile>(uses_.size()));
  if (added) uses_.emplace_back(uses.begin(), uses.end());
  return entry->second;
}

ConcurrentSets::Set ConcurrentSets::FindStep(Set set, Profile profile, bool with,
                                             std::uint64_t key) {
  std::vector<Profile>& profiles = step_;
  profiles.clear();
  for (std::uint32_t m = first_member_[set]; m < first_member_[set + 1]; ++m) {
    profiles.push_back(members_[m].profile);
  }
  const auto at = std::lower_bound(profiles.begin(), profiles.end(), profile);
  if (with) {
    profiles.insert(at, profile);
  } else {
    profiles.erase(at);
  }
  const Set to = SetOf(profiles);
  AddEdge(key, to);
  return to;
}

ConcurrentSets::Set ConcurrentSets::SetOf(const std::vector<Profile>& profiles) {
  const auto [entry, added] =
      sets_.try_emplace(profiles, static_cast<Set>(first_member_.size() - 1));
  if (!added) return entry->second;
  const auto count = static_cast<SharedResources::Activity>(profiles.size());
  solver_.Reset(cost::kResources, count);
  for (SharedResources::Activity i = 0; i < count; ++i) {
    solver_.Start(i, Time(), Seconds(1), UsesOf(profiles[i]));
  }
  solver_.Settle(Time());
  for (SharedResources::Activity i = 0; i < count; ++i) {
    members_.push_back({.profile = profiles[i], .rate = solver_.rate_units(i)});
  }
  first_member_.push_back(static_cast<std::uint32_t>(members_.size()));
  return entry->second;
}

void ConcurrentSets::AddEdge(std::uint64_t key, Set to) {
  if (2 * ++edge_count_ > edges_.size()) {
    std::vector<Edge> before(2 * edges_.size());
    before.swap(edges_);
    for (const Edge& edge : before) {
      if (edge.key == 0) continue;
      std::size_t at = Hash(edge.key);
      while (edges_[at].key != 0) at = (at + 1) & (edges_.size() - 1);
      edges_[at] = edge;
    }
  }
  std::size_t at = Hash(key);
  while (edges_[at].key != 0) at = (at + 1) & (edges_.size() - 1);
  edges_[at] = {key, to};
}

}  // namespace stepcast::simulate
