#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/architecture.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_work.h"
#include "src/model/quantized_copies.h"

// The operators of a transformer's layers. Each operator has forward and backward kernels, as eager
// PyTorch launches them, and the values that its backward keeps. Kept values follow Korthikanti et
// al. 2022 (arXiv 2205.05198) and, for fused attention, FlashAttention-2 (Dao 2023, arXiv
// 2307.08691).
//
// Most functions add one operator to the tape. The operator reads an activation with `width`
// features per token, and the function returns the new activation. Widths are widths on one rank,
// after division by WorkOptions::tensor. Module names must outlive the object.
namespace stepcast::model {

struct ColumnRegion;
struct RowRegion;

// An activation with `width` elements for each of `tokens` tokens. With sequence parallelism,
// `tokens` is the number of tokens on this rank, except inside regions that tensor parallelism
// divides.
struct Operand {
  LayerTape::Value value = -1;
  std::int64_t width = 0;
  std::int64_t tokens = 0;
  bool fp32 = false;  // stored in FP32 under autocast, even if kernels compute in 16 bits
  // The tensor-parallel region that EnterColumns began with this operand. Null: no region.
  std::shared_ptr<ColumnRegion> region{};
  // The layer that ends the region, which Linear sets for LeaveRows. Null: no layer.
  std::shared_ptr<RowRegion> rows{};
};

// The positions of a module's parameters in Layer::tensors. -1: the module has no such parameter,
// or it is frozen.
struct ModulePositions {
  int weight = -1;
  int bias = -1;
  // Whether every rank has the full module but applies it only to the rank's part of the tokens
  // (Tensor::sequence_parallel).
  bool of_part = false;
  // Whether another GEMM uses the same weight, so that the backward of that GEMM completes the
  // weight's gradient.
  bool gradient_later = false;
  // `frozen`: the module's weight is frozen. `frozen_bias`: the module's bias is frozen too. Frozen
  // parameters have no positions and no gradients.
  bool frozen = false;
  bool frozen_bias = false;

  bool biased() const { return bias >= 0 || frozen_bias; }

  std::vector<int> all() const {
    std::vector<int> positions;
    if (weight >= 0) positions.push_back(weight);
    if (bias >= 0) positions.push_back(bias);
    return positions;
  }
};

// A linear layer, or one of several linear layers that one GEMM computes.
struct LinearModule {
  std::string_view name;
  std::int64_t out = 0;
  ModulePositions parameters;
  bool part = false;  // the module's columns are part of the previous module's tensor and bias
};

// How a GEMM of several modules stores its outputs:
//   kOne: in one tensor.
//   kSideBySide: in one tensor per module, with contiguous gradients.
//   kApart: in one tensor per module. A copy kernel then concatenates the modules' gradients.
enum class Outputs : std::uint8_t { kOne, kSideBySide, kApart };

// The dimensions of an attention core.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;   // elements of a query or key, per head
  std::int64_t value_size = 0;  // elements of a value and of the output, per head; 0: head_size
  // The number of padding elements in `value_size`, for kernels that require larger values.
  std::int64_t value_filling = 0;
  std::int64_t window = 0;  // 0: all previous tokens
  // True: each query attends to `window` keys that the model chooses among all previous keys.
  // False: each query attends to the last `window` keys.
  bool chosen = false;
  bool dropout = false;
  bool causal = true;  // false: every token attends to its full sequence, except masked padding
  // Whether attention has sinks. A sink is a trained number per head: an additional term of the
  // softmax that has no value vector.
  bool sinks = false;
  ModulePositions sink_positions{};
  // Whether scores are soft-capped: divided by a constant, passed through tanh, and multiplied by
  // the constant.
  bool capped = false;
  // For cross-attention: the number of context rows per sequence; every query reads these rows as
  // keys. 0: self-attention.
  std::int64_t context = 0;
  // Whether a trained number is added to each score instead of a mask. The number's gradients are
  // summed over all blocks (transformers, models/t5/modeling_t5.py). Only for MathAttention.
  bool biased = false;
  bool scaled = true;  // scores are divided by the root of head_size

  std::int64_t values() const { return value_size > 0 ? value_size : head_size; }
};

class LayerOperators {
 public:
  LayerOperators(const WorkOptions& options, LayerTape& tape);

  Operand Input(std::int64_t width);

