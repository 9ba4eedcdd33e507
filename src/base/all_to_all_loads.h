#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/data_type.h"

namespace stepcast {

// How evenly the members of an all-to-all are loaded. If the data are rows for experts, the member
// whose experts are chosen most often receives more than the others, and later sends more back.
// That member is the first of the group. All parts have the capacity of the largest part; the other
// parts are only partly filled.
struct AllToAllLoads {
  enum class First : std::uint8_t {
    kAsOthers,      // all parts are equal
    kReceivesMost,  // the parts sent to the first member are the largest
    kSendsMost,     // the parts sent by the first member are the largest
  };
  First first = First::kAsOthers;
  double others = 1;  // size of any other part divided by that of the largest part, from 0 to 1

  // Returns loads for an all-to-all among `ranks` ranks. `load` is the number of rows sent to the
  // first member divided by the mean over all ranks, from 1 to `ranks`. The other members share the
  // rest equally.
  static AllToAllLoads Of(double load, std::int64_t ranks, First first) {
    if (load <= 1 || ranks <= 1) return {};
    const auto all = static_cast<double>(ranks);
    return {first, std::max(0.0, (all - load) / ((all - 1) * load))};
  }
  friend bool operator==(const AllToAllLoads&, const AllToAllLoads&) = default;
};

// Returns the number of elements that `sender` sends to `receiver` (positions in the group) if a
// part has a capacity of `room` elements. A part has at least 4 bytes, so that a micro-batch's
// check word fits (EffectKind::kMix). If the whole capacity is smaller than that, a part has the
// whole capacity.
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
