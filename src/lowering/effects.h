#pragma once

#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/program/data_flow.h"

// Shorthands for what operations do to values (src/program/data_flow.h).
namespace stepcast::lowering {

// From element `first` of a buffer of `type` on.
inline program::Elements At(program::Index buffer, std::int64_t first, DataType type) {
  return {.buffer = buffer, .offset = BytesOf(first, type), .type = type};
}

// `place`, `elements` further on.
inline program::Elements Further(program::Elements place, std::int64_t elements) {
  place.offset += BytesOf(elements, place.type);
  return place;
}

// target = source, converted; both contiguous.
program::Effect Move(program::Elements target, program::Elements source, std::int64_t elements);
// target += source.
program::Effect Added(program::Effect move);
// target = scale x source.
program::Effect Scaled(double scale, program::Effect move);
// In blocks of `block` elements, with this many from the start of one to the start of the next.
program::Effect InBlocks(program::Effect move, std::int64_t block, std::int64_t target_stride,
                         std::int64_t source_stride);

// `elements`: of the collective's whole size.
program::Effect Collected(program::Elements target, program::Elements source,
                          std::int64_t elements);

// number = (or +=, if `add`) scale x the sum of the squares of `elements` elements.
program::Effect Squares(program::Elements number, program::Elements source, std::int64_t elements,
                        bool add, double scale = 1);
// target brought down to a norm of `limit`; `squares`: the square of the norm that it has.
program::Effect Clipped(program::Elements target, program::Elements squares, std::int64_t elements,
                        double limit);

// `states`: arrays of one type, `stride` elements after one another (program/data_flow.h).
program::Effect OptimizerUpdate(program::Elements parameters, program::Elements gradients,
                                program::Elements states, std::int64_t stride,
                                std::int64_t elements);

// Appends a contiguous move or an update; where it goes on exactly where the last one ended, that
// one is made longer instead. Empty ones are left out.
void AppendJoined(std::vector<program::Effect>& effects, const program::Effect& effect);

}  // namespace stepcast::lowering