  // A linear layer, y = x W + b. Forward is one GEMM. Backward computes the gradients of the input,
  // of the weight and, by a reduction over tokens, of the bias.
  //
  // The layer keeps x or a copy of it: in 16 bits under autocast, transposed in FP8, and with
  // scales by columns in MXFP8 and NVFP4. In 8 and 4 bits, kernels cast inputs, output gradients
  // and weights. WorkOptions::casts_weights decides whether weights are cast for every micro-batch
  // or once per step.
  Operand Linear(Operand x, std::string_view module, std::int64_t out, ModulePositions parameters);
  // Runs several linear layers with the same input as one GEMM.
  std::vector<Operand> Linears(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs);
  // Enters a region of tensor parallelism (arXiv 1909.08053, 2205.05198). Between EnterColumns and
  // LeaveRows, each rank computes with its columns of the first weight and its rows of the second
  // weight. Returns the full activation on each rank. With sequence parallelism, an all-gather
  // collects the full activation; otherwise, the call has no cost. Without tensor parallelism, both
  // functions return x.
  //
  // Backward sums the ranks' gradients (reduce-scatter with sequence parallelism, otherwise
  // all-reduce). The region's weight gradients are issued after this sum and do not wait for it, as
  // in Megatron-LM (core/tensor_parallel/layers.py,
  // LinearWithGradAccumulationAndAsyncCommunication). With WorkOptions::regathers, each rank keeps
  // only its part of the activation and gathers it again during the input gradients' GEMMs.
  // Otherwise, each rank keeps the gathered activation.
  //
  // For GEMMs in 8 or 4 bits, each rank casts its part before the gathers (Transformer Engine).
  // torchao's Float8ColwiseParallel and Float8RowwiseParallel also cast first, but keep the full
  // activation. `as_it_is`: the gather is not quantized, because another operator also reads the
  // full activation. `name` is the prefix of operator names.
  Operand EnterColumns(Operand x, std::string_view name, bool as_it_is = false);
  // Sums the ranks' outputs (all-reduce, or reduce-scatter with sequence parallelism) and then adds
  // the bias of `module`, if any. The bias's gradient is a reduction over tokens. With sequence
  // parallelism, backward gathers the gradient.
  Operand LeaveRows(Operand x, std::string_view module, ModulePositions parameters);
  // Returns a rank's queries, keys and values if there are fewer key-value heads than ranks
  // (Megatron-LM's pull request 2565). `x` has the rank's columns of the GEMM's output, with only a
  // part of a key-value head. The ranks gather all columns, and each rank selects its queries, keys
  // and values, which have the three `widths`. Backward sums the gradients of ranks that share a
  // head.
  std::array<Operand, 3> GatherHeads(Operand x, std::string_view module,
                                     const std::array<std::int64_t, 3>& widths);
  // A linear layer followed by LeaveRows. If WorkOptions::tensor_overlap requires it, the GEMM and
  // the sum run piece by piece.
  Operand LinearRows(Operand x, std::string_view module, std::int64_t out,
                     ModulePositions parameters);
  // Returns the sum of x over all tensor-parallel ranks. The sum is an all-reduce, even with
  // sequence parallelism.
  Operand AddUp(Operand x);
  // With WorkOptions::adds_up_parts, adds an all-reduce at the end of backward. The all-reduce sums
  // the gradients of modules, such as norms, that each rank applies to its part of the tokens. Call
  // this function before all other operators of forward.
  void AddUpParts();
  // Takes an activation that all ranks have, and returns the rank's part of the tokens. Backward
  // gathers the gradient. Without sequence parallelism, returns x unchanged.
  Operand PartOfTokens(Operand x, std::string_view module);
  // Gathers all tokens of an activation that is divided among ranks (the inverse of PartOfTokens).
  // In backward, each rank gets the sum of all ranks' gradients for its own tokens. Without
  // sequence parallelism, nothing is gathered, and backward sums the gradients of the ranks.
  Operand AllTokens(Operand x, std::string_view module);
  // Gathers all features from the ranks' parts by an all-gather and a copy, as Megatron-LM gathers
  // along the last dimension. In backward, each rank uses its part of the gradient.
  Operand GatherFeatures(Operand x, std::string_view module);
  // Converts a part of the features of all tokens to all features of the rank's tokens, by one
  // all-to-all in forward and one in backward.
  Operand FeaturesToTokens(Operand x, std::string_view module);

