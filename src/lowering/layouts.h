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

// Elements split evenly over `ranks`: every rank's shard is as long as the longest, the rest is
// padding.
class Shard {
 public:
  Shard() = default;
  Shard(std::int64_t elements, std::int64_t ranks)
      : elements_(elements),
        ranks_(ranks),
        length_((elements + ranks - 1) / ranks),
        padded_(length_ * ranks) {}

  std::int64_t elements() const { return elements_; }  // of the whole
  std::int64_t ranks() const { return ranks_; }
  std::int64_t length() const { return length_; }
  std::int64_t padded() const { return padded_; }

  // Padding in bytes, of the whole and of one shard; the latter counts from the exact share.
  std::int64_t PaddingOfWhole(std::int64_t bytes) const { return (padded_ - elements_) * bytes; }
  std::int64_t PaddingOfShard(std::int64_t bytes) const {
    return length_ * bytes - elements_ * bytes / ranks_;
  }

 private:
  std::int64_t elements_ = 0, ranks_ = 1, length_ = 0, padded_ = 0;
};

// What operations of data parallelism work on: memory that holds elements, and which elements of
// the model lie where in it.

// Elements of one type behind one another: a buffer, or a part of one. Padding counts as elements.
struct Range {
  program::Elements place{};
  std::int64_t elements = 0;
  // Where it lies in the buffer depends on the rank. Operations say that they use all of the
  // buffer, so that ranks' programs differ in their data flow alone.
  bool of_rank = false;

  // Whether there is such memory.
  explicit operator bool() const { return place.buffer != program::kNone; }
  Index buffer() const { return place.buffer; }
  DataType type() const { return place.type; }
  Bytes size() const { return BytesOf(elements, place.type); }
  program::Elements At(std::int64_t element) const { return Further(place, element); }
  Range Part(std::int64_t first, std::int64_t count) const { return {At(first), count, of_rank}; }
  // The rank's own part, of `count` elements for each.
  Range Share(std::int64_t index, std::int64_t count) const {
    return {At(index * count), count, true};
  }
};

// A range that lies alike on all ranks.
inline program::BufferUse Reads(const Range& range) {
  return Reads(range.buffer(), range.place.offset, range.size());
}
inline program::BufferUse Writes(const Range& range) {
  return Writes(range.buffer(), range.place.offset, range.size());
}

// Elements [first, first + elements) of a tensor lie at element `offset` of a range.
struct Piece {
  int tensor = 0;
  std::int64_t first = 0, elements = 0;
  std::int64_t offset = 0;
};

// In the order of their offsets.
using Pieces = std::vector<Piece>;

// Moves what `pieces` are, times `scale`, from one place to another that is laid out alike; moves
// that go on where the last one ended are one.
std::vector<program::Effect> MovesOf(const Pieces& pieces, const program::Elements& target,
                                     const program::Elements& source, double scale = 1);

// Tensors behind one another, cut into equal shards regardless of where one ends: FSDP1's flat
// parameters (torch/distributed/fsdp/_flat_param.py, read at pytorch/pytorch@01caf79e047f), the
// buckets of a distributed optimizer.

struct FlatLayout {
  Pieces tensors{};           // in order; empty ones are left out
  std::int64_t exact = 0;     // sum of the tensors
  std::int64_t elements = 0;  // with what lies between them and behind the last
  std::int64_t shard = 0;     // of each rank: elements / ranks, rounded up
  std::int64_t ranks = 1;

  // What is gathered and reduce-scattered. Where it is more than `elements`, a gradient must be
  // copied into padded memory first.
  std::int64_t padded() const { return shard * ranks; }

  // One more tensor behind the others, from a multiple of `alignment` elements on; where it begins.
  std::int64_t Append(int tensor, std::int64_t count, std::int64_t alignment = 1);
  // All are there: fills up to a multiple of `alignment`, and cuts.
  void Cut(std::int64_t into, std::int64_t alignment = 1);
};

// So many elements, close together on one rank; of which tensors, it does not say.
inline FlatLayout Packed(std::int64_t elements) {
  return {.exact = elements, .elements = elements, .shard = elements};
}

// `alignment`: every tensor begins at a multiple of so many elements, and the end is filled up to a
// multiple of the ranks; 0: nothing of the kind.
FlatLayout Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                   std::int64_t alignment);

// What lies in the shard of rank `index`, by where it lies there.
Pieces PartsOf(const FlatLayout& flat, std::int64_t index);

// The rank that has parts of the most tensors in its shards of all of these, which have as many
// ranks; the first of several such.
std::int64_t FullestRank(std::span<const FlatLayout* const> parameters);
// The same for each, of all that have as many ranks as it: experts have fewer than what every rank
// has.
std::vector<std::int64_t> FullestRanks(std::span<const FlatLayout* const> parameters);

