#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/check.h"
#include "src/base/time.h"

namespace stepcast::engine {

// Activities that run at the same time and slow each other down if they use the same resources.
//
// The problem
//   Activity a has work w_a: its duration if nothing slows it down. While activity a
//   runs at rate x_a, 0 < x_a <= 1, its remaining work falls by x_a per unit of time, and it uses
//   the part s_ar x_a of resource r, where s_ar >= 0 is its share. The capacity of a resource is 1:
//
//       sum over a of s_ar x_a  <=  1     for every resource r.
//
// The answer
//   The rates are max-min fair: making any activity faster would slow down an activity that is
//   not faster. The rates are unique, and progressive filling finds them: the rates of all
//   activities rise together from zero. When
//
//       level_r = (1 - use of r by fixed activities) / (sum of s_ar over activities not fixed)
//
//   is the minimum over all resources (and below 1), resource r is exhausted: the rates of its
//   activities are fixed at level_r, and the other rates continue to rise. Activities that no
//   resource limits run at rate 1. SimGrid's linear max-min solver computes the same rates
//   (src/kernel/lmm of simgrid/simgrid), with equal weights and with 1 as the bound of every rate.
//
//   A share above 1 bounds the rate of its activity, whatever else runs: with a share of 4, the
//   rate is at most a quarter. Contention for other resources then slows the activity only
//   if it lowers the rate below this bound.
//
//   Example: a matrix multiplication uses all the SMs (share 1), a collective a tenth of the SMs
//   (0.1). The level of the SMs is 1 / 1.1, so both run at rate 0.909. The multiplication takes a
//   tenth longer while the collective runs.
//
// Persistent activities
//   A kernel may launch one thread block per multiprocessor that remains until the kernel ends
//   (Use::kPersists; share: the fraction of the multiprocessors that its blocks need). Other
//   activities may reserve multiprocessors until they end (Use::kHolds). If the shares add up to
//   more than 1, the blocks without a multiprocessor run after the first blocks, in a second round
//   that takes as long. The rate of a persistent activity is then at most 1/2, and it does not slow
//   the activities that reserve multiprocessors:
//
//       x_a <= 1/2   if its share and the shares of kHolds activities add up to more than 1.
//
// Scope of a solve
//   A resource whose shares add up to at most 1 limits nothing, because no rate exceeds 1. So only
//   over-subscribed resources matter. A start or finish affects only the activities that are
//   connected to it through over-subscribed resources, directly or through other activities.
//   Usually no resource is over-subscribed: nothing is solved and no end moves. Starts and finishes
//   at the same time are solved together, because hundreds of ranks in one collective change
//   kernels at the same time. The time of a solve is proportional to the number n of affected uses,
//   or to n log n if levels differ.
//
// Numbers
//   Shares are multiples of 2^-24, and rates are multiples of 2^-38. Both are rounded down, but a
//   share above 1 is rounded up, so that it still bounds its activity's rate. Remaining work is
//   exact, in units of 2^-38 ps. Ends are rounded up to a picosecond. Therefore, an uncontended
//   activity ends at exactly start + work, and no work is lost or gained when rates change. No
//   resource is used beyond its capacity, and no end is too early. Rounding a rate x down delays an
//   end by less than 4e-12 / x of the time at this rate: for a second at a rate near 1, by less
//   than 4 ps. There is no floating point, so every machine computes the same result.
//
// Usage: activities and resources are numbers below those passed to Reset. Call Start and Finish
// for everything that starts and finishes at one time, then Settle. moved() then lists the
// activities with a new end. The owner calls Finish when an activity's end is reached. Nothing
// allocates once the lists have reached their maximum length.
class SharedResources {
 public:
  using Activity = std::uint32_t;

  // The units of rates (2^-38) and of work (2^-38 ps). Work needs 128 bits, because 64 bits
  // overflow after 67 us.
  __extension__ using Work = unsigned __int128;
  static constexpr int kRateBits = 38;
  static constexpr std::uint64_t kFullRate = std::uint64_t{1} << kRateBits;

  // The fraction of a resource that an activity uses if it runs at rate 1.
  struct Use {
    enum class Way : std::uint8_t { kDivides, kPersists, kHolds };
    std::uint32_t resource = 0;
    std::uint64_t share = 0;  // in units of 2^-24
    Way way = Way::kDivides;
  };
  static constexpr std::uint32_t kWhole = 1u << 24;
  static constexpr int kMostShare = 128;
  // Converts a share from 0 to kMostShare to units of 2^-24. Shares up to 1 are rounded down, so
  // that the fractions of a resource never add up to more than 1. Shares above 1 are rounded up.
  static std::uint32_t Share(double share);

  SharedResources() = default;
  SharedResources(std::uint32_t resources, std::uint32_t activities) {
    Reset(resources, activities);
  }
  // Removes all activities, and sets the numbers of resources and activities. Resources and
  // activities are numbered from 0.
  void Reset(std::uint32_t resources, std::uint32_t activities);

