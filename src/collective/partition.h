#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/check.h"

namespace stepcast::collective {

// How a collective's data is cut: into blocks (what one rank contributes, obtains or is the head
// of), and every block into parts (what travels as one message). Cuts are even: blocks differ by
// one byte at most, and so do the parts of a block. The first ones are the longer ones.
//
// A datum has the same address wherever it is, so that a block is the same bytes on every rank. For
// an all-to-all, block i * N + j is what rank i has for rank j.
//
// Only two block sizes exist, so that no query divides.
class Partition {
 public:
  Partition() = default;
  // Requires total >= 0, blocks > 0, parts > 0.
  Partition(Bytes total, std::int64_t blocks, std::int64_t parts)
      : total_(total), blocks_(blocks), parts_(parts) {
    STEPCAST_CHECK(total.count() >= 0 && blocks > 0 && parts > 0, "there is data to cut");
    block_ = total.count() / blocks;
    longer_blocks_ = total.count() % blocks;
    for (std::int64_t longer = 0; longer < 2; ++longer) {
      part_[longer] = (block_ + longer) / parts;
      longer_parts_[longer] = (block_ + longer) % parts;
    }
  }

  Bytes total() const { return total_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t parts() const { return parts_; }

  // Bytes in part `part` of block `block`.
  std::int64_t Size(std::int64_t block, std::int64_t part) const {
    const int longer = block < longer_blocks_ ? 1 : 0;
    return part_[longer] + (part < longer_parts_[longer] ? 1 : 0);
  }
  // Where it begins.
  std::int64_t Offset(std::int64_t block, std::int64_t part) const {
    const int longer = block < longer_blocks_ ? 1 : 0;
    const std::int64_t before = block < longer_blocks_ ? block : longer_blocks_;
    const std::int64_t parts_before = part < longer_parts_[longer] ? part : longer_parts_[longer];
    return block * block_ + before + part * part_[longer] + parts_before;
  }

 private:
  Bytes total_;
  std::int64_t blocks_ = 1;
  std::int64_t parts_ = 1;
  std::int64_t block_ = 0;
  std::int64_t longer_blocks_ = 0;
  std::int64_t part_[2] = {0, 0};  // in a short block, in a long one
  std::int64_t longer_parts_[2] = {0, 0};
};

}  // namespace stepcast::collective
