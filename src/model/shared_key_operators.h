#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"
#include "src/model/module_names.h"

// Attention whose keys and values are one vector a token for all heads (DeepSeek-V4): a window, and
// vectors that stand for many tokens each, all of them or those that an indexer chooses. The part
// of the output that positions have turned is turned back.
//
// With tensor parallelism every rank has the whole vectors and some of the heads.
namespace stepcast::model {

class SharedKeyOperators {
 public:
  using Find = std::function<ModulePositions(std::string_view module)>;
  // All must outlive the tape's Finish.
  SharedKeyOperators(LayerOperators& operators, const Architecture& architecture,
                     const ModuleNames& names, Find find);

  // What the core takes: queries of the rank's heads, and the vectors of all tokens.
  struct Vectors {
    Operand query, key;
  };
  // `x`: the rank's part of the tokens, normalised.
  Vectors Make(const Operand& x);
  // The core's shape: a window as wide as what a query reads on average of both kinds.
  AttentionShape Shape(std::int64_t document_length) const;
  // What the last product takes, of what the core makes.
  Operand Output(const Operand& y);

 private:
  using Value = LayerTape::Value;
  ModulePositions Whole(std::string_view module) const;
  // Vectors that stand for several tokens each. They are kept for backward.
  void Compress(const Operand& x, std::string_view product, std::string_view positions,
                std::string_view norm, std::int64_t width);
  // Scores of compressed keys, and the choice.
  void Choose(const Operand& x, const Operand& query_vector);

  LayerOperators& operators_;
  LayerTape& tape_;
  const Architecture& a_;
  const ModuleNames& names_;
  const Find find_;
};

}  // namespace stepcast::model
