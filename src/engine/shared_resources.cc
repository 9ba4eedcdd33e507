#include "src/engine/shared_resources.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"

namespace stepcast::engine {
namespace {

constexpr int kShareBits = 24;
constexpr int kRateBits = SharedResources::kRateBits;
// share x rate: the whole of a resource.
constexpr std::uint64_t kCapacity = std::uint64_t{1} << (kShareBits + kRateBits);

}  // namespace

struct SharedResources::Later {
  bool operator()(const Level& a, const Level& b) const { return a.level > b.level; }
};

std::uint32_t SharedResources::Share(double share) {
  STEPCAST_CHECK(share >= 0 && share <= kMostShare, "a share must be from 0 to the maximum share");
  const double units = share * kWhole;
  return static_cast<std::uint32_t>(share > 1 ? std::ceil(units) : std::floor(units));
}

void SharedResources::Reset(std::uint32_t resources, std::uint32_t activities) {
  for (Resource& resource : resources_) {
    resource.changed = false;
    resource.held = 0;
    resource.users.clear();
  }
  resources_.resize(resources);
  totals_.assign(resources, 0);
  reached_in_.assign(resources, 0);
  activities_.assign(activities, Running());
  moved_.clear();
  started_.clear();
  changed_.clear();
  unsettled_ = false;
  solve_ = 0;
}

double SharedResources::rate(Activity activity) const {
  return std::ldexp(static_cast<double>(activities_[activity].rate), -kRateBits);
}

void SharedResources::Start(Activity activity, Time now, Work left, std::span<const Use> uses,
                            std::uint32_t first_resource) {
  Running& started = activities_[activity];
  STEPCAST_CHECK(!started.running, "an activity must finish before it starts again");
  started.running = true;
  started.rate = kFullRate;
  started.remaining = left;
  started.since = now;
  started.end = now + TimeFor(left, kFullRate);
  started.uses = uses;
  started.first_resource = first_resource;
  if (!started.started) started_.push_back(activity);
  started.started = true;
  unsettled_ = true;
  for (const Use& use : uses) {
    if (use.share == 0) continue;
    const std::uint32_t r = first_resource + use.resource;
    totals_[r] += use.share;
    if (use.way == Use::Way::kHolds) resources_[r].held += use.share;
    resources_[r].users.push_back({activity, use.share});
    if (totals_[r] > kWhole) Change(r);
  }
}

void SharedResources::Finish(Activity activity) {
  Running& finished = activities_[activity];
  STEPCAST_CHECK(finished.running, "an activity must run before it finishes");
  finished.running = false;
  unsettled_ = true;
  for (const Use& use : finished.uses) {
    if (use.share == 0) continue;
    const std::uint32_t r = finished.first_resource + use.resource;
    Resource& resource = resources_[r];
    const auto user = std::find_if(resource.users.begin(), resource.users.end(),
                                   [activity](const User& u) { return u.activity == activity; });
    *user = resource.users.back();
    resource.users.pop_back();
    // Activities that this resource limited may now run faster.
    if (totals_[r] > kWhole) Change(r);
    totals_[r] -= use.share;
    if (use.way == Use::Way::kHolds) resource.held -= use.share;
  }
}

void SharedResources::Settle(Time now) {
  unsettled_ = false;
  moved_.clear();
  if (!changed_.empty()) {
    Solve();
    for (const Activity activity : reached_activities_) {
      Running& running = activities_[activity];
      if (running.new_rate == running.rate) continue;
      const Time before = running.end;
      SetRate(running, now, running.new_rate);
      if (!running.started && running.end != before) moved_.push_back(activity);
    }
    reached_activities_.clear();
  }
  for (const Activity activity : started_) {
    Running& running = activities_[activity];
    running.started = false;
    if (running.running) moved_.push_back(activity);
  }
  started_.clear();
}

void SharedResources::Change(std::uint32_t resource) {
  if (std::exchange(resources_[resource].changed, true)) return;
  changed_.push_back(resource);
}

void SharedResources::Reach(std::uint32_t resource) {
  if (reached_in_[resource] == solve_) return;
  reached_in_[resource] = solve_;
  reached_resources_.push_back(resource);
}

void SharedResources::ReachThrough(Activity activity) {
  Running& reached = activities_[activity];
  if (reached.reached_in == solve_) return;
  reached.reached_in = solve_;
  reached_activities_.push_back(activity);
  for (const Use& use : reached.uses) {
    const std::uint32_t r = reached.first_resource + use.resource;
    if (use.share > 0 && totals_[r] > kWhole) Reach(r);
  }
}

// Computes new rates for all activities that over-subscribed resources connect to the changed
// activities.
void SharedResources::Solve() {
  ++solve_;
  for (const std::uint32_t r : changed_) {
    resources_[r].changed = false;
    Reach(r);
  }
  changed_.clear();
  // The list grows while it is read. A resource that is no longer over-subscribed, because an
  // activity finished, is on it too, and limits none.
  for (std::size_t i = 0; i < reached_resources_.size(); ++i) {
    Resource& resource = resources_[reached_resources_[i]];
    resource.left = kCapacity;
    resource.not_fixed = totals_[reached_resources_[i]];
    for (const User& user : resource.users) ReachThrough(user.activity);
  }

  for (const Activity activity : reached_activities_) {
    if (TakesTwoRounds(activities_[activity])) two_rounds_.push_back(activity);
  }

  // Usually, all levels are equal, so the first level is the only level.
  std::uint64_t level = LowestLevel();
  if (!two_rounds_.empty() && level >= kTwoRounds) {
    FixTwoRounds();
    level = LowestLevel();
  }
  if (level < kFullRate) {
    lowest_.clear();
    for (const std::uint32_t r : reached_resources_) {
      if (resources_[r].level == level) lowest_.push_back(r);
    }
    FixUsersOfLowest(level);
    levels_.clear();
    for (const std::uint32_t r : reached_resources_) {
      if (const std::uint64_t next = LevelOf(r); next < kFullRate) levels_.push_back({next, r});
    }
    std::make_heap(levels_.begin(), levels_.end(), Later());
    while (!levels_.empty()) {
      const std::uint64_t next = FindLowest();
      if (!two_rounds_.empty() && next >= kTwoRounds) {
        // Their bound comes before.
        FixTwoRounds();
        for (const std::uint32_t r : lowest_) {
          if (LevelOf(r) == kFullRate) continue;
          levels_.push_back({LevelOf(r), r});
          std::push_heap(levels_.begin(), levels_.end(), Later());
        }
        continue;
      }
      FixUsersOfLowest(next);
    }
    FixTwoRounds();
  }
  reached_resources_.clear();
  for (const Activity activity : reached_activities_) {
    if (activities_[activity].fixed_in != solve_) activities_[activity].new_rate = kFullRate;
  }
}

std::uint64_t SharedResources::LowestLevel() {
  std::uint64_t level = kFullRate;
  for (const std::uint32_t r : reached_resources_) {
    resources_[r].level = LevelOf(r);
    level = std::min(level, resources_[r].level);
  }
  return level;
}

// The rate at which the activities without a fixed rate exhaust the resource; at most the full
// rate.
std::uint64_t SharedResources::LevelOf(std::uint32_t r) const {
  const Resource& resource = resources_[r];
  if (resource.not_fixed <= resource.left >> kRateBits) return kFullRate;
  return resource.left / resource.not_fixed;
}

// Moves all resources of the lowest level from the heap to `lowest_`; none if no resource limits an
// activity any more.
std::uint64_t SharedResources::FindLowest() {
  lowest_.clear();
  std::uint64_t level = kFullRate;
  while (!levels_.empty() && (lowest_.empty() || levels_.front().level == level)) {
    std::pop_heap(levels_.begin(), levels_.end(), Later());
    Level& candidate = levels_.back();
    const std::uint64_t now = LevelOf(candidate.resource);
    if (now == candidate.level) {
      level = now;
      lowest_.push_back(candidate.resource);
    } else if (now < kFullRate) {
      candidate.level = now;
      std::push_heap(levels_.begin(), levels_.end(), Later());
      continue;
    }
    levels_.pop_back();
  }
  return level;
}

// All resources that are exhausted at this level, so that equal activities get exactly equal rates.
void SharedResources::FixUsersOfLowest(std::uint64_t level) {
  for (const std::uint32_t r : lowest_) {
    for (const User& user : resources_[r].users) {
      if (activities_[user.activity].fixed_in != solve_) Fix(user.activity, level);
    }
  }
}

bool SharedResources::TakesTwoRounds(const Running& running) const {
  for (const Use& use : running.uses) {
    if (use.way != Use::Way::kPersists) continue;
    if (use.share + resources_[running.first_resource + use.resource].held > kWhole) return true;
  }
  return false;
}

// Levels only rise: none is below this rate.
void SharedResources::FixTwoRounds() {
  for (const Activity activity : two_rounds_) {
    if (activities_[activity].fixed_in != solve_) Fix(activity, kTwoRounds);
  }
  two_rounds_.clear();
}

void SharedResources::Fix(Activity activity, std::uint64_t rate) {
  Running& fixed = activities_[activity];
  fixed.fixed_in = solve_;
  fixed.new_rate = rate;
  for (const Use& use : fixed.uses) {
    const std::uint32_t r = fixed.first_resource + use.resource;
    if (reached_in_[r] != solve_) continue;
    Resource& resource = resources_[r];
    resource.left -= use.share * rate;
    resource.not_fixed -= use.share;
  }
}

void SharedResources::SetRate(Running& running, Time now, std::uint64_t rate) {
  const Work done = Done(now - running.since, running.rate);
  running.remaining -= std::min(done, running.remaining);
  running.since = now;
  running.rate = rate;
  running.end = now + TimeFor(running.remaining, rate);
}

}  // namespace stepcast::engine
