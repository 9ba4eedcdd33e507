#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/model/model.h"

// Where tensors lie in textbook data parallelism: gradients in buckets that are reduced, parameters
// in groups that are gathered, and a rank's parts of both are the same elements of the model, as
// what it updates. Buckets and groups are the same up to ZeRO stage 2; at stage 3 groups are units,
// across which buckets may be cut.
namespace stepcast::lowering {

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

}  // namespace stepcast::lowering
