#include "src/collective/collnet.h"

#include <algorithm>

namespace stepcast::collective {

CollNet::CollNet(const Options& options)
    : StepList({.algorithm = "collnet",
                .kind = CollectiveKind::kAllReduce,
                .size = options.size,
                .ranks = options.nodes * options.ranks_per_node,
                .switches = 1,
                .channels = options.channels,
                .lanes = 4,
                .loops = options.loops,
                .blocks = options.ranks_per_node,
                .total = options.size}),
      nodes_(options.nodes),
      heads_(options.ranks_per_node) {}

std::int64_t CollNet::StepsPerLoop(int worker) const {
  const int lane = LaneOf(worker);
  if (ParticipantOf(worker) == ranks()) {
    // For each head: receive the sum of every node; the last receive is also the first send.
    return lane == kScatter ? std::int64_t{heads_} * (2 * nodes_ - 1) : 0;
  }
  const int others = heads_ - 1;
  return lane == kScatter || lane == kGather ? others : std::max(1, others);
}

Step CollNet::At(int worker, std::int64_t i) const {
  const std::int64_t steps = StepsPerLoop(worker);
  const int step = static_cast<int>(i % steps);
  const int channel = ChannelOf(worker);
  const int participant = ParticipantOf(worker);
  const int lane = LaneOf(worker);
  const int root = WorkerOf(channel, ranks(), 0);
  Step result{.chunk = {.part = PartOf(channel, i / steps)}};
  if (participant == ranks()) {
    const int head = step / (2 * nodes_ - 1);
    const int turn = step % (2 * nodes_ - 1);
    const auto head_of = [&](int node, int its_lane) {
      return WorkerOf(channel, node * heads_ + head, its_lane);
    };
    result.chunk.block = head;
    if (turn < nodes_) {
      result.receive_from = head_of(turn, kUp);
      result.reduce = true;
    }
    if (turn >= nodes_ - 1) result.send_to = head_of(turn - nodes_ + 1, kDown);
    return Sized(result);
  }

  const int node = participant / heads_;
  const int own = participant % heads_;
  const int others = heads_ - 1;
  // The other heads of the node, starting after this one, so that not all ranks send to the same
  // head.
  const int other = (own + 1 + step) % heads_;
  const auto worker_of_other = [&](int its_lane) {
    return WorkerOf(channel, node * heads_ + other, its_lane);
  };
  result.chunk.block = own;
  switch (lane) {
    case kScatter:
      result.chunk.block = other;
      result.send_to = worker_of_other(kUp);
      break;
    case kUp:
      if (others > 0) {
        result.receive_from = worker_of_other(kScatter);
        result.reduce = true;
      }
      if (step + 1 >= others) result.send_to = root;
      break;
    case kDown:
      if (step == 0) {
        result.receive_from = root;
        result.copy = true;
      }
      if (others > 0) result.send_to = worker_of_other(kGather);
      break;
    default:
      result.chunk.block = other;
      result.receive_from = worker_of_other(kDown);
      result.copy = true;
  }
  return Sized(result);
}

}  // namespace stepcast::collective
