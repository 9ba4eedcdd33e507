#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/model/indexer_operators.h"

// Attention whose key and value are one vector per token, shared by all heads (DeepSeek-V4). A
// query attends to a window of tokens and to vectors that each represent several tokens. If there
// is an indexer, the indexer chooses these vectors. Otherwise, a query attends to all of them. The
// rotation of the output's rotated part is reversed. With tensor parallelism, every rank has the
// full vectors and some of the heads.
namespace stepcast::model {

class SharedKeyOperators : public BlockOperators {
 public:
  using BlockOperators::BlockOperators;

  // The operands of the attention core: the queries of the rank's heads, and the key vectors of all
  // tokens.
  struct Vectors {
    Operand query, key;
  };
  // Returns the operands of the attention core. `x` is the normalized input of the rank's part of
  // the tokens.
  Vectors Make(const Operand& x);
  // Returns the shape of the attention core. The shape's window is the average number of vectors
  // that a query reads, including compressed vectors.
  AttentionShape Shape(std::int64_t document_length) const;
  // Returns the input of the last GEMM, computed from the core's output `y`.
  Operand Output(const Operand& y);

 private:
  ModulePositions Whole(std::string_view module) const;
  // Computes compressed vectors, each of which represents several tokens, and keeps them for
  // backward.
  void Compress(const Operand& x, std::string_view product, std::string_view positions,
                std::string_view norm, std::int64_t width);
  // Adds the indexer's kernels, which score the compressed keys and choose among them.
  void Choose(const Operand& x, const Operand& query_vector);

  std::optional<IndexerOperators> indexer_;  // backward keeps a reference to this member
};

}  // namespace stepcast::model