  // A norm as one fused kernel. The norm keeps x and, for RMSNorm, one FP32 number per token. The
  // statistics of LayerNorm are not included, as in Korthikanti et al. An unfused RMSNorm
  // (eager_operators.cc) keeps x in FP32, one number per token, and the normalized value.
  Operand Norm(Operand x, std::string_view module, Normalization normalization,
               ModulePositions parameters);
  // An RMSNorm of each head separately, with one weight for all heads. The heads are contiguous.
  Operand NormOfHeads(Operand x, std::string_view module, std::int64_t head_size,
                      ModulePositions parameters);
  // Applies rotary positions to queries or keys, in one kernel or several. Keeps no values.
  Operand Rotary(Operand x, std::string_view module, std::int64_t head_size);
  // Copies contiguous queries, keys and values into three tensors.
  std::array<Operand, 3> Split(Operand x, std::string_view module,
                               const std::array<std::int64_t, 3>& widths);
  // Copies keys or values so that every query head has a separate copy.
  Operand RepeatHeads(Operand x, std::string_view module, std::int64_t times);
  // Pads heads with zeros to another size, or removes the padding. Used for attention cores that
  // require values of the same size as queries and keys.
  Operand ResizeHeads(Operand x, std::string_view module, std::string_view suffix,
                      std::int64_t heads, std::int64_t size);
  // Adds a bias in place to contiguous outputs. The kernel's bytes do not include the bytes of the
  // bias.
  void AddBias(const std::vector<Operand>& ys, std::string_view module);
  // Returns a copy of x in which the token and sequence dimensions are swapped.
  Operand Transposed(Operand x, std::string_view module, std::string_view suffix);

  // The attention core as one kernel, which does not write scores to memory. With a causal mask,
  // the kernel computes half of the scores. The core keeps its operands, its output and the
  // log-sum-exp (one FP32 number per head and token). Forward has two matrix multiplications.
  // Backward has five, because it recomputes the scores.
  Operand FlashAttention(Operand query, Operand key, Operand value, std::string_view module,
                         const AttentionShape& shape);
  // The attention core as one kernel that reads one tensor with contiguous queries, keys and
  // values. In backward, a copy assembles the gradient of this tensor.
  Operand FlashAttention(Operand query_key_value, std::string_view module,
                         const AttentionShape& shape);
  // The attention core as separate kernels for GEMMs, mask, softmax and dropout, which write the
  // full score matrix. Keys and values have as many heads as the queries. The core keeps its
  // operands, softmax output and, with dropout, the dropout's output and mask (one byte per
  // element).
  //
  // In compiled code, the operations between the GEMMs are one kernel in forward and one in
  // backward. In an encoder, a separate kernel scales the scores
  // (transformers/models/bert/modeling_bert.py), unless the softmax kernel scales them.
  Operand MathAttention(Operand query, Operand key, Operand value, std::string_view module,
                        const AttentionShape& shape);
  Operand MathAttention(Operand query_key_value, std::string_view module,
                        const AttentionShape& shape);

  // Adds the gradients of the heads' sinks after the core's backward. Each gradient is a sum over
  // tokens of values that the core's backward reads anyway: log-sum-exp and row sums. Call this
  // function before the function that adds the core.
  void SinkGradients(const AttentionShape& shape, std::string_view module);
  // Applies sinks to the output of a core that does not support sinks (RescalesForSinks).
  // Multiplies each head's part by sigmoid(l - s), where l is the log-sum-exp and s is the head's
  // sink.
  Operand RescaleForSinks(const Operand& y, std::string_view module, const AttentionShape& shape);

