#include "src/collective/step_list.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::collective {

StepList::StepList(const Shape& shape)
    : algorithm_(shape.algorithm),
      kind_(shape.kind),
      size_(shape.size),
      ranks_(shape.ranks),
      switches_(shape.switches),
      channels_(shape.channels),
      lanes_(shape.lanes),
      loops_(shape.loops) {
  STEPCAST_CHECK(ranks_ > 0 && channels_ > 0 && lanes_ > 0 && loops_ > 0 && shape.slices > 0,
                 "a collective needs ranks, channels and loops");
  const std::int64_t parts = std::int64_t{channels_} * loops_ * shape.slices;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  STEPCAST_CHECK(parts <= kMost && shape.blocks <= kMost &&
                     std::int64_t{channels_} * participants() * lanes_ <= kMost,
                 "the numbers of workers, blocks and parts must each fit in 31 bits");
  partition_ = Partition(shape.total, shape.blocks, parts);
}

std::int64_t StepList::BytesOf(const Chunk& chunk) const {
  if (chunk.count == 1) return partition_.Size(chunk.block, chunk.part);
  const std::int64_t blocks = partition_.blocks();
  std::int64_t bytes = 0;
  std::int64_t block = chunk.block;
  for (std::int32_t i = 0; i < chunk.count; ++i) {
    bytes += partition_.Size(block, chunk.part);
    block = (block + chunk.stride) % blocks;
    if (block < 0) block += blocks;
  }
  return bytes;
}

std::string StepList::Describe() const {
  return fmt::format("{} of {} B by {} over {} ranks", Name(kind_), size_.count(), algorithm_,
                     ranks_);
}

int LoopsFor(Bytes block, int channels, Bytes most) {
  STEPCAST_CHECK(most.count() > 0 && channels > 0, "a message carries something");
  const std::int64_t share = (block.count() + channels - 1) / channels;
  const std::int64_t loops = (share + most.count() - 1) / most.count();
  STEPCAST_CHECK(loops <= (1 << 30), "the number of loops must fit in 31 bits");
  return static_cast<int>(std::max<std::int64_t>(1, loops));
}

}  // namespace stepcast::collective
