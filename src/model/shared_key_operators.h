#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"
#include "src/model/family.h"

// Attention whose keys and values are one vector per token, shared by all heads (DeepSeek-V4). It
// reads a window, and vectors that each represent many tokens: all of them, or those that an
// indexer chooses. The rotated part of the output is rotated back.
//
// With tensor parallelism, every rank has the whole vectors and some of the heads.
namespace stepcast::model {

class SharedKeyOperators {
 public:
  using Find = std::function<ModulePositions(std::string_view module)>;
  // All arguments must outlive the tape's Finish.
  SharedKeyOperators(LayerOperators& operators, const Architecture& architecture,
                     const ModuleNames& names, Find find);

  // The core's operands: queries of the rank's heads, and the vectors of all tokens.
  struct Vectors {
    Operand query, key;
  };
  // `x`: the rank's part of the tokens, normalized.
  Vectors Make(const Operand& x);
  // The core's shape, with a window equal to the average number of vectors of both kinds per query.
  AttentionShape Shape(std::int64_t document_length) const;
  // The input of the last product, from the core's output.
  Operand Output(const Operand& y);

 private:
  using Value = LayerTape::Value;
  ModulePositions Whole(std::string_view module) const;
  // Makes vectors that each represent several tokens. They are kept for backward.
  void Compress(const Operand& x, std::string_view product, std::string_view positions,
                std::string_view norm, std::int64_t width);
  // Scores the compressed keys and chooses among them.
  void Choose(const Operand& x, const Operand& query_vector);

  LayerOperators& operators_;
  LayerTape& tape_;
  const Architecture& a_;
  const ModuleNames& names_;
  const Find find_;
};

}  // namespace stepcast::model
