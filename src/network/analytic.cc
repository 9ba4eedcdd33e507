#include "src/network/analytic.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"
#include "src/network/chains.h"

namespace stepcast::network {
namespace {

using collective::Ring;
using collective::StepList;

// As many loops are evaluated as have no more steps than this together. A ring of which not even
// this many loops fit is walked by sums.
constexpr std::int64_t kMostSteps = 1 << 15;
constexpr std::int64_t kFewLoops = 4;
constexpr std::int64_t kFewOverlappingLoops = 2;

std::int64_t StepsOfLoop(const StepList& list) {
  std::int64_t steps = 0;
  for (int worker = 0; worker < list.workers(); ++worker) steps += list.StepsPerLoop(worker);
  return steps;
}

// How many loops are evaluated.
int LoopsOf(const StepList& list) {
  const std::int64_t fit = kMostSteps / std::max<std::int64_t>(1, StepsOfLoop(list));
  const std::int64_t least = list.LoopsOverlap() ? kFewOverlappingLoops : kFewLoops;
  return static_cast<int>(std::min<std::int64_t>(list.loops(), std::max(least, fit)));
}

// The largest sum of consecutive numbers around a circle, of `least` to `most` of them. The window
// that ends before position e has the sum prefix(e) - prefix(b); the smallest prefix among the
// admissible beginnings is kept in a queue whose numbers rise.
std::int64_t LargestWindow(const std::vector<std::int64_t>& circle, std::int64_t least,
                           std::int64_t most) {
  const auto n = static_cast<std::int64_t>(circle.size());
  std::int64_t whole = 0;
  for (const std::int64_t number : circle) whole += number;
  // Whole rounds are taken as long as they add, or have to be.
  std::int64_t rounds = 0;
  if (whole > 0) {
    rounds = std::max<std::int64_t>(0, most / n - 1);
  } else {
    rounds = least / n;
  }
  least = std::max<std::int64_t>(0, least - rounds * n);
  most = std::min(most - rounds * n, 2 * n);

  std::vector<std::int64_t> prefix(static_cast<std::size_t>(3 * n) + 1);
  for (std::int64_t i = 0; i < 3 * n; ++i) {
    prefix[static_cast<std::size_t>(i) + 1] =
        prefix[static_cast<std::size_t>(i)] + circle[static_cast<std::size_t>(i % n)];
  }
  std::vector<std::int64_t> queue(prefix.size());
  std::size_t front = 0;
  std::size_t back = 0;
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (std::int64_t end = least; end <= 3 * n; ++end) {
    const std::int64_t enters = end - least;
    const auto value = [&](std::int64_t i) { return prefix[static_cast<std::size_t>(i)]; };
    while (back > front && value(queue[back - 1]) >= value(enters)) --back;
    queue[back++] = enters;
    while (queue[front] < end - most) ++front;
    largest = std::max(largest, value(end) - value(queue[front]));
  }
  return largest + rounds * whole;
}

// See analytic.h. `with_bytes`: false counts latencies alone, of one loop.
Time LongestWalk(const Traffic& traffic, const Ring& ring, int channel, bool with_bytes) {
  const std::int64_t loops = with_bytes ? ring.loops() : 1;
  const std::int64_t steps = ring.sends_per_chunk() * loops;
  const std::int64_t slices = ring.slices();
  std::vector<std::int64_t> on;      // [position]: latency + d
  std::vector<std::int64_t> leaves;  // [position]: d
  int worker = ring.WorkerOf(channel, 0, 0);
  for (int position = 0; position < ring.ranks(); ++position) {
    const Connection& connection = traffic.From(worker).front();
    const Time message =
        with_bytes ? Bytes(connection.bytes / connection.messages) / connection.rate : Time();
    leaves.push_back(message.picoseconds());
    on.push_back((connection.latency + message).picoseconds());
    worker = ring.NextOf(worker);
  }
  const std::int64_t slowest = *std::max_element(leaves.begin(), leaves.end());
  const std::int64_t filled = loops * (slices - 1) * slowest;
  const std::int64_t walking = LargestWindow(on, steps, steps);
  std::vector<std::int64_t> gain = on;
  for (std::int64_t& number : gain) number -= slices * slowest;
  const std::int64_t waiting = steps * slices * slowest + LargestWindow(gain, loops, steps);
  return Time::FromPicoseconds(filled + std::max(walking, waiting));
}

}  // namespace

AnalyticTime PriceAnalytically(const Traffic& traffic) {
  const StepList& list = traffic.list();
  AnalyticTime price{.bandwidth_bound = traffic.bandwidth_bound()};
  if (traffic.connections().empty()) return price;

  const auto* ring = dynamic_cast<const Ring*>(&list);
  if (ring != nullptr && ring->loops() * ring->ranks() * ring->StepsPerLoop(0) > kMostSteps &&
      kFewLoops * ring->ranks() * ring->StepsPerLoop(0) > kMostSteps) {
    for (int channel = 0; channel < ring->channels(); ++channel) {
      price.total = std::max(price.total, LongestWalk(traffic, *ring, channel, true));
      price.latency_bound =
          std::max(price.latency_bound, LongestWalk(traffic, *ring, channel, false));
    }
  } else {
    const int evaluated = LoopsOf(list);
    const Chains chains(traffic, evaluated, /*with_bytes=*/true);
    price.total = chains.ends().back();
    if (!list.LoopsOverlap() && list.loops() > evaluated) {
      // Loops may differ, for a chain walks on from one to the next: the mean over the later half.
      const int half = evaluated / 2;
      const Time growth =
          chains.ends().back() - chains.ends()[static_cast<std::size_t>(evaluated - half - 1)];
      price.total += Time::FromPicoseconds(static_cast<std::int64_t>(
          static_cast<double>(growth.picoseconds()) / half * (list.loops() - evaluated)));
    }
    for (std::size_t i = 0; i < chains.busy().size(); ++i) {
      price.total = std::max(price.total,
                             chains.through()[i] + (list.loops() - evaluated) * chains.busy()[i]);
    }
    price.latency_bound = Chains(traffic, 1, /*with_bytes=*/false).ends().back();
  }
  // Stages of different ranks may meet on a link when some are late.
  price.total = std::max(price.total, price.bandwidth_bound);
  STEPCAST_CHECK(price.total >= price.latency_bound && price.total >= price.bandwidth_bound,
                 "no collective is faster than its links");
  return price;
}

}  // namespace stepcast::network
