#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/lowering/program_builder.h"
#include "src/lowering/step_parts.h"
#include "src/model/model.h"

namespace stepcast::lowering {

// Returns the number of elements per shard if `elements` elements are divided into `ranks` equal
// shards, rounded up.
constexpr std::int64_t ShardLength(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

// Memory of data-parallel operations, and the model's elements in this memory.

// Consecutive elements of one type: a complete buffer or a part of a buffer, including padding.
struct Range {
  program::Elements place{};
  std::int64_t elements = 0;
  // Whether the range's offset depends on the rank. If true, operations declare that they use the
  // complete buffer, so that programs of different ranks differ only in their data flow.
  bool of_rank = false;

  // Returns whether the range refers to a buffer.
  explicit operator bool() const { return place.buffer != program::kNone; }
  Index buffer() const { return place.buffer; }
  DataType type() const { return place.type; }
  Bytes size() const { return BytesOf(elements, place.type); }
  program::Elements At(std::int64_t element) const { return Further(place, element); }
  Range Part(std::int64_t first, std::int64_t count) const { return {At(first), count, of_rank}; }
  // Returns the part of rank `index` in a range with `count` elements per rank.
  Range Share(std::int64_t index, std::int64_t count) const {
    return {At(index * count), count, true};
  }
};

// Return the use of a range whose offset is the same on all ranks.
inline program::BufferUse Reads(const Range& range) {
  return Reads(range.buffer(), range.place.offset, range.size());
}
inline program::BufferUse Writes(const Range& range) {
  return Writes(range.buffer(), range.place.offset, range.size());
}

// A piece of a tensor: the tensor's elements [first, first + elements) start at element `offset` of
// a range.
struct Piece {
  int tensor = 0;
  std::int64_t first = 0, elements = 0;
  std::int64_t offset = 0;
};

// A list of pieces, sorted by offset.
using Pieces = std::vector<Piece>;

// Returns the effects that move `pieces` from `source` to `target` and multiply them by `scale`.
// `source` and `target` have the same layout. Adjacent moves are merged.
std::vector<program::Effect> MovesOf(const Pieces& pieces, const program::Elements& target,
                                     const program::Elements& source, double scale = 1);

// Tensors packed one after another and divided into equal shards, which may split tensors.
// Examples: FSDP1's flat parameters (torch/distributed/fsdp/_flat_param.py, read at
// pytorch/pytorch@01caf79e047f), the buckets of a distributed optimizer, and the flat tensors of
// DeepSpeed's stages 1 and 2.
struct FlatLayout {
  Pieces tensors{};           // in order, without empty tensors
  std::int64_t exact = 0;     // sum of the tensors' elements
  std::int64_t elements = 0;  // including gaps and padding at the end
  std::int64_t shard = 0;     // elements of each rank's shard: elements / ranks, rounded up
  std::int64_t ranks = 1;

  // Returns the total number of elements of all shards, which is the size of a gather or
  // reduce-scatter. If the total exceeds `elements`, gradients must first be copied to padded
  // memory.
  std::int64_t padded() const { return shard * ranks; }

  // Appends a tensor of `count` elements at the next multiple of `alignment` elements. Returns the
  // tensor's offset.
  std::int64_t Append(int tensor, std::int64_t count, std::int64_t alignment = 1);
  // Pads the layout to a multiple of `alignment` elements and divides it into `into` shards. Call
  // this function after all tensors are appended.
  void Cut(std::int64_t into, std::int64_t alignment = 1);
};

// Returns a layout of `elements` contiguous elements, without a list of tensors.
inline FlatLayout Packed(std::int64_t elements, std::int64_t ranks = 1) {
  return {.exact = elements,
          .elements = elements,
          .shard = ShardLength(elements, ranks),
          .ranks = ranks};
}

// Returns the layout of packed tensors. Every tensor starts at a multiple of `alignment` elements,
// and the end is padded to a multiple of `ranks`. With `alignment` 0, there is no alignment and no
// padding.
FlatLayout Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                   std::int64_t alignment);

// Returns the pieces in the shard of rank `index`. The pieces' offsets are relative to the shard.
Pieces PartsOf(const FlatLayout& flat, std::int64_t index);

// Returns the rank whose shards overlap the most tensors (the first such rank). All layouts must
// have the same number of ranks.
std::int64_t FullestRank(std::span<const FlatLayout* const> parameters);
// Returns, for each layout, the FullestRank of all layouts with the same number of ranks. (The
// layouts of experts have fewer ranks.)
std::vector<std::int64_t> FullestRanks(std::span<const FlatLayout* const> parameters);

// Tensors that are sharded one by one. Each rank stores one block of every tensor, padded to the
// length of the longest block. The blocks of a rank are contiguous. PyTorch's fully_shard splits
// tensors between rows; DeepSpeed's stage 3 (deepspeed/runtime/zero/partition_parameters.py) and
// nanotron split them at any element.
class BlockLayout {
 public:
  struct Block {
    int tensor = 0;
    std::int64_t elements = 0;      // elements of the tensor
    std::int64_t length = 0;        // elements of a rank's block, with padding
    std::int64_t offset = 0;        // offset in a rank's shard
    std::int64_t full_offset = 0;   // offset among the full tensors, with padding
    std::int64_t exact_offset = 0;  // offset among the full tensors, without padding
  };

