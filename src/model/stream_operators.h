#pragma once

#include <cstdint>
#include <string_view>

#include "src/model/layer_operators.h"

// Hyper-connections (arXiv 2512.24880): the residual is several streams of the hidden width. Before
// a branch one kernel makes its input of all streams, with weights that a small product of the
// streams gives; behind it one kernel mixes the streams and adds the branch's output to each. Both
// are bound by memory; the streams before the branch are kept.
namespace stepcast::model {

class StreamOperators {
 public:
  // `operators` must outlive the tape's Finish.
  StreamOperators(LayerOperators& operators, std::int64_t streams)
      : operators_(operators), tape_(*operators.tape_), streams_(streams) {}

  // `streams` times x.
  Operand Spread(const Operand& x, std::string_view name);
  // The branch's input. `numbers`: that the small product makes for each token.
  Operand Take(const Operand& x, std::string_view module, std::int64_t numbers,
               const ModulePositions& parameters);
  // The streams behind the branch.
  Operand Give(const Operand& x, const Operand& branch, std::string_view module);

 private:
  using Value = LayerTape::Value;
  LayerOperators& operators_;
  LayerTape& tape_;
  const std::int64_t streams_;
};

}  // namespace stepcast::model
