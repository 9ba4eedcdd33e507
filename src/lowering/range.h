#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/effects.h"
#include "src/lowering/program_builder.h"

// What operations of data parallelism work on: memory that holds elements, and which elements of
// the model lie where in it.
namespace stepcast::lowering {

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

}  // namespace stepcast::lowering
