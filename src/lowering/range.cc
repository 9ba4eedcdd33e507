#include "src/lowering/range.h"

namespace stepcast::lowering {

std::vector<program::Effect> MovesOf(const Pieces& pieces, const program::Elements& target,
                                     const program::Elements& source, double scale) {
  std::vector<program::Effect> moves;
  for (const Piece& piece : pieces) {
    AppendJoined(moves, Scaled(scale, Move(Further(target, piece.offset),
                                           Further(source, piece.offset), piece.elements)));
  }
  return moves;
}

}  // namespace stepcast::lowering
