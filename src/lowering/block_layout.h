#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/range.h"
#include "src/model/model.h"

// Tensors cut into shards one by one: each rank holds a block of every tensor, as long as the
// longest, and a rank's blocks lie behind one another (PyTorch's fully_shard, which cuts between
// rows). The full tensors, and what is gathered of all ranks' shards, have room for all blocks.
namespace stepcast::lowering {

class BlockLayout {
 public:
  struct Block {
    int tensor = 0;
    std::int64_t elements = 0;      // of the tensor
    std::int64_t length = 0;        // of a rank's block
    std::int64_t offset = 0;        // in a rank's shard
    std::int64_t full_offset = 0;   // among full tensors, with padding
    std::int64_t exact_offset = 0;  // among full tensors without padding
  };

  BlockLayout() = default;
  // `lengths`: of each tensor's blocks over so many ranks.
  BlockLayout(const model::Model& model, std::span<const int> tensors,
              std::span<const std::int64_t> lengths, std::int64_t ranks);
  // With so many elements more behind each rank's blocks.
  BlockLayout Before(std::int64_t elements) const;
  // The same full tensors, with their padding, cut for another number of ranks, which divides them.
  BlockLayout Over(std::int64_t ranks) const;

  // Of tensors that are not empty, in order.
  std::span<const Block> blocks() const { return blocks_; }
  // Elements of a rank's shard: from one rank's to the next in what is gathered.
  std::int64_t shard() const { return shard_; }
  // What rank `index` holds of a block, without padding, and where in its shard.
  Piece Own(const Block& block, std::int64_t index) const;

 private:
  std::vector<Block> blocks_;
  std::int64_t shard_ = 0, ranks_ = 1;
};

}  // namespace stepcast::lowering