  // Returns input values from outside the model, such as pixels. The values have no gradient.
  Operand Values(std::string_view name, std::int64_t width, std::int64_t tokens);
  // Returns rows that another layer keeps and that all blocks read. Backward adds this layer's
  // gradient of the rows to the sum over all blocks.
  Operand Context(std::string_view name, std::int64_t width, std::int64_t tokens);
  // A convolution over `taps` neighboring rows of a sequence, with `tokens` output rows in total.
  // The convolution costs as much as a GEMM whose input has these `taps` rows side by side.
  Operand Convolution(Operand x, std::string_view module, std::int64_t out, std::int64_t taps,
                      std::int64_t tokens, ModulePositions parameters);
  // Puts `rows` trained rows before x, at the beginning of each sequence of the batch.
  Operand PutRowsBefore(Operand x, std::string_view module, std::int64_t rows, int weight);
  // Returns two views of x: its first `first` rows, and its other rows. `copies`: backward copies
  // the gradients of both views into one tensor. Otherwise, the gradients remain two tensors.
  std::array<Operand, 2> DivideRows(const Operand& x, std::string_view name, std::int64_t first,
                                    bool copies);
  // Joins two operands' rows (the inverse of DivideRows). If `copies` is false, the operands remain
  // separate tensors.
  Operand JoinRows(const std::array<Operand, 2>& parts, std::string_view name, bool copies);
  // Multiplies x by one of the sample's modulation vectors and adds another vector; keeps x.
  // `vectors` has all modulation vectors of the block.
  Operand Modulate(Operand x, Operand vectors, std::string_view name);
  // Returns x + `branch` * v, where v is one of the sample's modulation vectors; keeps `branch`.
  Operand GatedAdd(Operand x, Operand branch, Operand vectors, std::string_view name);
  // Returns the mean of each sequence's rows.
  Operand MeanOfTokens(Operand x, std::string_view module, std::int64_t sequences);
  // Adds a loss: the mean squared difference between x and numbers from outside the model. Keeps
  // both operands.
  void SquaredError(Operand x, std::string_view module);
  // Expands a table with one number per head and distance to one number for each score of the
  // batch. The result is kept, and all blocks of the encoder or decoder read it.
  void Distances(std::string_view module, std::int64_t heads, std::int64_t buckets, int weight);
  // Returns x with some of its rows replaced by `rows`.
  Operand ReplaceRows(Operand x, Operand rows, std::string_view name);
  // Returns the features of `x` and `y` concatenated.
  Operand Join(Operand x, Operand y, std::string_view name);
  // Sums the gradients of a weight that two GEMMs use. Call this function before the function that
  // adds the first GEMM, because the gradient of the first GEMM is computed last.
  void AddUpWeightGradients(std::string_view module, std::int64_t elements,
                            ModulePositions parameters);
  Operand Add(Operand x, Operand y, std::string_view name);
  // Returns a weighted mean of x and `rows` other rows of the same width, which other layers keep.
  // The weights are a softmax over the dot product of each normalized row with a trained vector.
  // Forward and backward are one kernel each.
  Operand MeanOfRows(Operand x, std::string_view module, std::int64_t rows,
                     ModulePositions parameters);
  // Returns the length of a document in tokens. If documents have several lengths, returns the
  // rounded MeanLengthOfTokens.
  std::int64_t DocumentLength() const;
  // Returns x times a constant. In compiled code, the kernel that reads the result scales x.
  Operand Scale(Operand x, std::string_view name);
  Operand Multiply(Operand x, Operand y, std::string_view name);  // keeps x and y
  Operand Gelu(Operand x, std::string_view module);     // keeps x; NewGELU keeps four values
  Operand Silu(Operand x, std::string_view module);     // keeps x
  Operand Relu(Operand x, std::string_view module);     // keeps its result
  Operand Tanh(Operand x, std::string_view module);     // keeps its result
  Operand Sigmoid(Operand x, std::string_view module);  // keeps its result
  // Multiplies each token's row of x by the token's number in `numbers`; keeps both operands.
  Operand ScaleRows(Operand x, Operand numbers, std::string_view name);
  // A squared ReLU as one fused kernel, as in Megatron-LM's jit_fuser; keeps x.
  Operand SquaredRelu(Operand x, std::string_view module);
  // xIELU as one fused kernel; keeps x. Backward also computes the gradients of its parameters.
  Operand Xielu(Operand x, std::string_view module, const ModulePositions& parameters);
  // Returns silu(gate) times up. Forward is one kernel, and one kernel computes both gradients.
  // Keeps both operands.
  Operand GatedSilu(Operand gate, Operand up, std::string_view module);
  Operand Dropout(Operand x, std::string_view module);  // keeps a mask: one byte per element
  // Returns x + dropout(branch), computed by one kernel like Megatron-LM's bias_dropout_add; keeps
  // the mask.
  Operand DropoutAdd(Operand x, Operand branch, std::string_view module);

  // Looks up one row of a table per token. The table's gradient is dense: a kernel adds the tokens'
  // rows to a tensor of zeros. `shared`: the head uses the same table, and a kernel at the end adds
  // both gradients.
  Operand Lookup(std::string_view module, std::int64_t rows, std::int64_t width, int weight,
                 bool shared);
  // Adds a row of the table of positions to each token. Every sequence uses the same rows.
  Operand AddPositions(Operand x, std::string_view module, std::int64_t rows, int weight);

  // Adds a row of the table of token types to each token.
  Operand AddTokenTypes(Operand x, std::string_view module, std::int64_t rows, int weight);
  // Copies `tokens` of the operand's tokens to a contiguous tensor. The gradient of x is zero for
  // all other tokens.
  Operand TakeTokens(Operand x, std::string_view module, std::int64_t tokens);

