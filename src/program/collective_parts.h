#pragma once

#include <cstdint>

#include "src/base/check.h"
#include "src/base/collective_kind.h"

namespace stepcast::program {

// How many elements one rank of a group reads and writes in a collective (EffectKind::kCollective
// says where they lie).
struct CollectiveParts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  friend bool operator==(const CollectiveParts&, const CollectiveParts&) = default;
};

// `elements`: the collective's whole size. `kind` is one of kProgramCollectiveKinds.
inline CollectiveParts PartsOf(CollectiveKind kind, std::int64_t elements, std::int64_t ranks) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return {elements, elements};
    case CollectiveKind::kReduceScatter:
      return {elements, elements / ranks};
    case CollectiveKind::kAllGather:
      return {elements / ranks, elements};
    case CollectiveKind::kAllToAll:
      return {elements / ranks * (ranks - 1), elements / ranks * (ranks - 1)};
    default:
      STEPCAST_CHECK(false, "step programs hold no other collective");
  }
  return {};
}

// Whether the whole consists of equal parts, one for each rank: its elements divide by the ranks.
constexpr bool HasPartForEachRank(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kAllToAll;
}

// In an all-to-all the n parts of a rank's source, and the n - 1 that it receives, are in order of
// distance: part i goes to, and comes from, the rank at these positions of the group. So all ranks
// of a class have one program. A source's last part is the rank's own and is not sent.
constexpr int AllToAllReceiver(int position, int part, int ranks) {
  return (position + part + 1) % ranks;
}
constexpr int AllToAllSender(int position, int part, int ranks) {
  return (position + ranks - part - 1) % ranks;
}

}  // namespace stepcast::program