  BlockLayout() = default;
  // `lengths` is the block length of each tensor, in elements, if it is divided among `ranks`
  // ranks. Empty tensors have no block.
  BlockLayout(const model::Model& model, std::span<const int> tensors,
              std::span<const std::int64_t> lengths, std::int64_t ranks);
  // Lays out all tensors of the model, divided evenly. Every tensor has a block.
  BlockLayout(const model::Model& model, std::int64_t ranks);
  // Returns a layout with the same blocks, but with `elements` more elements after each rank's
  // blocks.
  BlockLayout Before(std::int64_t elements) const;
  // Returns the layout of the same padded tensors divided over `ranks` ranks. `ranks` must divide
  // the number of padded elements.
  BlockLayout Over(std::int64_t ranks) const;

  std::span<const Block> blocks() const { return blocks_; }
  std::int64_t ranks() const { return ranks_; }
  // Returns the number of elements of a rank's shard, which is also the distance between the shards
  // of consecutive ranks in gathered memory.
  std::int64_t shard() const { return shard_; }
  // Returns the number of elements of the tensors, without padding.
  std::int64_t exact() const { return exact_; }
  // Returns the part of a block that rank `index` stores, without padding. The part's offset is
  // relative to the shard.
  Piece Own(const Block& block, std::int64_t index) const;

 private:
  void Add(int tensor, std::int64_t elements, std::int64_t length);

  std::vector<Block> blocks_;
  std::int64_t shard_ = 0, exact_ = 0, ranks_ = 1;
};

// The layout of tensors in textbook data parallelism. Gradients are reduced in buckets, and
// parameters are gathered in groups. A rank has the same elements in its buckets and in its groups.
// Up to ZeRO stage 2, groups are equal to buckets. At stage 3, groups are units, and a bucket may
// contain parts of several units.

// Divides elements among ranks so that each bucket and each unit is divided evenly. At ZeRO stage
// 3, gradients are reduced by bucket and parameters are gathered by unit, and a rank must have the
// same elements in both.

// The elements of one bucket (row) that belong to one unit (column).
struct Cell {
  int row = 0;
  int column = 0;
  std::int64_t elements = 0;
};

// Returns shares[c][r], the number of cell c's elements that rank r has. A rank has at most ceil(S
// / ranks) elements of a row or column with S elements.
//
// Every rank gets floor(elements / ranks) elements of a cell. The remainders are edges of a
// bipartite multigraph between rows and columns, and the ranks are edge colors. Vertices with more
// than `ranks` edges are split, so that a proper edge coloring exists (Koenig 1916). The coloring
// is found by flipping alternating paths.
std::vector<std::vector<std::int64_t>> BalancedPartition(std::span<const Cell> cells, int ranks);

// A part of a tensor that is contiguous in its bucket and in its group. All members are numbers of
// elements.
struct TensorPiece {
  std::int64_t first = 0;  // offset in the tensor
  std::int64_t elements = 0;
  std::int64_t gradient = 0;   // offset in the bucket
  std::int64_t parameter = 0;  // offset in the group
};

class TensorPieces {
 public:
  // Tensors that are stored together, with `part` elements for each rank.
  struct Group {
    std::span<const int> tensors;
    std::int64_t part = 0;
  };

  // Computes the locations of tensors. `groups` is empty if the groups are equal to `buckets`. With
  // `cut`, computes the pieces of every rank; otherwise, only the locations of complete tensors.
  void LayOut(const model::Model& model, std::span<const Group> buckets,
              std::span<const Group> groups, std::int64_t ranks, bool cut);

  int bucket_of(int tensor) const { return gradients_[tensor].group; }
  int group_of(int tensor) const { return parameters_[tensor].group; }
  // Returns the offset of the tensor's gradient in its bucket, in elements. The tensor must be in
  // one piece.
  std::int64_t gradient_offset(int tensor) const { return gradients_[tensor].offset; }
  std::span<const TensorPiece> Of(int tensor) const {
    return std::span(pieces_).subspan(first_piece_[tensor],
                                      first_piece_[tensor + 1] - first_piece_[tensor]);
  }
  // Returns all pieces of a bucket, in the order of their gradients, each with the index of its
  // tensor. Empty unless LayOut was called with `cut`.
  std::span<const std::pair<int, TensorPiece>> InBucket(std::size_t bucket) const {
    return in_bucket_.empty() ? std::span<const std::pair<int, TensorPiece>>()
                              : std::span(in_bucket_[bucket]);
  }

 private:
  struct Place {
    int group = -1;
    std::int64_t offset = 0;  // in elements
  };

  static std::vector<Place> PlacesOf(const model::Model& model, std::span<const Group> groups);
  void LayOutLikeUnits(std::span<const Group> buckets, std::span<const Group> groups);
  void CutAcross(const model::Model& model, std::span<const Group> buckets,
                 std::span<const Group> groups, std::int64_t ranks);

  std::vector<Place> gradients_, parameters_;  // indexed by tensor
  std::vector<bool> is_unit_;                  // by bucket: whether it equals one unit
  std::vector<TensorPiece> pieces_;            // pieces of all tensors, tensor by tensor
  std::vector<std::size_t> first_piece_;       // by tensor: index in pieces_; then the end
  std::vector<std::vector<std::pair<int, TensorPiece>>> in_bucket_;
};

}  // namespace stepcast::lowering
