#include "src/runtime/clock_offsets.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace stepcast::runtime {
namespace {

// The tightest bounds come from the quickest messages; a few dozen rounds find quick ones.
constexpr int kRounds = 32;

// Of the running machine: two processes that read the same have the same CLOCK_MONOTONIC.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

std::int64_t MonotonicNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Attempt<ClockOffset> CompareClocks(Job& job) {
  const Place& place = job.place();
  ClockOffset result;
  if (place.ranks == 1) {
    result.at = MonotonicNanoseconds();
    return result;
  }
  const std::string own_id = BootId();
  const Attempt<std::string> first_id = job.Broadcast(own_id);
  if (!first_id) return tl::unexpected(first_id.error());
  const bool same = !own_id.empty() && own_id == *first_id;
  const Attempt<std::vector<std::string>> answers = job.Gather(same ? "y" : "n");
  if (!answers) return tl::unexpected(answers.error());
  const bool all_here = std::all_of(answers->begin(), answers->end(),
                                    [](const std::string& answer) { return answer == "y"; });
  const Attempt<std::string> rounds = job.Broadcast(all_here ? "0" : std::to_string(kRounds));
  if (!rounds) return tl::unexpected(rounds.error());

  std::int64_t low = std::numeric_limits<std::int64_t>::min() / 2;
  std::int64_t high = std::numeric_limits<std::int64_t>::max() / 2;
  for (int round = std::atoi(rounds->c_str()); round > 0; --round) {
    const Attempt<std::string> sent = job.Broadcast(std::to_string(MonotonicNanoseconds()));
    if (!sent) return tl::unexpected(sent.error());
    const std::int64_t came = MonotonicNanoseconds();
    high = std::min(high, came - static_cast<std::int64_t>(std::atoll(sent->c_str())));

    const std::int64_t answered = MonotonicNanoseconds();
    const Attempt<std::vector<std::string>> gathered = job.Gather("");
    if (!gathered) return tl::unexpected(gathered.error());
    const Attempt<std::string> arrived = job.Broadcast(std::to_string(MonotonicNanoseconds()));
    if (!arrived) return tl::unexpected(arrived.error());
    low = std::max(low, answered - static_cast<std::int64_t>(std::atoll(arrived->c_str())));
  }
  result.at = MonotonicNanoseconds();
  if (same || place.rank == 0) return result;
  result.ahead = low + (high - low) / 2;
  result.uncertain = (high - low + 1) / 2;
  return result;
}

double Drift(const ClockOffset& before, const ClockOffset& after) {
  if (after.at <= before.at) return 0;
  return static_cast<double>(after.ahead - before.ahead) /
         static_cast<double>(after.at - before.at);
}

}  // namespace stepcast::runtime
