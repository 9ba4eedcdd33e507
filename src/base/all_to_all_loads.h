#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/data_type.h"

namespace stepcast {

// The load imbalance of an all-to-all. The first member of the group has the experts that are
// chosen most often. This member receives more rows than the other ranks, and later sends more rows
// back. Every part's buffer has the size of the largest part.
struct AllToAllLoads {
  enum class First : std::uint8_t {
    kAsOthers,      // all parts have the same size
    kReceivesMost,  // the parts sent to the first member are the largest
    kSendsMost,     // the parts sent by the first member are the largest
  };
  First first = First::kAsOthers;
  double others = 1;  // size of any other part / size of the largest part, from 0 to 1

  // Returns loads for an all-to-all among `ranks` ranks. `load` is the number of rows sent to the
  // first member, divided by the mean over all ranks (from 1 to `ranks`). The remaining rows are
  // divided equally among the other members.
  static AllToAllLoads Of(double load, std::int64_t ranks, First first) {
    if (load <= 1 || ranks <= 1) return {};
    const auto all = static_cast<double>(ranks);
    return {first, std::max(0.0, (all - load) / ((all - 1) * load))};
  }
  friend bool operator==(const AllToAllLoads&, const AllToAllLoads&) = default;
};

// Returns the number of elements that `sender` sends to `receiver` (positions in the group). The
// result is at most `room`, the size of the largest part. If `room` allows, the result is at least
// 4 bytes, so that the check word of a micro-batch fits (EffectKind::kMix).
inline std::int64_t ElementsSent(const AllToAllLoads& loads, std::int64_t room, DataType type,
                                 int sender, int receiver) {
  constexpr std::int64_t kWord = 4;
  const bool of_first = loads.first == AllToAllLoads::First::kReceivesMost ? receiver == 0
                        : loads.first == AllToAllLoads::First::kSendsMost  ? sender == 0
                                                                           : true;
  if (of_first) return room;
  const std::int64_t share = std::llround(static_cast<double>(room) * loads.others);
  return std::min(room, std::max(share, (kWord + SizeOf(type) - 1) / SizeOf(type)));
}

}  // namespace stepcast