// Tensors cut into shards one by one: each rank holds a block of every tensor, as long as the
// longest, and a rank's blocks lie behind one another (PyTorch's fully_shard, which cuts between
// rows). The full tensors, and what is gathered of all ranks' shards, have room for all blocks.

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

// Where tensors lie in textbook data parallelism: gradients in buckets that are reduced, parameters
// in groups that are gathered, and a rank's parts of both are the same elements of the model, as
// what it updates. Buckets and groups are the same up to ZeRO stage 2; at stage 3 groups are units,
// across which buckets may be cut.

// Shares elements out among ranks so that two ways to group them are both cut evenly: at ZeRO-3
// with buckets, gradients are reduced by bucket and parameters gathered by unit, and a rank must
// end up with the same elements of both.

// The elements that a row (a bucket) and a column (a unit) have in common.
struct Cell {
  int row = 0;
  int column = 0;
  std::int64_t elements = 0;
};

// shares[c][r]: how many of cell c's elements rank r gets. No rank gets more than ceil(S / ranks)
// of any row or column, S being all its elements.
//
// Every rank gets floor(elements / ranks) of a cell; what is left over are edges of a bipartite
// multigraph between rows and columns, to be coloured with the ranks so that no vertex sees a
// colour more often than it must. Vertices of more than `ranks` edges are split; then a proper
// edge colouring exists (Koenig 1916) and is found by flipping alternating paths.
std::vector<std::vector<std::int64_t>> BalancedPartition(std::span<const Cell> cells, int ranks);

// A part of a tensor that lies in one piece both in its bucket and in its group; all in elements.
struct TensorPiece {
  std::int64_t first = 0;  // in the tensor
  std::int64_t elements = 0;
  std::int64_t gradient = 0;   // in the bucket
  std::int64_t parameter = 0;  // in the group
};

class TensorPieces {
 public:
  // Tensors that lie together, of which each rank has a part of `part` elements.
  struct Group {
    std::span<const int> tensors;
    std::int64_t part = 0;
  };

  // `groups` is empty where they are the buckets. `cut`: for every rank; else only as far as is
  // needed to tell where tensors lie, not which parts of them.
  void LayOut(const model::Model& model, std::span<const Group> buckets,
              std::span<const Group> groups, std::int64_t ranks, bool cut);

  int bucket_of(int tensor) const { return gradients_[tensor].group; }
  int group_of(int tensor) const { return parameters_[tensor].group; }
  // Of a tensor in one piece: where its gradient begins.
  std::int64_t gradient_offset(int tensor) const { return gradients_[tensor].offset; }
  std::span<const TensorPiece> Of(int tensor) const {
    return std::span(pieces_).subspan(first_piece_[tensor],
                                      first_piece_[tensor + 1] - first_piece_[tensor]);
  }
  // Of all tensors of a bucket, in the order of their gradients; where they were cut.
  std::span<const std::pair<int, TensorPiece>> InBucket(std::size_t bucket) const {
    return in_bucket_.empty() ? std::span<const std::pair<int, TensorPiece>>()
                              : std::span(in_bucket_[bucket]);
  }

 private:
  struct Place {
    int group = -1;
    std::int64_t offset = 0;  // elements
  };

  static std::vector<Place> PlacesOf(const model::Model& model, std::span<const Group> groups);
  void LayOutLikeUnits(std::span<const Group> buckets, std::span<const Group> groups);
  void CutAcross(const model::Model& model, std::span<const Group> buckets,
                 std::span<const Group> groups, std::int64_t ranks);

  std::vector<Place> gradients_, parameters_;  // by tensor
  std::vector<bool> is_unit_;                  // by bucket: it holds just what a unit does
  std::vector<TensorPiece> pieces_;            // of the tensors, one after the other
  std::vector<std::size_t> first_piece_;       // by tensor, and where the last one's end
  std::vector<std::vector<std::pair<int, TensorPiece>>> in_bucket_;
};

// How DeepSpeed's stage 3 partitions: every tensor is cut for all ranks, and a rank's parts lie
// behind one another in its flat tensors, in registration order
// (deepspeed/runtime/zero/partition_parameters.py).

struct PartitionedTensor {
  Shard shard;
  std::int64_t offset = 0;  // of the part in the rank's flat tensors
  std::int64_t first = 0;   // element of the tensor that the rank's part begins with
  std::int64_t own = 0;     // elements of the part that are not padding
};

struct PartitionedTensors {
  PartitionedTensors(const model::Model& model, std::int64_t ranks, std::int64_t rank);

  // The rank's part of a tensor among its flat tensors.
  Range PartOf(int tensor, const Range& flat) const {
    return flat.Part(tensors[tensor].offset, tensors[tensor].shard.length());
  }

  std::vector<PartitionedTensor> tensors;  // as the model's
  std::int64_t ranks, rank;
  std::int64_t elements = 0;  // of all parts of a rank
  std::int64_t padding = 0;   // of them
};

}  // namespace stepcast::lowering
