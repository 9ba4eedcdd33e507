#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/check.h"
#include "src/base/time.h"

namespace stepcast::engine {

// Activities that run at the same time and slow each other down where they use the same resources.
//
// The problem
//   Activity a has work w_a: the time it takes when nothing hinders it. While it runs at rate
//   x_a, 0 < x_a <= 1, its remaining work falls by x_a per unit of time, and it uses the part
//   s_ar x_a of resource r, 0 <= s_ar (its share). A resource cannot give more than it has:
//
//       sum over a of s_ar x_a  <=  1     for every resource r.
//
// The answer
//   The rates are max-min fair: no activity can be made faster without making one slower that is no
//   faster already. They are unique, and progressive filling finds them. Let the rates of all
//   activities rise together from zero. When
//
//       level_r = (1 - what the fixed activities use of r) / (sum of s_ar over activities not
//       fixed)
//
//   is the least over all resources (and below 1), resource r is used up: its activities stay at
//   that level, the others rise on. When no resource is left that stops them, they run at rate 1.
//   It is what SimGrid's linear max-min solver does (src/kernel/lmm of simgrid/simgrid), with equal
//   weights and with 1 as the bound of every rate.
//
//   A share above 1 bounds the rate of its activity, whatever else runs: at share 4 it is at
//   most a quarter. What others take elsewhere then slows the activity only where it takes more
//   than the bound does.
//
//   Example: a matrix product uses all the SMs (share 1), a collective a tenth of them (0.1). The
//   level of the SMs is 1 / 1.1, so both run at rate 0.909; the product takes a tenth longer while
//   the collective is there.
//
// What persists
//   A kernel may launch one thread block for each multiprocessor that stays there until the kernel
//   ends (Use::kPersists; share: the part of the multiprocessors that its blocks want). When others
//   hold multiprocessors as long (Use::kHolds), and the shares add up to more than 1, the blocks
//   without a multiprocessor run after the first ones: in a second round, which takes as long. Such
//   an activity is bound by rate 1/2, and the holders are not slowed by it:
//
//       x_a <= 1/2   where its share and the shares of those that hold its resource exceed 1.
//
// Scope of a solve
//   A resource whose shares add up to no more than 1 limits nothing, for no rate exceeds 1. So only
//   the over-subscribed resources count, and a start or finish concerns only the activities that
//   are linked to it through such resources, one after the other. When there are none, the ordinary
//   case, nothing is solved and no end moves. What starts and finishes at one instant is solved
//   together: hundreds of ranks that a collective couples change kernels at the same time. A solve
//   takes time in proportion to what it concerns, and to its logarithm where levels differ.
//
// Numbers
//   Shares are whole multiples of 2^-24 and rates of 2^-38, rounded down (a share above 1 up, so
//   that its activity keeps its bound); remaining work is exact,
//   in units of 2^-38 ps; ends are rounded up to a picosecond. Hence an activity that is uncontended
//   ends at exactly start + work, work is neither lost nor won however often rates change, no
//   resource is ever used beyond its capacity, and no end comes too early. Rounding a rate x down
//   makes an end late by less than 4e-12 / x of the time it covers, a second by less than 4 ps at a
//   rate near 1. There is no floating point, so every machine gives the same result.
//
// Use: activities and resources are numbers below those given to Reset. Start and finish what there
// is to start and finish at an instant, then Settle it; moved() then lists the activities whose end
// is new. The owner calls Finish when an activity's end has come. Nothing allocates once the lists
// have grown to the longest they get.
class SharedResources {
 public:
  using Activity = std::uint32_t;

  // Rates are in units of 2^-38, and work in units of 2^-38 ps (64 bits would hold 67 us).
  __extension__ using Work = unsigned __int128;
  static constexpr int kRateBits = 38;
  static constexpr std::uint64_t kFullRate = std::uint64_t{1} << kRateBits;

  // The part of a resource that an activity uses at rate 1.
  struct Use {
    enum class Way : std::uint8_t { kDivides, kPersists, kHolds };
    std::uint32_t resource = 0;
    std::uint64_t share = 0;  // in units of 2^-24
    Way way = Way::kDivides;
  };
  static constexpr std::uint32_t kWhole = 1u << 24;
  static constexpr int kMostShare = 128;
  // A share from 0 to kMostShare: up to 1 rounded down, so that parts of a whole never add up to
  // more than it, and above 1 rounded up.
  static std::uint32_t Share(double share);

  SharedResources() = default;
  SharedResources(std::uint32_t resources, std::uint32_t activities) {
    Reset(resources, activities);
  }
  // Nothing runs; the activities are numbered below `activities`.
  void Reset(std::uint32_t resources, std::uint32_t activities);

