#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/block_operators.h"

// Recurrent layers: the gated delta rule, Mamba-1, Mamba-2 and lightning attention. The first GEMM
// computes all inputs of the layer from a token. A short causal convolution mixes neighboring
// tokens. One pass over the sequence (a scan) updates the state. A gated norm and a GEMM end the
// layer. A short convolution between two gates (LFM2) is such a layer without a scan.
//
// The order of kernels and the kept values follow Megatron-Core
// (megatron/core/ssm/gated_delta_net.py, mamba_mixer.py @ d98e8a64ddf3) and flash-linear-attention
// (fla/ops/gated_delta_rule, fla/ops/kda @ bc3b101dcb71), and for short convolutions transformers
// (models/lfm2/modeling_lfm2.py, Lfm2ShortConv @ 0096ba4f66d4). The FLOPs of the scans per token,
// with chunks of C tokens, keys of dk elements, values of dv elements, and Mamba-2 states of P x N
// numbers, are:
//   delta rule, per value head: forward 6 dk dv + 2 C (3 dk + 2 dv); backward 16 dk dv + 2 C (8 dk
//     + 5 dv) + 4 C^2, which recomputes the states
//   Mamba-2: forward 4 P N + 2 C P per head and 2 C N per group; backward 2.5 times as many
//     (estimated). Lightning attention: the same, with N = P and a group per head
//   Mamba-1: 9 per channel and number of its state; backward 2.5 times as many (estimated). Each
//     chunk of 2,048 tokens keeps 2 FP32 numbers per channel and number of its state
//     (mamba_ssm/ops/selective_scan_interface.py @ 01887ed7d7c8)
//
// Tensor parallelism divides heads and groups. With context parallelism, an all-to-all after the
// first GEMM gives each rank all tokens of some heads, so that each rank scans complete sequences.
// Another all-to-all before the last GEMM reverses the exchange. A short convolution instead gets
// the last tokens of the previous rank.
namespace stepcast::model {

class RecurrentOperators : public BlockOperators {
 public:
  using BlockOperators::BlockOperators;

  // Returns the output of a recurrent mixer, summed over the tensor-parallel ranks.
  Operand Mix(Mixer mixer, const Operand& normalized);

 private:
  // These functions return the input of the mixer's last GEMM, for the rank's heads and tokens. `x`
  // is the full activation on each tensor-parallel rank.
  Operand DeltaRule(const Operand& x);
  Operand StateSpace(const Operand& x);
  Operand ShortConvolution(const Operand& x);
  Operand SelectiveScan(const Operand& x);
  Operand DecayAttention(const Operand& x);
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
  // A causal convolution of each channel over `width` tokens, which keeps x. `activated`: SiLU
  // follows, in the same kernel. `of_previous`: the last rows of the previous context-parallel
  // rank, which the convolution also reads.
  Operand Convolution(const Operand& x, std::string_view module, std::int64_t width,
                      bool activated = true, const std::optional<Operand>& of_previous = {});
  // Returns the last `rows` tokens of each of the previous context-parallel rank's sequences. Null
  // without context parallelism.
  std::optional<Operand> RowsOfPrevious(const Operand& x, std::string_view module,
                                        std::int64_t rows);

  // The inputs of the scan: queries, keys and values of every value head, and each token's decay
  // and strength in FP32.
  struct DeltaInputs {
    Pieces values;
    Bytes bytes;  // total of all inputs
  };
  DeltaInputs PrepareByHead(const Operand& convolved, const Operand& decay_beta);
  Operand ScanDelta(const DeltaInputs& inputs, std::int64_t tokens);
  DeltaInputs KimiInputs(const Operand& x);
  // A scan in chunks of tokens, with matrix multiplications within each chunk. Each head has a
  // state of `head` x `state` numbers. The heads of a group share the vectors that select states.
  struct ChunkedScan {
    std::string_view name;
    std::int64_t heads = 0, head = 0, state = 0, groups = 1, chunk = 0;
  };
  // Keeps its inputs. `constants`: positions of the constants whose gradients the scan computes.
  // `first_again`: computes the first input again in backward; the scan then does not keep it.
  Operand ScanChunks(const ChunkedScan& scan, const std::vector<Operand>& inputs,
                     const std::vector<int>& constants,
                     const std::function<Value()>& first_again = {});
  std::vector<int> Constants(std::initializer_list<std::string_view> modules) const;
  // Returns the number of chunks in the longest sequence, which a scan processes in sequence.
  std::int64_t Steps(std::int64_t chunk) const;
  // Runs a kernel of backward that reads `reads` and computes a gradient of each of `inputs`, and
  // the gradients of constants. The kernel also writes `scratch` bytes.
  void RunGradients(Kernel kernel, const Pieces& reads, const Pieces& inputs, Bytes scratch,
                    const std::vector<int>& constants);
  Kernel Scan(std::string name, ScanKind scan, bool forward, std::int64_t chunk, std::int64_t flops,
              Bytes read, Bytes written) const;
  // Normalizes each head or group and multiplies it by SiLU or the sigmoid of the gate, in one
  // kernel.
  Operand GatedNorm(const Operand& y, const Operand& gate, std::string_view module);

  // Operators of linear layers inside a fused autograd function, which are not quantized.
  LayerOperators in_16_bits_{WithoutQuantization(operators_.options_), tape_};
  Operand gate_;  // gate of Kimi delta attention
};

}  // namespace stepcast::model