  // The head's linear layer and the cross entropy of its logits.
  struct LossHead {
    std::string_view module;
    std::int64_t words = 0;  // vocabulary entries of this rank
    ModulePositions parameters;
    bool capped = false;  // logits are soft-capped
    std::string_view loss;
  };
  void LossOfProduct(Operand x, const LossHead& head);

  // Computes the cross entropy over the full vocabulary. Without fusion, kernels cast the logits to
  // FP32 and compute the log-softmax and the negative log-likelihood. Backward creates two FP32
  // gradients of the log-softmax's size, then the gradient of the logits. The operator keeps only
  // the log-softmax, because most training loops free the logits before backward
  // (torchtitan/train.py, `del pred`; in transformers/trainer.py, compute_loss returns only the
  // loss). Loss::kHuggingFace is for training loops that do not free the logits.
  //
  // With fusion, FP32 numbers stay in registers. Forward reads the logits twice, for the maximum
  // and for the sum. Backward reads the logits once more and writes their gradient. If the ranks
  // divide the vocabulary, FP32 all-reduces first compute each token's maximum, sum of exponentials
  // and target logit (core/tensor_parallel/cross_entropy.py). With fusion, one all-reduce computes
  // both the sum and the target logit.
  void CrossEntropy(Operand logits, std::string_view module);

 private:
  friend class LatentAttentionOperators;
  friend class MixtureOperators;
  friend class BlockOperators;
  friend class RecurrentOperators;
  friend class IndexerOperators;
  friend class SharedKeyOperators;
  friend class StreamOperators;

  // Computes the cross entropy of logits as WorkOptions::loss specifies (loss_operators.cc).
  class LossOfLogits;
  // Implementations of LossOfProduct for losses that keep no logits, or only a part of them, in
  // memory.
  void ChunkedLoss(const Operand& x, const LossHead& head);
  void CutLoss(const Operand& x, const LossHead& head);

  // The operands of an attention core, whose backward computes gradients of these values.
  struct Core {
    LayerTape::Value query, key, value;  // if contiguous, the same value three times
    bool fused = false;
  };
  // A part of an attention core. Each document has `queries` queries. Each query attends to at most
  // `visible` previous keys or, without a causal mask, to all `visible` keys. If documents have
  // several lengths, each is treated as having DocumentLength() tokens.
  struct Block {
    std::int64_t queries = 0, visible = 0;
    bool causal = true;
    // The totals of all documents of the micro-batch.
    std::int64_t rows = 0, key_rows = 0;
    std::int64_t seen_twice = 0;  // twice the number of pairs of a query and a visible key
  };
  // The totals of all documents of the micro-batch.
  struct BlockSizes {
    std::int64_t query_elements = 0, output_elements = 0;
    Bytes queries, output;
    Bytes key, value, keys;  // `keys`: bytes of keys and values together
    Bytes row_numbers;       // one FP32 number per row
  };

  static std::int64_t Elements(const Operand& x) { return x.tokens * x.width; }
  Bytes BytesOfElements(std::int64_t elements) const { return Bytes(elements * element_size_); }
  std::int64_t ElementSize(const Operand& x) const { return x.fp32 ? 4 : element_size_; }
  Bytes Size(const Operand& x) const { return Bytes(Elements(x) * ElementSize(x)); }
  Operand Make(std::string name, std::int64_t width, std::int64_t tokens, bool fp32 = false);
  // Returns `times` copies of x. Backward sums the gradients of the copies.
  Operand Copies(Operand x, std::string_view name, std::int64_t times);