  // `activity` begins at `now` with `work` left to do. It names a resource once at most, and `uses`
  // must stay as they are until it finishes; they count resources from `first_resource`. Times
  // given to Start and Settle never decrease.
  void Start(Activity activity, Time now, Time work, std::span<const Use> uses,
             std::uint32_t first_resource = 0) {
    STEPCAST_CHECK(work >= Time(), "work is not negative");
    Start(activity, now, Done(work, kFullRate), uses, first_resource);
  }
  // The same for one that has so much left to do.
  void Start(Activity activity, Time now, Work left, std::span<const Use> uses,
             std::uint32_t first_resource = 0);

  // `activity` is over: it has reached its end, or is given up before.
  void Finish(Activity activity);

  // Rates and ends from `now` on, the time of all that was started and finished since the last
  // call.
  void Settle(Time now);

  // Something was started or finished since Settle was called.
  bool unsettled() const { return unsettled_; }

  bool running(Activity activity) const { return activities_[activity].running; }
  // When it ends if nothing starts or finishes before. Settled.
  Time end(Activity activity) const { return activities_[activity].end; }
  // Its present rate. Settled.
  double rate(Activity activity) const;

  // `time` is not negative.
  static Work Done(Time time, std::uint64_t rate) {
    return static_cast<Work>(rate) * static_cast<std::uint64_t>(time.picoseconds());
  }
  static Time TimeFor(Work work, std::uint64_t rate) {
    if (rate == kFullRate) {  // without a division
      return Time::FromPicoseconds(static_cast<std::int64_t>((work + kFullRate - 1) >> kRateBits));
    }
    return Time::FromPicoseconds(static_cast<std::int64_t>((work + rate - 1) / rate));
  }
  // The rate of what runs in two rounds.
  static constexpr std::uint64_t kTwoRounds = kFullRate / 2;
  // Settled.
  std::uint64_t rate_units(Activity activity) const { return activities_[activity].rate; }
  // Remaining work at `now`, which is not before the last Settle.
  Work Remaining(Activity activity, Time now) const {
    const Running& running = activities_[activity];
    const Work done = Done(now - running.since, running.rate);
    return running.remaining - (done < running.remaining ? done : running.remaining);
  }

  // The activities that Settle found started, and the others whose end it changed.
  std::span<const Activity> moved() const { return moved_; }

 private:
  struct Running {
    bool running = false;
    bool started = false;          // since the last Settle
    std::uint32_t fixed_in = 0;    // the solve that gave it its rate
    std::uint32_t reached_in = 0;  // the solve that concerns it
    std::uint32_t first_resource = 0;
    std::uint64_t rate = 0;  // in units of 2^-38
    std::uint64_t new_rate = 0;
    Work remaining = 0;  // at `since`
    Time since;
    Time end;
    std::span<const Use> uses;
  };
  struct User {
    Activity activity = 0;
    std::uint64_t share = 0;  // more than none
  };
  struct Resource {
    bool changed = false;         // over-subscribed, and its activities have changed
    std::uint64_t held = 0;       // shares of those that hold it
    std::uint64_t left = 0;       // of the capacity, during a solve, in units of 2^-62
    std::uint64_t not_fixed = 0;  // shares of the activities whose rate is not fixed yet
    std::uint64_t level = 0;      // the rate at which those use it up, in units of 2^-38
    std::vector<User> users;
  };
  struct Level {
    std::uint64_t level = 0;
    std::uint32_t resource = 0;
  };
  struct Later;  // puts the lowest level on top of a heap

  void Change(std::uint32_t resource);
  void Reach(std::uint32_t resource);
  void ReachThrough(Activity activity);
  void Solve();
  std::uint64_t LevelOf(std::uint32_t resource) const;
  void FixUsersOfLowest(std::uint64_t level);
  std::uint64_t LowestLevel();
  std::uint64_t FindLowest();
  void Fix(Activity activity, std::uint64_t rate);
  bool TakesTwoRounds(const Running& running) const;
  void FixTwoRounds();
  static void SetRate(Running& running, Time now, std::uint64_t rate);

  std::vector<Running> activities_;
  std::vector<Resource> resources_;
  // By resource, and by themselves: a collective of hundreds of ranks asks this of thousands.
  std::vector<std::uint64_t> totals_;      // shares of all who run, in units of 2^-24
  std::vector<std::uint32_t> reached_in_;  // the solve that concerns it
  std::vector<Activity> moved_;
  bool unsettled_ = false;
  std::vector<Activity> started_;       // since the last Settle; some may have finished
  std::vector<std::uint32_t> changed_;  // resources
  // Resources and activities of a solve.
  std::uint32_t solve_ = 0;
  std::vector<std::uint32_t> reached_resources_;
  std::vector<Activity> reached_activities_;
  std::vector<Activity> two_rounds_;   // of those, the ones that are bound and not fixed yet
  std::vector<std::uint32_t> lowest_;  // the resources that are used up next, all at one level
  // A heap of the others that may be, the lowest first. Levels only rise while activities are
  // fixed, so that one that is out of date comes too early and is put back.
  std::vector<Level> levels_;
};

}  // namespace stepcast::engine
