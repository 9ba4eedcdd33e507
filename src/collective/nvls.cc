#include "src/collective/nvls.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"

namespace stepcast::collective {

Nvls::Nvls(Options options)
    : StepList({.algorithm = options.nodes > 1 ? "nvls_tree" : "nvls",
                .kind = options.kind,
                .size = options.size,
                .ranks = options.nodes * options.ranks_per_node,
                .switches = options.nodes,
                .channels = options.channels,
                .lanes = 4,
                .loops = options.loops,
                .blocks = options.ranks_per_node,
                .total = options.size}),
      heads_(options.ranks_per_node),
      trees_(std::move(options.trees)) {
  STEPCAST_CHECK(kind() == CollectiveKind::kAllReduce ||
                     (options.nodes == 1 && (kind() == CollectiveKind::kReduceScatter ||
                                             kind() == CollectiveKind::kAllGather)),
                 "NVLS supports all-reduce. Within one node, NVLS also supports reduce-scatter and "
                 "all-gather");
  if (options.nodes == 1 && trees_.empty()) trees_ = {Tree(1)};
  for (const Tree& tree : trees_) {
    STEPCAST_CHECK(static_cast<int>(tree.size()) == options.nodes, "a tree must connect all nodes");
  }
}

const TreeNode& Nvls::NodeOf(int channel, int node) const {
  return trees_[static_cast<std::size_t>(channel) % trees_.size()][static_cast<std::size_t>(node)];
}

std::int64_t Nvls::StepsPerLoop(int worker) const {
  const bool adds = kind() != CollectiveKind::kAllGather;
  const bool copies = kind() != CollectiveKind::kReduceScatter;
  const int participant = ParticipantOf(worker);
  const int lane = LaneOf(worker);
  if (participant >= ranks()) {
    // Adding lane, for each head: one message from each rank; the last one also sends the sum.
    // Copying lane, for each head: receive the result and send it to each rank.
    const bool works = (lane == kAdd && adds) || (lane == kCopy && copies);
    return works ? std::int64_t{heads_} * heads_ : 0;
  }
  const TreeNode& node = NodeOf(ChannelOf(worker), participant / heads_);
  const auto children = static_cast<std::int64_t>(node.children.size());
  const bool turns = TurnsInUp(node);
  switch (lane) {
    case kScatter:
      return adds ? heads_ : 0;
    case kUp:  // the switch and the children in; the last with the first way out
      return !adds ? 0 : children + 1 + (turns ? children : 0);
    case kDown:  // the parent in, with the first way out; the children and the switch out
      return !copies || turns ? 0 : children + 1;
    default:
      return copies ? heads_ : 0;
  }
}

Step Nvls::At(int worker, std::int64_t i) const {
  const std::int64_t steps = StepsPerLoop(worker);
  const std::int64_t step = i % steps;
  const int channel = ChannelOf(worker);
  const int participant = ParticipantOf(worker);
  const int lane = LaneOf(worker);
  Step result = participant >= ranks()
                    ? OfSwitch(channel, participant - ranks(), lane, step)
                    : OfHead(channel, participant / heads_, participant % heads_, lane, step);
  result.chunk.part = PartOf(channel, i / steps);
  return Sized(result);
}

Step Nvls::OfSwitch(int channel, int node, int lane, std::int64_t step) const {
  const int head = static_cast<int>(step / heads_);
  const int rank = static_cast<int>(step % heads_);
  Step result{.chunk = {.block = head}};
  if (lane == kAdd) {
    result.receive_from = WorkerOf(channel, HeadOf(node, rank), kScatter);
    result.reduce = true;
    if (rank == heads_ - 1) result.send_to = WorkerOf(channel, HeadOf(node, head), kUp);
  } else {
    if (rank == 0) {
      const int from = TurnsInUp(NodeOf(channel, node)) ? kUp : kDown;
      result.receive_from = WorkerOf(channel, HeadOf(node, head), from);
    }
    result.send_to = WorkerOf(channel, HeadOf(node, rank), kGather);
  }
  return result;
}

Step Nvls::OfHead(int channel, int node, int head, int lane, std::int64_t step) const {
  const TreeNode& place = NodeOf(channel, node);
  const auto children = static_cast<std::int64_t>(place.children.size());
  const auto same_head = [&](int other, int its_lane) {
    return WorkerOf(channel, HeadOf(other, head), its_lane);
  };
  // The order in which the result is sent: to the switch first, then to the children.
  const auto way_out = [&](std::int64_t number) {
    return number == 0 ? WorkerOf(channel, SwitchOf(node), kCopy)
                       : same_head(place.children[static_cast<std::size_t>(number - 1)], kDown);
  };
  Step result{.chunk = {.block = head}};
  switch (lane) {
    case kScatter:
      result.chunk.block = static_cast<std::int32_t>(step);
      result.send_to = WorkerOf(channel, SwitchOf(node), kAdd);
      break;
    case kUp:
      if (step == 0) {
        result.receive_from = WorkerOf(channel, SwitchOf(node), kAdd);  // includes its own
      } else if (step <= children) {
        result.receive_from = same_head(place.children[static_cast<std::size_t>(step - 1)], kUp);
        result.reduce = true;
      }
      if (step < children) break;
      if (kind() == CollectiveKind::kReduceScatter) {
        result.copy = true;
      } else {
        result.send_to =
            place.parent == kNobody ? way_out(step - children) : same_head(place.parent, kUp);
      }
      break;
    case kDown:
      if (step == 0 && place.parent != kNobody) {
        const TreeNode& parent = NodeOf(channel, place.parent);
        result.receive_from = same_head(place.parent, TurnsInUp(parent) ? kUp : kDown);
      }
      result.send_to = way_out(step);
      break;
    default:
      result.chunk.block = static_cast<std::int32_t>(step);
      result.receive_from = WorkerOf(channel, SwitchOf(node), kCopy);
      result.copy = true;
  }
  return result;
}

}  // namespace stepcast::collective
