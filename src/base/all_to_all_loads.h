#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/data_type.h"

namespace stepcast {

// How evenly the members of an all-to-all are loaded: with the rows of a mixture's experts, the
// member whose experts are chosen most often is sent more than the others, and sends more back. It
// is the group's first. All parts have the room of the largest, and lie that far apart; of the
// others less is sent.
struct AllToAllLoads {
  enum class First : std::uint8_t {
    kAsOthers,      // all parts are equal
    kReceivesMost,  // what each member sends to the first is the largest part
    kSendsMost,     // what the first sends to each member is the largest part
  };
  First first = First::kAsOthers;
  double others = 1;  // another member's part over the first one's, from 0 to 1

  // `load`: what the first is sent over the mean of all `ranks`, from 1 to `ranks`. The others
  // share out the rest.
  static AllToAllLoads Of(double load, std::int64_t ranks, First first) {
    if (load <= 1 || ranks <= 1) return {};
    const auto all = static_cast<double>(ranks);
    return {first, std::max(0.0, (all - load) / ((all - 1) * load))};
  }
  friend bool operator==(const AllToAllLoads&, const AllToAllLoads&) = default;
};

// How many elements of a part that has room for `room` go from one member's position in the group
// to another's. At least 4 bytes, which carry a micro-batch's word (EffectKind::kMix), or all.
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