  // Starts `activity` at `now` with `work` remaining. `uses` has each resource at most once,
  // numbered relative to `first_resource`, and must not change until the activity finishes. The
  // times passed to Start and Settle must not decrease.
  void Start(Activity activity, Time now, Time work, std::span<const Use> uses,
             std::uint32_t first_resource = 0) {
    STEPCAST_CHECK(work >= Time(), "work is not negative");
    Start(activity, now, Done(work, kFullRate), uses, first_resource);
  }
  // Starts an activity with remaining work `left`, in units of 2^-38 ps.
  void Start(Activity activity, Time now, Work left, std::span<const Use> uses,
             std::uint32_t first_resource = 0);

  // Ends `activity`, at its end or before its end.
  void Finish(Activity activity);

  // Computes rates and ends from `now` on. `now` must be the time of all starts and finishes since
  // the last call.
  void Settle(Time now);

  // Returns whether an activity was started or finished since the last Settle.
  bool unsettled() const { return unsettled_; }

  bool running(Activity activity) const { return activities_[activity].running; }
  // Returns the end of the activity, which is correct unless another activity starts or finishes
  // before. Call this function after Settle.
  Time end(Activity activity) const { return activities_[activity].end; }
  // Returns the current rate of the activity. Call this function after Settle.
  double rate(Activity activity) const;

  // Returns the work done in `time` at `rate`. Requires time >= 0.
  static Work Done(Time time, std::uint64_t rate) {
    return static_cast<Work>(rate) * static_cast<std::uint64_t>(time.picoseconds());
  }
  static Time TimeFor(Work work, std::uint64_t rate) {
    if (rate == kFullRate) {  // avoids a division
      return Time::FromPicoseconds(static_cast<std::int64_t>((work + kFullRate - 1) >> kRateBits));
    }
    return Time::FromPicoseconds(static_cast<std::int64_t>((work + rate - 1) / rate));
  }
  // The largest rate of an activity that runs in two rounds.
  static constexpr std::uint64_t kTwoRounds = kFullRate / 2;
  // Returns the current rate in units of 2^-38. Call this function after Settle.
  std::uint64_t rate_units(Activity activity) const { return activities_[activity].rate; }
  // Returns the work that remains at `now`, which must not be before the time of the last Settle.
  Work Remaining(Activity activity, Time now) const {
    const Running& running = activities_[activity];
    const Work done = Done(now - running.since, running.rate);
    return running.remaining - (done < running.remaining ? done : running.remaining);
  }

  // Returns the activities that started before the last Settle, and the activities whose end the
  // last Settle changed.
  std::span<const Activity> moved() const { return moved_; }

 private:
  struct Running {
    bool running = false;
    bool started = false;          // whether the activity started since the last Settle
    std::uint32_t fixed_in = 0;    // number of the solve that set the activity's rate
    std::uint32_t reached_in = 0;  // number of the last solve that affects the activity
    std::uint32_t first_resource = 0;
    std::uint64_t rate = 0;  // in units of 2^-38
    std::uint64_t new_rate = 0;
    Work remaining = 0;  // work that remains at `since`
    Time since;
    Time end;
    std::span<const Use> uses;
  };
  struct User {
    Activity activity = 0;
    std::uint64_t share = 0;  // positive, in units of 2^-24
  };
  struct Resource {
    bool changed = false;         // over-subscribed, with changed activities
    std::uint64_t held = 0;       // shares of the activities that reserve the resource (kHolds)
    std::uint64_t left = 0;       // remaining capacity, during a solve, in units of 2^-62
    std::uint64_t not_fixed = 0;  // shares of activities without a fixed rate
    std::uint64_t level = 0;      // rate of these activities that exhausts the resource, in 2^-38
    std::vector<User> users;
  };
  struct Level {
    std::uint64_t level = 0;
    std::uint32_t resource = 0;
  };
  struct Later;  // orders a heap with the lowest level on top

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
  // The state of each resource, in separate arrays, because a collective of hundreds of ranks reads
  // thousands of entries.
  std::vector<std::uint64_t> totals_;      // sums of the shares of running activities, in 2^-24
  std::vector<std::uint32_t> reached_in_;  // number of the last solve that affects each resource
  std::vector<Activity> moved_;
  bool unsettled_ = false;
  std::vector<Activity> started_;       // started since the last Settle; some may have finished
  std::vector<std::uint32_t> changed_;  // resources whose activities changed
  // The resources and activities that the current solve affects.
  std::uint32_t solve_ = 0;
  std::vector<std::uint32_t> reached_resources_;
  std::vector<Activity> reached_activities_;
  std::vector<Activity> two_rounds_;   // in two rounds, with a rate that is not fixed
  std::vector<std::uint32_t> lowest_;  // resources that are exhausted next, at equal levels
  // A heap of the other candidates, lowest level on top. Levels only rise while rates are fixed, so
  // an entry with an outdated level is popped too early, and is then pushed again.
  std::vector<Level> levels_;
};

}  // namespace stepcast::engine
