#include "src/collective/node_aware.h"

namespace stepcast::collective {

NodeAware::NodeAware(const Options& options)
    : StepList({.algorithm = "node_aware",
                .kind = CollectiveKind::kAllToAll,
                .size = options.size,
                .ranks = options.nodes * options.ranks_per_node,
                .channels = options.channels,
                .lanes = 3,
                .loops = options.loops,
                .blocks = std::int64_t{options.nodes} * options.ranks_per_node * options.nodes *
                          options.ranks_per_node,
                .total = options.size * (std::int64_t{options.nodes} * options.ranks_per_node)}),
      nodes_(options.nodes),
      group_(options.ranks_per_node) {}

std::int64_t NodeAware::StepsPerLoop(int worker) const {
  const int beside = group_ - 1;
  const int other_nodes = nodes_ - 1;
  switch (LaneOf(worker)) {
    case kSend:  // its own block copied, the blocks for its node, for each node the other rails'
      return 1 + beside + other_nodes * beside;
    case kForward:  // for each node: the others' blocks in, all on
      return other_nodes * (beside + 1);
    default:
      return beside + other_nodes;
  }
}

Step NodeAware::At(int worker, std::int64_t i) const {
  const std::int64_t steps = StepsPerLoop(worker);
  int step = static_cast<int>(i % steps);
  const int channel = ChannelOf(worker);
  const int rank = ParticipantOf(worker);
  const int node = rank / group_;
  const int place = rank % group_;
  const int beside = group_ - 1;
  // The other ranks of the node, starting with the next one; for receivers, from the previous one
  // backward.
  const auto next = [&](int number) { return node * group_ + (place + 1 + number) % group_; };
  const auto previous = [&](int number) {
    return node * group_ + (place + 2 * group_ - 1 - number) % group_;
  };
  Step result{.chunk = {.part = PartOf(channel, i / steps)}};
  switch (LaneOf(worker)) {
    case kSend: {
      if (step == 0) {
        result.copy = true;
        result.chunk.block = BlockOf(rank, rank);
        break;
      }
      --step;
      const int node_ahead = step / beside;  // 0: its own node
      const int by_way_of = next(step % beside);
      const int to = (node + node_ahead) % nodes_ * group_ + by_way_of % group_;
      result.chunk.block = BlockOf(rank, to);
      result.send_to = WorkerOf(channel, by_way_of, node_ahead == 0 ? kReceive : kForward);
      break;
    }
    case kForward: {
      const int to = (node + 1 + step / group_) % nodes_ * group_ + place;
      const int turn = step % group_;
      if (turn < beside) {
        const int from = previous(turn);
        result.receive_from = WorkerOf(channel, from, kSend);
        result.chunk.block = BlockOf(from, to);
      } else {
        result.chunk.block = BlockOf(node * group_, to);
        result.chunk.stride = ranks();
        result.chunk.count = group_;
        result.send_to = WorkerOf(channel, to, kReceive);
      }
      break;
    }
    default:
      result.copy = true;
      if (step < beside) {
        const int from = previous(step);
        result.receive_from = WorkerOf(channel, from, kSend);
        result.chunk.block = BlockOf(from, rank);
      } else {
        const int from = (node + 2 * nodes_ - 1 - (step - beside)) % nodes_;
        result.receive_from = WorkerOf(channel, from * group_ + place, kForward);
        result.chunk.block = BlockOf(from * group_, rank);
        result.chunk.stride = ranks();
        result.chunk.count = group_;
      }
  }
  return Sized(result);
}

}  // namespace stepcast::collective
