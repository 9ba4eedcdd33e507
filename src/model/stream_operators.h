#pragma once

#include <cstdint>
#include <string_view>

#include "src/model/layer_operators.h"

// Hyper-connections (arXiv 2512.24880): the residual consists of several streams of the hidden
// size. Before attention or a feed-forward layer (a branch), one kernel computes the branch's input
// from all streams, with weights from a small GEMM of the streams. After the branch, one kernel
// mixes the streams and adds the branch's output to each stream. Both kernels are memory-bound. The
// streams before the branch are kept for backward.
namespace stepcast::model {

class StreamOperators {
 public:
  // The object keeps a reference to `operators`, which must outlive the tape's Finish.
  StreamOperators(LayerOperators& operators, std::int64_t streams)
      : operators_(operators), tape_(*operators.tape_), streams_(streams) {}

  // Returns `streams` copies of x.
  Operand Spread(const Operand& x, std::string_view name);
  // Returns the branch's input. `numbers`: outputs of the small GEMM per token.
  Operand Take(const Operand& x, std::string_view module, std::int64_t numbers,
               const ModulePositions& parameters);
  // Returns the streams after the branch's output was added.
  Operand Give(const Operand& x, const Operand& branch, std::string_view module);

 private:
  using Value = LayerTape::Value;
  LayerOperators& operators_;
  LayerTape& tape_;
  const std::int64_t streams_;
};

}  // namespace stepcast::model
