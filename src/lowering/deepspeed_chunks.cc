#include "src/lowering/deepspeed_chunks.h"

#include <cstddef>

namespace stepcast::lowering {

using program::Category;

void ChunkedReduction::AddChunks(Index communicator, std::int64_t ranks,
                                 std::span<const int> tensors) {
  constexpr std::int64_t kChunk = 500'000'000;
  ranks_ = ranks;
  ProgramBuilder& builder = step_.builder();
  const DataType type = step_.plan().training.parameter_dtype;
  const DataType sent = step_.plan().training.reduce_dtype;
  std::int64_t elements = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::int64_t own = step_.model().tensors[tensors[t]].elements;
    if (elements == 0) chunks_.emplace_back().communicator = communicator;
    chunks_.back().pieces.push_back({.tensor = tensors[t], .elements = own, .offset = elements});
    elements += own;
    if (elements <= kChunk && t + 1 < tensors.size()) continue;
    const auto add = [&](const char* name, DataType of) {
      return operations_.AddRange({.first = builder.AddText(name)}, elements, of,
                                  Category::kCommunication);
    };
    chunks_.back().flat = add("flat bucket", type);
    if (sent != type) chunks_.back().sent = add("bucket as sent", sent);
    elements = 0;
  }
}

void ChunkedReduction::Reduce(const LocalGradients& gradients) {
  const StreamId compute = step_.compute();
  for (const Chunk& chunk : chunks_) {
    operations_.Allocate(compute, chunk.flat);
    operations_.Writes(chunk.flat);
    for (const Piece& piece : chunk.pieces) {
      const Range& gradient = gradients.range(piece.tensor);
      operations_.Reads(gradient);
      operations_.Moves(chunk.flat.Part(piece.offset, piece.elements), gradient,
                        1.0 / static_cast<double>(ranks_));
    }
    operations_.Run(compute, "flatten");
    const Range& place = chunk.sent ? chunk.sent : chunk.flat;
    if (chunk.sent) {
      operations_.Allocate(compute, chunk.sent);
      operations_.Copy(compute, "cast_bucket", chunk.sent, chunk.flat);
    }
    operations_.Updates(place);  // its values were divided on the way
    operations_.Run(compute, "divide");
    if (chunk.communicator != program::kNone) {
      operations_.AllReduce(compute, chunk.communicator, place);
    }
    if (chunk.sent) {
      operations_.Copy(compute, "cast_bucket", chunk.flat, chunk.sent);
      operations_.Release(chunk.sent);
    }
    for (const Piece& piece : chunk.pieces) {
      operations_.Copy(compute, "copy_from_bucket", gradients.range(piece.tensor),
                       chunk.flat.Part(piece.offset, piece.elements));
    }
    operations_.Release(chunk.flat);
  }
}

}  // namespace stepcast::lowering