  Kernel Gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
              ProductLayout layout = ProductLayout::kForward) const;
  // Returns one GEMM of an attention core with separate kernels. The head size is `k` if `layout`
  // is the forward layout, otherwise `n`.
  Kernel ScoreProduct(std::string name, const AttentionShape& shape, std::int64_t m, std::int64_t n,
                      std::int64_t k, ProductLayout layout) const;
  Kernel Memory(std::string name, std::int64_t flops, Bytes read, Bytes written) const;
  // Sets the kernel's memory access to the access of eager PyTorch, unless the code is compiled.
  Kernel Eager(Access access, Kernel kernel) const {
    if (!options_.compiled) kernel.access = access;
    return kernel;
  }
  Operand Elementwise(Operand x, std::string_view module, std::int64_t flops_per_element,
                      bool keeps_result = false);
  // Runs a backward kernel that sums parameter gradients over the rank's part of the tokens.
  void RunPartGradients(Kernel kernel, LayerTape::Values reads, std::vector<int> gradients,
                        const ModulePositions& parameters);
  // The inputs or outputs of a GEMM over tokens. Without `by_tokens`, one GEMM reads or writes all
  // pieces. With `by_tokens`, there is one GEMM per piece, which computes the piece's part of the
  // tokens.
  using Pieces = std::vector<LayerTape::Piece>;
  struct Factor {
    Pieces pieces{};
    bool by_tokens = false;
  };
  // Runs the GEMM as one kernel, or as one kernel for each piece of the tokens. After each kernel,
  // calls `made` with the index of the piece.
  void RunProduct(bool forward, const Kernel& product, const Factor& input,
                  std::optional<LayerTape::Value> also, const Factor& output,
                  const std::vector<int>& parameters, const std::function<void(int)>& made = {});
  // One GEMM of a linear layer, and the GEMMs that compute its gradients (product_operators.cc).
  class LinearProduct;
  std::vector<Operand> Product(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs,
                               std::shared_ptr<RowRegion> rows);
  // Exchanges the ranks' parts of an activation. Returns the rank's own part and the parts of the
  // other ranks, which arrive one by one as pieces of `others`.
  Pieces ExchangeParts(bool forward, LayerTape::Value own, LayerTape::Value others);
  // Gathers all ranks' parts of the tokens from `part` into `whole`, or reduce-scatters `whole`
  // into the parts. `forward`: in forward; otherwise in backward. If WorkOptions::divides_sequences
  // is set, a copy reorders the tokens.
  void GatherTokens(bool forward, LayerTape::Value part, LayerTape::Value whole, Bytes bytes,
                    std::string_view name);
  void ScatterTokens(bool forward, LayerTape::Value whole, LayerTape::Value part, Bytes bytes,
                     std::string_view name);
  // Returns the tensors to gather: the cast copies of a rank's part of the tokens, or `part` itself
  // if parts are not cast. With FP8, there is one copy, which is transposed after the gather. With
  // other types, there is a copy by rows and a copy by columns.
  QuantizedCopies Gatherable(bool forward, LayerTape::Value part, std::int64_t elements,
                             const std::string& name);
  // Returns the inputs of the kernel that casts a rank's part of the tokens. The inputs are the
  // part and, if the scale depends on the tensor's maximum, the scale. All gathered parts need the
  // same scale, so an all-reduce computes the maximum before the cast (Transformer Engine,
  // with_amax_reduction of Float8CurrentScalingQuantizer and NVFP4Quantizer; torchao's layers on a
  // DTensor).
  std::vector<LayerTape::Piece> WithAgreedScale(bool forward, LayerTape::Value part,
                                                std::int64_t elements, const std::string& name);
  // Returns a collective during which GEMMs that do not read its result may run.
  LayerTape::Collective Beside(CollectiveKind kind) const;
  // Records the backward of LeaveRows: the gathered gradient of `sum` becomes the gradient of `x`.
  void LeaveSum(const Operand& x, const Operand& sum, std::string_view module,
                ModulePositions parameters);
  bool overlaps() const {
    return options_.tensor_overlap != TensorOverlap::kNone && options_.sequence_parallel &&
           options_.tensor > 1;
  }
  bool user_buffers() const {
    return overlaps() && options_.tensor_overlap == TensorOverlap::kUserBuffers;
  }
  // Returns whether parts of the tokens are cast to 8 or 4 bits before they are gathered.
  bool gathers_quantized() const {
    return quantizes() && options_.sequence_parallel && (options_.regathers || turns_in_backward());
  }
  // Returns whether GEMMs are in 8 or 4 bits.
  bool quantizes() const { return IsQuantized(options_.compute); }
  // Returns whether scales by columns differ from scales by rows, so that the two copies differ.
  bool scales_both_ways() const { return quantizes() && options_.compute != DataType::kFp8; }
  // Returns whether a tensor's maximum is computed before the cast. True for current scaling, and
  // for NVFP4, which has a scale per tensor in addition to scales per block.
  bool reads_for_scales() const {
    return options_.compute == DataType::kNvfp4 ||
           (options_.compute == DataType::kFp8 && (options_.fp8_scaling == Fp8Scaling::kCurrent ||
                                                   options_.fp8_scaling == Fp8Scaling::kTorchao));
  }
  // Returns whether each row has one scale. Backward then casts inputs again from 16 bits, by
  // columns.
  bool scales_rows() const {
    return options_.compute == DataType::kFp8 &&
           options_.fp8_scaling == Fp8Scaling::kTorchaoRowwise;
  }
  bool turns_in_backward() const {
    return options_.compute == DataType::kFp8 && options_.fp8_scaling == Fp8Scaling::kTorchao;
  }
  Bytes QuantizedBytes(std::int64_t elements) const { return BytesOf(elements, options_.compute); }
  std::string InLowPrecision() const;  // " in FP8"
  // Returns the kernel that casts a 16-bit tensor of `bytes` to `copies` copies, each of size
  // `copy`.
  Kernel Quantize(std::string name, Bytes bytes, Bytes copy, int copies) const;
  // Runs a kernel that computes `numbers` FP32 numbers per token from `from`. If the vocabulary is
  // divided among ranks, sums these numbers by an all-reduce and returns the sums. Otherwise,
  // returns no value.
  std::optional<LayerTape::Value> AgreedRows(Kernel kernel, LayerTape::Value from, std::string name,
                                             std::int64_t numbers);
  // Returns the number of documents in the micro-batch. A sequence without documents is one
  // document. If documents have several lengths, each is treated as having DocumentLength() tokens,
  // and the result is rounded up.
  std::int64_t Documents() const;
  // Returns a block with `queries` queries and `keys` keys in each document. `seen_twice` is twice
  // the number of pairs of a query and a visible key per document.
  Block OfEachDocument(std::int64_t queries, std::int64_t keys, std::int64_t visible,
                       std::int64_t seen_twice, bool causal) const;
  Block WholeDocuments(const AttentionShape& shape) const;
  // Returns the number of token pairs of a sequence that model FLOPs include. Pairs that a causal
  // mask hides are included.
  std::int64_t CountedPairs(const AttentionShape& shape) const;
  BlockSizes SizesOf(const AttentionShape& shape, const Block& block) const;
  // The kernel of fused attention. Attention must be fused (FlashGeneration).
  Kernel FlashKernel(std::string name, const AttentionShape& shape, const Block& block) const;
  // Returns the kernel that multiplies queries and keys. Each key represents `compressed` tokens. A
  // fused kernel computes only the block's pairs and writes no scores. Otherwise, a GEMM computes
  // all pairs and writes the scores to memory.
  Kernel Scores(std::string name, const AttentionShape& shape, const Block& block,
                std::int64_t compressed = 1) const;
  // Returns the backward of Scores: two multiplications of the same size.
  Kernel ScoresGradient(std::string name, const AttentionShape& shape, const Block& block,
                        std::int64_t compressed = 1) const;
  // Returns the output of Scores, which is kept for backward if the scores are in memory.
  LayerTape::Value MakeScores(const Kernel& scores);
  // Runs the kernels of a block's backward. The kernels read `reads`, which starts with the
  // output's gradient, and write the pieces that `gradients` creates.
  void RunFlashGradient(std::string_view module, const AttentionShape& shape, const Block& block,
                        const Pieces& reads, const std::function<Pieces()>& gradients);
  // Passes the gradients of queries, keys and values to the core's operands. `bytes` is the
  // gradients' total size.
  void Deliver(const Core& core, std::string_view module, const Pieces& gradients, Bytes bytes);

  // Returns autocast's 16-bit copy of `x`.
  Operand Cast(Operand x, std::string_view module);
  // Returns the quantized copies of a GEMM's input, or no value if GEMMs are not in 8 or 4 bits.
  // One kernel reads the input once and writes both copies (see Fp8Scaling). GEMMs with the same
  // input share the copies. Only weight gradients need the second copy; if the weight is frozen,
  // the second copy is the first.
  std::optional<QuantizedCopies> Quantized(const Operand& x, std::string_view module, bool frozen);
  // Returns the quantized copies of a value in backward: of a gradient, or of an input that was
  // gathered again.
  QuantizedCopies QuantizedInBackward(const std::vector<LayerTape::Piece>& value,
                                      std::int64_t elements, std::string name);
  // In backward, Transposed creates and returns the transposed 8-bit copy of `value` for weight
  // gradients. If each row has one scale, CastColumns instead casts `value` again from 16 bits.
  // CastColumns reads `value` twice: for the maxima of the columns, and for the cast.
  LayerTape::Value Transposed(std::string name, const std::vector<LayerTape::Piece>& value,
                              std::int64_t elements);
  LayerTape::Value CastColumns(std::string name, const std::vector<LayerTape::Piece>& value,
                               std::int64_t elements);
  // An RMSNorm, split into the kernels that eager PyTorch launches (eager_operators.cc).
  class UnfusedRmsNorm;
  Operand EagerRmsNorm(Operand x, std::string_view module, ModulePositions parameters);
  Operand ComplexRotary(Operand x, std::string_view module, std::int64_t head_size);
  Operand HalvesRotary(Operand x, std::string_view module, std::int64_t head_size);
  Operand NewGelu(Operand x, std::string_view module);
  Operand Flash(const Core& core, std::string_view module, const AttentionShape& shape);
  Operand FlashOfDocuments(const Core& core, std::string_view module, const AttentionShape& shape);
  // Runs flash attention if each rank has a part of each sequence (WorkOptions::context,
  // context_operators.cc).
  Operand FlashOverContext(const Core& core, std::string_view module, const AttentionShape& shape);
  Operand FlashOfParts(const Core& core, std::string_view module, const AttentionShape& shape);
  // Ring attention: one attention block for each rank's keys, and a merge of the results. In
  // Transformer Engine's implementation, each message overlaps with the attention block before it.
  // Backward begins with the keys that arrived last, and the keys' gradients follow the keys around
  // the ring. PyTorch's implementation merges results and sends gradients in FP32. PyTorch may also
  // gather the keys during the first block instead of sending messages.
  class KeyRing;
  Operand RingAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // Attention over gathered keys and values, which a copy puts in order. An attention core then
  // runs for each chunk of the rank's queries. Backward gathers keys and values again and
  // reduce-scatters their gradients.
  class GatheredKeys;
  Operand GatheredAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // RingAxes returns the axes along which the ring runs. RingBlocks returns the attention block
  // that a rank in the middle of the sequence computes in each step of the ring.
  parallel::AxisSet RingAxes() const;
  std::vector<Block> RingBlocks() const;
  // Exchanges values among the ranks of a group (ContextParallel::heads). A rank sends all heads of
  // its tokens and receives some heads of all tokens, or the reverse. There is one all-to-all per
  // value, between two copies. While an all-to-all runs, kernels copy other values.
  struct Exchanged {
    LayerTape::Value from, to;
    Bytes bytes;
  };
  void ExchangeHeads(bool forward, const std::string& name, const std::vector<Exchanged>& values);

  // These functions create values, run kernels and communicate: in forward if `forward` is true,
  // otherwise in backward.
  LayerTape::Value MakeIn(bool forward, std::string name, Bytes bytes);
  void RunIn(bool forward, Kernel kernel, const Pieces& reads, const Pieces& writes);
  void CommunicateIn(bool forward, const LayerTape::Collective& collective, LayerTape::Piece source,
                     LayerTape::Piece target);
  // Runs an attention core with the score matrix in memory (attention_operators.cc).
  class ScoreMatrixCore;
  Operand Math(const Core& core, std::string_view module, const AttentionShape& shape);
  // Runs separate kernels that soft-cap the attention scores (AttentionShape::capped). `scores` is
  // their number. UncappedGradient computes the gradient of the scores before the cap.
  struct CappedScores {
    LayerTape::Value tanh, capped;
  };
  CappedScores CapScores(std::string_view module, LayerTape::Value raw, Bytes matrix,
                         std::int64_t scores);
  LayerTape::Value UncappedGradient(std::string_view module, LayerTape::Value gradient,
                                    const CappedScores& caps, Bytes matrix, std::int64_t scores);

  WorkOptions options_;
  LayerTape* tape_;
  std::int64_t tokens_;                               // tokens of the micro-batch on this rank
  std::int64_t positions_;                            // tokens of a sequence on this rank
  DataType element_;                                  // type of activations
  std::int64_t element_size_;                         // bytes
  std::vector<std::function<void()>> sums_of_parts_;  // sums for backward, added by AddUpParts
  LayerTape::Value quantized_ = -1;  // the value whose copies are quantized_copies_
  QuantizedCopies quantized_copies_;
  bool casts_inside_ = false;  // GEMM kernels cast their own inputs
  // The transposed copy of the input. The copy is created for the first weight-gradient GEMM that
  // reads it, and shared by all later GEMMs.
  std::shared_ptr<std::optional<LayerTape::Value>> turned_;
  // The latest output of Add. Compiled code fuses Add with a norm of this output.
  LayerTape::Value last_sum_ = -1;
};

// Returns the type of activations and of all kernels except GEMMs. The type is bf16 if the compute
// type has 8 or 4 bits, fp32 if the compute type is tf32, and otherwise the compute type.
DataType ActivationType(DataType compute);
// Returns `options` for GEMMs that remain in 16 bits in a model whose other GEMMs are in 8 or 4
// bits.
WorkOptions WithoutQuantization(WorkOptions options);

}  // namespace stepcast::model
