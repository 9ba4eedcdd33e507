#include "src/collective/ring.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::collective {
namespace {

int RanksOf(const std::vector<std::vector<int>>& orders) {
  STEPCAST_CHECK(!orders.empty(), "a ring has a channel");
  const std::size_t ranks = orders.front().size();
  for (const std::vector<int>& order : orders) {
    std::vector<bool> seen(ranks);
    STEPCAST_CHECK(order.size() == ranks, "every channel must visit all ranks");
    for (const int rank : order) {
      STEPCAST_CHECK(rank >= 0 && static_cast<std::size_t>(rank) < ranks &&
                         !seen[static_cast<std::size_t>(rank)],
                     "a ring must visit every rank once");
      seen[static_cast<std::size_t>(rank)] = true;
    }
  }
  return static_cast<int>(ranks);
}

}  // namespace

Ring::Ring(const Options& options)
    : StepList({.algorithm = "ring",
                .kind = options.kind,
                .size = options.size,
                .ranks = RanksOf(options.orders),
                .channels = static_cast<int>(options.orders.size()),
                .loops = options.loops,
                .slices = options.slices,
                .blocks = RanksOf(options.orders),
                .total = options.size}),
      ring_(static_cast<std::uint32_t>(ranks())),
      slices_(static_cast<std::uint32_t>(options.slices)) {
  const std::uint32_t n = ring_;
  switch (options.kind) {
    case CollectiveKind::kAllReduce:
      steps_ = 2 * n - 1;
      first_ = n - 1;
      last_reduce_ = n - 1;
      first_copy_ = n - 1;
      break;
    case CollectiveKind::kReduceScatter:
      steps_ = n;
      first_ = n - 1;
      last_reduce_ = n - 1;
      first_copy_ = n - 1;
      break;
    case CollectiveKind::kAllGather:
      steps_ = n;
      first_ = 0;
      last_reduce_ = 0;
      first_copy_ = 0;
      break;
    default:
      STEPCAST_CHECK(false, "a ring supports only reduce-scatter, all-gather and all-reduce");
  }
  STEPCAST_CHECK(StepCount(0) < (std::int64_t{1} << 32), "the number of steps must fit in 32 bits");
  for (int channel = 0; channel < channels(); ++channel) {
    const std::vector<int>& order = options.orders[static_cast<std::size_t>(channel)];
    const auto begin = static_cast<std::uint32_t>(orders_.size());
    orders_.insert(orders_.end(), order.begin(), order.end());
    seats_.resize(seats_.size() + n);
    for (std::uint32_t p = 0; p < n; ++p) {
      seats_[static_cast<std::size_t>(WorkerOf(channel, order[p], 0))] = {
          .position = p,
          .ring_begin = begin,
          .first_part = static_cast<std::uint32_t>(PartOf(channel, 0)),
          .next = WorkerOf(channel, order[(p + 1) % n], 0),
          .previous = WorkerOf(channel, order[(p + n - 1) % n], 0)};
    }
  }
}

Chain::Chain(const Options& options)
    : StepList({.algorithm = "ring",
                .kind = options.kind,
                .size = options.size,
                .ranks = RanksOf(options.orders),
                .channels = static_cast<int>(options.orders.size()),
                .loops = options.loops,
                .total = options.size}) {
  const bool broadcast = options.kind == CollectiveKind::kBroadcast;
  STEPCAST_CHECK(broadcast || options.kind == CollectiveKind::kReduce,
                 "a chain broadcasts or reduces");
  STEPCAST_CHECK(options.root >= 0 && options.root < ranks(), "the root is a rank");
  next_.assign(static_cast<std::size_t>(workers()), kNobody);
  previous_ = next_;
  for (int channel = 0; channel < channels(); ++channel) {
    std::vector<int> order = options.orders[static_cast<std::size_t>(channel)];
    auto first = std::find(order.begin(), order.end(), options.root);
    if (!broadcast) ++first;  // the root comes last
    std::rotate(order.begin(), first, order.end());
    for (std::size_t p = 0; p + 1 < order.size(); ++p) {
      const int from = WorkerOf(channel, order[p], 0);
      const int to = WorkerOf(channel, order[p + 1], 0);
      next_[static_cast<std::size_t>(from)] = to;
      previous_[static_cast<std::size_t>(to)] = from;
    }
  }
}

Step Chain::At(int worker, std::int64_t i) const {
  const std::int32_t next = next_[static_cast<std::size_t>(worker)];
  const std::int32_t previous = previous_[static_cast<std::size_t>(worker)];
  const bool broadcast = kind() == CollectiveKind::kBroadcast;
  return Sized({.receive_from = previous,
                .send_to = next,
                .reduce = !broadcast && previous != kNobody,
                .copy = broadcast || next == kNobody,
                .chunk = {.part = PartOf(ChannelOf(worker), i)}});
}

}  // namespace stepcast::collective
