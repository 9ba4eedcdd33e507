#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/block_operators.h"

// Recurrent layers: the gated delta rule and Mamba-2. The first GEMM computes all inputs of the
// layer from a token. A short causal convolution mixes neighboring tokens. One pass over the
// sequence (a scan) updates the state. A gated norm and a GEMM end the layer.
//
// The order of kernels and the kept values follow Megatron-Core
// (megatron/core/ssm/gated_delta_net.py, mamba_mixer.py @ d98e8a64ddf3) and flash-linear-attention
// (fla/ops/gated_delta_rule, fla/ops/kda @ bc3b101dcb71). The FLOPs of the scans per token, with
// chunks of C tokens, keys of dk elements, values of dv elements, and Mamba-2 states of P x N
// numbers, are:
//   delta rule, per value head: forward 6 dk dv + 2 C (3 dk + 2 dv); backward 16 dk dv + 2 C (8 dk
//     + 5 dv) + 4 C^2, which recomputes the states
//   Mamba-2: forward 4 P N + 2 C P per head and 2 C N per group; backward 2.5 times as many
//     (estimated)
//
// Tensor parallelism divides heads and groups. With context parallelism, an all-to-all after the
// first GEMM gives each rank all tokens of some heads, so that each rank scans complete sequences.
// Another all-to-all before the last GEMM reverses the exchange.
namespace stepcast::model {

class RecurrentOperators : public BlockOperators {
 public:
  using BlockOperators::BlockOperators;

  // DeltaRule and StateSpace return the input of the layer's last GEMM, for the rank's heads and
  // tokens. `x` is the result of EnterColumns: the full activation on each tensor-parallel rank.
  Operand DeltaRule(const Operand& x);
  Operand StateSpace(const Operand& x);

 private:
  using Pieces = std::vector<LayerTape::Piece>;

  // Returns the number of ranks among which heads are divided.
  std::int64_t parts() const;
  // Returns how many of a GEMM's `all` columns are on this rank.
  std::int64_t Columns(std::int64_t all) const;
  LinearModule Module(std::string_view name, std::int64_t out, bool part = false) const;
  // With context parallelism: ToHeads exchanges some tokens of all heads for all tokens of some
  // heads. ToTokens does the reverse.
  Operand ToHeads(const Operand& x, std::string_view name);
  Operand ToTokens(const Operand& x, std::string_view name);
  Operand Exchange(const Operand& x, const std::string& name, std::int64_t width,
                   std::int64_t tokens);
  // A causal convolution of each channel, followed by SiLU. If `keeps`, the input is kept for
  // backward.
  Operand Convolution(const Operand& x, std::string_view module, std::int64_t width, bool keeps);

  // The inputs of the scan: queries, keys and values of every value head, and each token's decay
  // and strength in FP32.
  struct DeltaInputs {
    Pieces values;
    Bytes bytes;  // total of all inputs
  };
  DeltaInputs PrepareByHead(const Operand& convolved, const Operand& decay_beta);
  Operand ScanDelta(const DeltaInputs& inputs, std::int64_t tokens);
  DeltaInputs KimiInputs(const Operand& x);
  // Returns the number of chunks in the longest sequence, which a scan processes in sequence.
  std::int64_t Steps(std::int64_t chunk) const;
  Kernel Scan(std::string name, ScanKind scan, bool forward, std::int64_t chunk, std::int64_t flops,
              Bytes read, Bytes written) const;
  // Normalizes each head or group and multiplies it by SiLU or the sigmoid of the gate, in one
  // kernel.
  Operand GatedNorm(const Operand& y, const Operand& gate, std::string_view module);

  Operand gate_;  // gate of Kimi delta attention
};

}  // namespace stepcast::model
