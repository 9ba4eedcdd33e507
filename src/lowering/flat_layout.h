#pragma once

#include <cstdint>
#include <span>

#include "src/lowering/range.h"
#include "src/model/model.h"

// Tensors behind one another, cut into equal shards regardless of where one ends: FSDP1's flat
// parameters (torch/distributed/fsdp/_flat_param.py, read at pytorch/pytorch@01caf79e047f), the
// buckets of a distributed optimizer.
namespace stepcast::lowering {

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

}  // namespace stepcast::lowering
