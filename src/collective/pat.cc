#include "src/collective/pat.h"

#include <bit>

#include "src/base/check.h"

namespace stepcast::collective {

Pat::Pat(const Options& options)
    : StepList({.algorithm = "pat",
                .kind = options.kind,
                .size = options.size,
                .ranks = options.ranks,
                .channels = options.channels,
                .loops = options.loops,
                .blocks = options.ranks,
                .total = options.size}),
      rounds_(std::bit_width(static_cast<unsigned>(options.ranks - 1))) {
  STEPCAST_CHECK(kind() == CollectiveKind::kAllGather || kind() == CollectiveKind::kReduceScatter,
                 "the PAT algorithm supports only all-gather and reduce-scatter");
}

int Pat::StageOf(int from_worker, int to_worker) const {
  const int n = ranks();
  const int ahead = (ParticipantOf(to_worker) - ParticipantOf(from_worker) + n) % n;
  const int distance = kind() == CollectiveKind::kAllGather ? ahead : n - ahead;
  return std::bit_width(static_cast<unsigned>(distance)) - 1;
}

Step Pat::At(int worker, std::int64_t i) const {
  const int n = ranks();
  const std::int64_t steps = StepsPerLoop(worker);
  const int step = static_cast<int>(i % steps);
  const int channel = ChannelOf(worker);
  const int rank = ParticipantOf(worker);
  const bool gathers = kind() == CollectiveKind::kAllGather;
  Step result{.chunk = {.block = rank, .part = PartOf(channel, i / steps)}};
  if (step == (gathers ? 0 : 2 * rounds_)) {
    result.copy = true;  // its own block
    return Sized(result);
  }
  const int turn = gathers ? step - 1 : step;  // sends and receives alternate
  const int round = turn / 2;
  const bool sends = turn % 2 == 0;
  const int distance = 1 << (gathers ? rounds_ - 1 - round : round);
  const int behind = (rank - distance + n) % n;
  const int ahead = (rank + distance) % n;
  // Blocks travel away from their rank, and sums travel toward it. Either way, the rank nearer to
  // the block's own rank is the one behind.
  const int nearer = gathers == sends ? rank : behind;
  result.chunk.block = nearer;
  result.chunk.stride = -2 * distance;
  result.chunk.count = (n - distance + 2 * distance - 1) / (2 * distance);
  if (sends) {
    result.send_to = WorkerOf(channel, gathers ? ahead : behind, 0);
  } else {
    result.receive_from = WorkerOf(channel, gathers ? behind : ahead, 0);
    result.reduce = !gathers;
    result.copy = gathers;
  }
  return Sized(result);
}

}  // namespace stepcast::collective
