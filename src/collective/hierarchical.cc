#include "src/collective/hierarchical.h"

namespace stepcast::collective {

Hierarchical::Hierarchical(const Options& options)
    : StepList({.algorithm = "hierarchical",
                .kind = CollectiveKind::kAllReduce,
                .size = options.size,
                .ranks = options.nodes * options.ranks_per_node,
                .channels = options.channels,
                .loops = options.loops,
                .blocks = std::int64_t{options.nodes} * options.ranks_per_node,
                .total = options.size}),
      nodes_(options.nodes),
      group_(options.ranks_per_node),
      inside_(group_ > 1 ? group_ : 0),
      across_(2 * nodes_ - 1) {}

int Hierarchical::StageOf(int from_worker, int to_worker) const {
  return ParticipantOf(from_worker) / group_ == ParticipantOf(to_worker) / group_ ? 0 : 1;
}

Step Hierarchical::At(int worker, std::int64_t i) const {
  const std::int64_t steps = StepsPerLoop(worker);
  int step = static_cast<int>(i % steps);
  const int channel = ChannelOf(worker);
  const int node = ParticipantOf(worker) / group_;
  const int place = ParticipantOf(worker) % group_;
  // The share of place h is the blocks h m to h m + m - 1, with m nodes.
  const auto neighbour = [&](int distance) {
    return WorkerOf(channel, node * group_ + (place + distance + group_) % group_, 0);
  };
  const auto same_place = [&](int distance) {
    return WorkerOf(channel, (node + distance + nodes_) % nodes_ * group_ + place, 0);
  };
  Step result{.chunk = {.part = PartOf(channel, i / steps)}};
  if (step >= inside_ && step < inside_ + across_) {
    step -= inside_;
    result.chunk.block = place * nodes_ + (node + 2 * nodes_ - 1 - step) % nodes_;
    result.receive_from = step > 0 ? same_place(-1) : kNobody;
    result.send_to = step + 1 < across_ ? same_place(1) : kNobody;
    result.reduce = step > 0 && step < nodes_;
    result.copy = step >= nodes_ - 1;
    return Sized(result);
  }
  const bool scatters = step < inside_;
  if (!scatters) step -= inside_ + across_;
  const int share = (place + 2 * group_ - step - (scatters ? 1 : 0)) % group_;
  result.chunk.block = share * nodes_;
  result.chunk.stride = 1;
  result.chunk.count = nodes_;
  result.receive_from = step > 0 ? neighbour(-1) : kNobody;
  result.send_to = step + 1 < inside_ ? neighbour(1) : kNobody;
  result.reduce = scatters && step > 0;
  result.copy = !scatters && step > 0;
  return Sized(result);
}

}  // namespace stepcast::collective
