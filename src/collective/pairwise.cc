#include "src/collective/pairwise.h"

#include "src/base/check.h"

namespace stepcast::collective {
namespace {

// All-to-all has a block for each pair of ranks; send_recv has a block of S for each rank. Sizes
// are those of nccl-tests: the bytes that one rank sends.
std::int64_t BlocksOf(CollectiveKind kind, std::int64_t ranks) {
  return kind == CollectiveKind::kAllToAll ? ranks * ranks : ranks;
}
Bytes TotalOf(CollectiveKind kind, Bytes size, std::int64_t ranks) {
  const bool from_each = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
  return from_each ? size * ranks : size;
}

}  // namespace

Pairwise::Pairwise(const Options& options)
    : StepList({.algorithm = "pairwise",
                .kind = options.kind,
                .size = options.size,
                .ranks = options.ranks,
                .channels = options.channels,
                .lanes = 2,
                .loops = options.loops,
                .blocks = BlocksOf(options.kind, options.ranks),
                .total = TotalOf(options.kind, options.size, options.ranks)}),
      root_(options.root) {
  STEPCAST_CHECK(kind() == CollectiveKind::kAllToAll || kind() == CollectiveKind::kScatter ||
                     kind() == CollectiveKind::kGather || kind() == CollectiveKind::kSendRecv,
                 "pairs of sends and receives can form only an all-to-all, a scatter, a gather or "
                 "a shift");
  STEPCAST_CHECK(root_ >= 0 && root_ < ranks(), "the root is a rank");
}

// The sending worker first copies the rank's own block, if it has one.
std::int64_t Pairwise::StepsPerLoop(int worker) const {
  const bool sends = LaneOf(worker) == kSend;
  const bool root = ParticipantOf(worker) == root_;
  const int others = ranks() - 1;
  switch (kind()) {
    case CollectiveKind::kScatter:
      return root ? (sends ? ranks() : 0) : (sends ? 0 : 1);
    case CollectiveKind::kGather:
      return root ? (sends ? 1 : others) : (sends ? 1 : 0);
    case CollectiveKind::kSendRecv:
      return sends || others > 0 ? 1 : 0;
    default:
      return sends ? ranks() : others;
  }
}

Step Pairwise::At(int worker, std::int64_t i) const {
  const int n = ranks();
  const std::int64_t steps = StepsPerLoop(worker);
  const int step = static_cast<int>(i % steps);
  const int channel = ChannelOf(worker);
  const int rank = ParticipantOf(worker);
  const auto sender = [&](int of) { return WorkerOf(channel, of, kSend); };
  const auto receiver = [&](int of) { return WorkerOf(channel, of, kReceive); };
  Step result{.chunk = {.part = PartOf(channel, i / steps)}};
  const bool sends = LaneOf(worker) == kSend;
  switch (kind()) {
    case CollectiveKind::kScatter:
    case CollectiveKind::kGather: {
      const bool scatters = kind() == CollectiveKind::kScatter;
      const bool root = rank == root_;
      // `step` of the root counts the other ranks from itself on. In a gather, its sending worker
      // copies its own block.
      const int other = (root_ + step + (!scatters && !sends ? 1 : 0)) % n;
      result.chunk.block = root ? other : rank;
      if (root && other == root_) {
        result.copy = true;
      } else if (sends) {
        result.send_to = receiver(root ? other : root_);
      } else {
        result.receive_from = sender(root ? other : root_);
        result.copy = true;
      }
      break;
    }
    case CollectiveKind::kSendRecv: {
      const int previous = (rank + n - 1) % n;
      result.chunk.block = sends ? rank : previous;
      result.copy = !sends || n == 1;
      if (sends && n > 1) result.send_to = receiver((rank + 1) % n);
      if (!sends) result.receive_from = sender(previous);
      break;
    }
    default:
      if (sends) {
        const int to = (rank + step) % n;
        result.chunk.block = rank * n + to;
        if (step == 0) {
          result.copy = true;
        } else {
          result.send_to = receiver(to);
        }
      } else {
        const int from = (rank + 2 * n - 1 - step) % n;
        result.chunk.block = from * n + rank;
        result.receive_from = sender(from);
        result.copy = true;
      }
  }
  return Sized(result);
}

}  // namespace stepcast::collective
