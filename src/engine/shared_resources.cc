#include "src/engine/shared_resources.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace stepcast::engine {
namespace {

constexpr int kShareBits = 24;
constexpr int kRateBits = 38;
constexpr std::uint64_t kFullRate = std::uint64_t{1} << kRateBits;
// share x rate: the whole of a resource.
constexpr std::uint64_t kCapacity = std::uint64_t{1} << (kShareBits + kRateBits);

}  // namespace

std::uint32_t SharedResources::Share(double share) {
  STEPCAST_CHECK(share >= 0 && share <= 1, "a share is a part of a whole");
  return static_cast<std::uint32_t>(std::floor(share * kWhole));
}

void SharedResources::Reset(std::uint32_t resources, std::uint32_t activities) {
  for (Resource& resource : resources_) {
    resource.total = 0;
    resource.reached_in = 0;
    resource.users.clear();
  }
  resources_.resize(resources);
  activities_.assign(activities, Running());
  moved_.clear();
  solve_ = 0;
}

double SharedResources::rate(Activity activity) const {
  return std::ldexp(static_cast<double>(activities_[activity].rate), -kRateBits);
}

void SharedResources::Start(Activity activity, Time now, Time work, std::span<const Use> uses) {
  moved_.clear();
  Running& started = activities_[activity];
  STEPCAST_CHECK(!started.running, "an activity finishes before it starts again");
  STEPCAST_CHECK(work >= Time(), "work is not negative");
  started.running = true;
  started.rate = kFullRate;
  started.remaining = static_cast<Work>(work.picoseconds()) << kRateBits;
  started.since = now;
  started.end = now + work;
  started.uses = uses;
  bool contended = false;
  for (const Use& use : uses) {
    Resource& resource = resources_[use.resource];
    resource.total += use.share;
    resource.users.push_back(activity);
    contended |= resource.total > kWhole && use.share > 0;
  }
  if (!contended) return;
  ++solve_;
  ReachThrough(activity);
  Solve(now, activity);
}

void SharedResources::Finish(Activity activity, Time now) {
  moved_.clear();
  Running& finished = activities_[activity];
  STEPCAST_CHECK(finished.running, "only what runs can finish");
  finished.running = false;
  bool contended = false;
  for (const Use& use : finished.uses) {
    Resource& resource = resources_[use.resource];
    const auto user = std::find(resource.users.begin(), resource.users.end(), activity);
    *user = resource.users.back();
    resource.users.pop_back();
    // Those who were held back here may now run faster.
    if (resource.total > kWhole && use.share > 0) {
      if (!contended) ++solve_;
      contended = true;
      Reach(use.resource);
    }
    resource.total -= use.share;
  }
  if (contended) Solve(now, activity);
}

void SharedResources::Reach(std::uint32_t resource) {
  if (resources_[resource].reached_in == solve_) return;
  resources_[resource].reached_in = solve_;
  reached_resources_.push_back(resource);
}

void SharedResources::ReachThrough(Activity activity) {
  Running& reached = activities_[activity];
  if (reached.reached_in == solve_) return;
  reached.reached_in = solve_;
  reached_activities_.push_back(activity);
  for (const Use& use : reached.uses) {
    if (use.share > 0 && resources_[use.resource].total > kWhole) Reach(use.resource);
  }
}

void SharedResources::Solve(Time now, Activity cause) {
  // Everything linked through over-subscribed resources; the list grows while it is read. A
  // resource from which the finished activity took the excess is on it too, and stops nobody.
  for (std::size_t i = 0; i < reached_resources_.size(); ++i) {
    Resource& resource = resources_[reached_resources_[i]];
    resource.left = kCapacity;
    resource.not_fixed = resource.total;
    for (const Activity user : resource.users) ReachThrough(user);
  }
  // The links may reach a long way; the order of the result must not depend on them.
  std::sort(reached_activities_.begin(), reached_activities_.end());

  for (;;) {
    std::uint64_t level = kFullRate;
    for (const std::uint32_t r : reached_resources_) {
      Resource& resource = resources_[r];
      resource.level = resource.not_fixed > 0 ? resource.left / resource.not_fixed : kFullRate;
      level = std::min(level, resource.level);
    }
    if (level == kFullRate) break;
    // All who are used up at this level, so that what is alike is treated alike to the last bit.
    for (const std::uint32_t r : reached_resources_) {
      if (resources_[r].level > level) continue;
      for (const Activity user : resources_[r].users) {
        if (activities_[user].fixed_in != solve_ && UsesPartOf(r, user)) Fix(user, level);
      }
    }
  }
  for (const Activity activity : reached_activities_) {
    if (activities_[activity].fixed_in != solve_) Fix(activity, kFullRate);
  }

  for (const Activity activity : reached_activities_) {
    Running& running = activities_[activity];
    if (running.new_rate == running.rate) continue;
    const Time before = running.end;
    SetRate(running, now, running.new_rate);
    if (activity != cause && running.end != before) moved_.push_back(activity);
  }
  reached_resources_.clear();
  reached_activities_.clear();
}

bool SharedResources::UsesPartOf(std::uint32_t resource, Activity activity) const {
  const std::span<const Use> uses = activities_[activity].uses;
  const auto use = std::find_if(uses.begin(), uses.end(), [resource](const Use& candidate) {
    return candidate.resource == resource;
  });
  return use->share > 0;
}

void SharedResources::Fix(Activity activity, std::uint64_t rate) {
  Running& fixed = activities_[activity];
  fixed.fixed_in = solve_;
  fixed.new_rate = rate;
  for (const Use& use : fixed.uses) {
    Resource& resource = resources_[use.resource];
    if (resource.reached_in != solve_) continue;
    resource.left -= use.share * rate;
    resource.not_fixed -= use.share;
  }
}

void SharedResources::SetRate(Running& running, Time now, std::uint64_t rate) {
  const Work done =
      static_cast<Work>(running.rate) * static_cast<Work>((now - running.since).picoseconds());
  running.remaining -= std::min(done, running.remaining);
  running.since = now;
  running.rate = rate;
  const Work rest = (running.remaining + rate - 1) / rate;
  running.end = now + Time::FromPicoseconds(static_cast<std::int64_t>(rest));
}

}  // namespace stepcast::engine
