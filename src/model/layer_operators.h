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

// The operators of a transformer's layers. Each has its forward and backward kernels, as eager
// PyTorch launches them, and the values that its backward keeps. Kept values follow Korthikanti et
// al. 2022 (arXiv 2205.05198) for LayerNorm, GeLU, dropout and attention with separate kernels, and
// FlashAttention-2 (Dao 2023, arXiv 2307.08691) for the fused core.
//
// All functions take an activation of `width` features per token and return a new one. A module's
// name must outlive the object. Widths are those of one rank: in a layer divided over
// WorkOptions::tensor ranks, its part.
namespace stepcast::model {

struct ColumnRegion;
struct RowRegion;

// An activation: `width` elements for each of `tokens`. With sequence parallelism, outside the
// regions that tensor parallelism divides, `tokens` is a rank's part of the micro-batch's.
struct Operand {
  LayerTape::Value value = -1;
  std::int64_t width = 0;
  std::int64_t tokens = 0;
  bool fp32 = false;  // under autocast, while kernels compute in 16 bits
  // Set by EnterColumns; otherwise null.
  std::shared_ptr<ColumnRegion> region{};
  // Set by Linear for LeaveRows; otherwise null.
  std::shared_ptr<RowRegion> rows{};
};

// Positions of a module's parameters in Layer::tensors; -1: it has none.
struct ModulePositions {
  int weight = -1;
  int bias = -1;
  // The module is whole on every rank and applied to a rank's part of the tokens
  // (Tensor::sequence_parallel).
  bool of_part = false;
  // Another product of the layer shares the weight, and its backward completes the gradient.
  bool gradient_later = false;
  // The module has a frozen weight (and perhaps bias): no positions, no gradients.
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

// A linear layer, or one of several that form one product.
struct LinearModule {
  std::string_view name;
  std::int64_t out = 0;
  ModulePositions parameters;
  bool part = false;  // it shares the tensor and bias of the module before it
};

// Outputs of a product of several modules: one tensor; or one per module, whose gradients are
// either contiguous or separate, so that a copy joins them.
enum class Outputs : std::uint8_t { kOne, kSideBySide, kApart };

// The dimensions of an attention core.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;   // of queries and keys
  std::int64_t value_size = 0;  // elements of a value and of the output, per head; 0: head_size
  // Padding in value_size, up to the size that the kernel requires; not part of the model.
  std::int64_t value_filling = 0;
  std::int64_t window = 0;  // 0: every previous token
  // The `window` keys of a query are chosen among all previous ones, instead of being the last.
  bool chosen = false;
  bool dropout = false;
  bool causal = true;  // false: every token attends to its whole sequence, except masked padding
  // Attention sinks: a number per head takes part in the softmax as an additional key and does not
  // contribute to the output.
  bool sinks = false;
  ModulePositions sink_positions{};
  // Scores are soft-capped: divided by a constant, tanh, times the constant.
  bool capped = false;
  // Cross-attention: keys of one sequence, all of which every query sees; 0: the sequence's own.
  std::int64_t context = 0;
  // A number for each score is added instead of a mask, and its gradient is summed over all blocks
  // (transformers, models/t5/modeling_t5.py). Only for MathAttention.
  bool biased = false;
  bool scaled = true;  // scores are divided by the root of head_size

  std::int64_t values() const { return value_size > 0 ? value_size : head_size; }
};

class LayerOperators {
 public:
  LayerOperators(const WorkOptions& options, LayerTape& tape);

  Operand Input(std::int64_t width);

  // y = x W + b. Forward is one GEMM. Backward computes the input's gradient, then the weight's,
  // then the bias's as a reduction over tokens. Keeps x; under autocast, its 16-bit copy; with FP8,
  // its transposed 8-bit copy; with MXFP8 and NVFP4, the copy scaled for the other side. In 8 and 4
  // bits, inputs, output gradients and weights are cast (weights for every micro-batch or once a
  // step: WorkOptions::casts_weights).
  Operand Linear(Operand x, std::string_view module, std::int64_t out, ModulePositions parameters);
  // Several linear layers with the same input, as one product.
  std::vector<Operand> Linears(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs);
  // Tensor parallelism (arXiv 1909.08053, 2205.05198). Between EnterColumns and LeaveRows, each
  // rank computes with its columns of the first weight and its rows of the second. Without tensor
  // parallelism both return x.
  //
  // EnterColumns returns the whole activation on each rank. This is free, or an all-gather with
  // sequence parallelism. Backward sums the ranks' gradients (all-reduce, reduce-scatter). Weight
  // gradients of the region do not wait for the sum and follow it, as Megatron-LM issues them
  // (core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication). Either the
  // gathered activation is kept, or only the rank's part, which is gathered again during the input
  // gradients (WorkOptions::regathers). For products in 8 or 4 bits, the second gather is in those
  // bits, and each rank casts its part first (Transformer Engine). torchao's Float8ColwiseParallel
  // and Float8RowwiseParallel do the same with a kept whole. `as_it_is`: no quantized gather,
  // because another operator also uses the whole. `name`: of the following operators.
  Operand EnterColumns(Operand x, std::string_view name, bool as_it_is = false);
  // Sums the ranks' outputs (all-reduce, reduce-scatter). With sequence parallelism, backward
  // gathers the gradient. `module` may have a bias, which is added to the sum; its gradient is a
  // reduction over tokens.
  Operand LeaveRows(Operand x, std::string_view module, ModulePositions parameters);
  // A rank's queries, keys and values if key-value heads are fewer than the ranks (Megatron-LM's
  // pull request 2565). `x`, the rank's columns of the one product, has no whole head. The ranks
  // gather the product's columns and take `widths` columns each. Backward sums the gradients of
  // ranks that share a head.
  std::array<Operand, 3> GatherHeads(Operand x, std::string_view module,
                                     const std::array<std::int64_t, 3>& widths);
  // A linear layer and LeaveRows, piece by piece if WorkOptions::tensor_overlap says so.
  Operand LinearRows(Operand x, std::string_view module, std::int64_t out,
                     ModulePositions parameters);
  // The sum over all ranks, as an all-reduce even with sequence parallelism.
  Operand AddUp(Operand x);
  // If WorkOptions::adds_up_parts, sums the gradients of norms and other modules applied to a part
  // of the tokens over the ranks at the end of the backward. Must be called first in forward.
  void AddUpParts();
  // A rank's part of the tokens of an activation that all ranks have. Backward gathers the
  // gradient. Without sequence parallelism, x itself.
  Operand PartOfTokens(Operand x, std::string_view module);
  // The inverse: gathers all tokens of an activation that is divided among ranks. Backward sums the
  // ranks' gradients for the rank's own tokens. Without sequence parallelism, all ranks have the
  // same activation, and its gradients are summed.
  Operand AllTokens(Operand x, std::string_view module);
  // Gathers the whole features from each rank's part, as Megatron-LM gathers along the last
  // dimension: an all-gather and a copy. Backward takes the rank's part of the gradient.
  Operand GatherFeatures(Operand x, std::string_view module);
  // From a rank's part of the features to all features of its part of the tokens: an all-to-all,
  // and another one in backward.
  Operand FeaturesToTokens(Operand x, std::string_view module);

  // One fused kernel, which keeps x and, for RMSNorm, one FP32 number per token. As in the paper,
  // LayerNorm statistics are not counted. An unfused RMSNorm keeps x in FP32, the number, and the
  // factor of the weight (eager_operators.cc).
  Operand Norm(Operand x, std::string_view module, Normalization normalization,
               ModulePositions parameters);
  // RMSNorm over each of several contiguous heads, with a shared weight.
  Operand NormOfHeads(Operand x, std::string_view module, std::int64_t head_size,
                      ModulePositions parameters);
  // Rotary positions of queries or keys, in one kernel or several. Keeps nothing.
  Operand Rotary(Operand x, std::string_view module, std::int64_t head_size);
  // Splits contiguous queries, keys and values by copies.
  std::array<Operand, 3> Split(Operand x, std::string_view module,
                               const std::array<std::int64_t, 3>& widths);
  // Copies keys or values so that every query head has its own.
  Operand RepeatHeads(Operand x, std::string_view module, std::int64_t times);
  // Copies heads to another size: pads with zeros, or removes the padding. For cores that require
  // values as wide as queries and keys.
  Operand ResizeHeads(Operand x, std::string_view module, std::string_view suffix,
                      std::int64_t heads, std::int64_t size);
  // Adds a bias in place to contiguous outputs. The product already counts reading the bias.
  void AddBias(const std::vector<Operand>& ys, std::string_view module);
  // A copy with the token and sequence dimensions swapped.
  Operand Transposed(Operand x, std::string_view module, std::string_view suffix);

  // The attention core as one kernel; scores never reach memory. If causal, half of the scores are
  // computed. Keeps its operands, its output and the log-sum-exp (FP32, one per head and token).
  // Backward recomputes the scores: five products instead of the forward's two.
  Operand FlashAttention(Operand query, Operand key, Operand value, std::string_view module,
                         const AttentionShape& shape);
  // The same on one tensor with contiguous queries, keys and values. A copy assembles its gradient.
  Operand FlashAttention(Operand query_key_value, std::string_view module,
                         const AttentionShape& shape);
  // The attention core as products, mask, softmax and dropout, which write the whole score matrix.
  // Keys and values have as many heads as the queries. Keeps its operands, the softmax output and,
  // with dropout, the mask (one byte an element) and the dropout's output. When compiled, the
  // operations between the products are one kernel, and one in backward. An encoder scales the
  // scores in a separate kernel (transformers/models/bert/modeling_bert.py) unless the softmax
  // does.
  Operand MathAttention(Operand query, Operand key, Operand value, std::string_view module,
                        const AttentionShape& shape);
  Operand MathAttention(Operand query_key_value, std::string_view module,
                        const AttentionShape& shape);

  // The gradients of the heads' sinks, after a core's backward. Call before the core in forward. A
  // sum over tokens, computed from the log-sum-exp and the row sums that backward has.
  void SinkGradients(const AttentionShape& shape, std::string_view module);
  // Applies sinks to the output of a core that does not support them (RescalesForSinks): each
  // head's part times the sigmoid of the log-sum-exp minus the head's sink.
  Operand RescaleForSinks(const Operand& y, std::string_view module, const AttentionShape& shape);

  // Input values from outside the model, such as pixels, without a gradient.
  Operand Values(std::string_view name, std::int64_t width, std::int64_t tokens);
  // Rows that another layer keeps. This layer's gradient of them is added to the sum of all
  // blocks'.
  Operand Context(std::string_view name, std::int64_t width, std::int64_t tokens);
  // A convolution over `taps` neighboring rows of a sequence, one for each of `tokens` output rows.
  // It costs what a product of all these numbers does.
  Operand Convolution(Operand x, std::string_view module, std::int64_t out, std::int64_t taps,
                      std::int64_t tokens, ModulePositions parameters);
  // x after `rows` trained rows, at the beginning of each sequence of the batch.
  Operand PutRowsBefore(Operand x, std::string_view module, std::int64_t rows, int weight);
  // The first `first` of x's rows, and all others, as views. Backward copies their gradients into
  // one, unless the two are separate tensors anyway (`copies` is false).
  std::array<Operand, 2> DivideRows(const Operand& x, std::string_view name, std::int64_t first,
                                    bool copies);
  // The inverse. Without `copies`, the two stay separate tensors.
  Operand JoinRows(const std::array<Operand, 2>& parts, std::string_view name, bool copies);
  // x times one of each sample's vectors plus another one; keeps x. `vectors`: all of a block's.
  Operand Modulate(Operand x, Operand vectors, std::string_view name);
  // x plus the branch times one of each sample's vectors; keeps the branch.
  Operand GatedAdd(Operand x, Operand branch, Operand vectors, std::string_view name);
  // The mean of each sequence's rows.
  Operand MeanOfTokens(Operand x, std::string_view module, std::int64_t sequences);
  // The mean of the squared differences to numbers from outside the model. Keeps both.
  void SquaredError(Operand x, std::string_view module);
  // A table of numbers by head and distance, expanded to one number for each score of the batch,
  // which all blocks of a stack read. Keeps the result.
  void Distances(std::string_view module, std::int64_t heads, std::int64_t buckets, int weight);
  // x with `rows` replacing as many of its own rows.
  Operand ReplaceRows(Operand x, Operand rows, std::string_view name);
  // Concatenates the features of both.
  Operand Join(Operand x, Operand y, std::string_view name);
  // Sums the gradients of one weight that two products share. In forward, call before the first
  // product, whose gradient comes last.
  void AddUpWeightGradients(std::string_view module, std::int64_t elements,
                            ModulePositions parameters);
  Operand Add(Operand x, Operand y, std::string_view name);
  // A weighted mean of x and of `rows` other rows of its width, which others keep. The weights are
  // the softmax of products with a vector, after a norm. One kernel, and one in backward.
  Operand MeanOfRows(Operand x, std::string_view module, std::int64_t rows,
                     ModulePositions parameters);
  // Tokens of a document; with several lengths, those of the longest.
  std::int64_t DocumentLength() const;
  // x times a constant. In compiled code, the kernel that reads it also scales.
  Operand Scale(Operand x, std::string_view name);
  Operand Multiply(Operand x, Operand y, std::string_view name);  // keeps both
  Operand Gelu(Operand x, std::string_view module);     // keeps x; NewGELU keeps four values
  Operand Silu(Operand x, std::string_view module);     // keeps x
  Operand Relu(Operand x, std::string_view module);     // keeps its result
  Operand Tanh(Operand x, std::string_view module);     // keeps its result
  Operand Sigmoid(Operand x, std::string_view module);  // keeps its result
  // Multiplies each token's row of x by the token's number; keeps both.
  Operand ScaleRows(Operand x, Operand numbers, std::string_view name);
  // One fused kernel, like Megatron-LM's jit_fuser; keeps x.
  Operand SquaredRelu(Operand x, std::string_view module);
  // silu(gate) times up as one kernel, with one kernel for both gradients; keeps both.
  Operand GatedSilu(Operand gate, Operand up, std::string_view module);
  Operand Dropout(Operand x, std::string_view module);  // keeps a mask of one byte an element
  // x + dropout(branch) as one kernel, like Megatron-LM's bias_dropout_add; keeps the mask.
  Operand DropoutAdd(Operand x, Operand branch, std::string_view module);

  // Looks up rows of a table, one per token. The gradient is dense: zeros, plus the tokens' rows.
  // `shared`: the head also uses the table, and its two gradients are added at the end.
  Operand Lookup(std::string_view module, std::int64_t rows, std::int64_t width, int weight,
                 bool shared);
  // Adds rows of a table of positions, the same for every sequence.
  Operand AddPositions(Operand x, std::string_view module, std::int64_t rows, int weight);

  // Adds rows of a table of token types, one per token.
  Operand AddTokenTypes(Operand x, std::string_view module, std::int64_t rows, int weight);
  // Copies some of the tokens to a contiguous tensor. Backward: zeros, and these tokens' gradients.
  Operand TakeTokens(Operand x, std::string_view module, std::int64_t tokens);

  // The head's product and the cross entropy of its logits.
  struct LossHead {
    std::string_view module;
    std::int64_t words = 0;  // vocabulary entries of this rank
    ModulePositions parameters;
    bool capped = false;  // logits are soft-capped
    std::string_view loss;
  };
  void LossOfProduct(Operand x, const LossHead& head);

  // Cross entropy over the whole vocabulary: cast to FP32, log-softmax, negative log-likelihood.
  // Keeps only the log-softmax, because training loops free the logits before backward
  // (torchtitan/train.py, `del pred`; transformers/trainer.py, compute_loss returns only the loss).
  // A loop that holds them is Loss::kHuggingFace. Backward makes two FP32 gradients of that size,
  // then the logits' own.
  //
  // When fused, FP32 numbers stay in registers. Forward reads the logits for the maximum and for
  // the sum. Backward reads them once more and writes their gradient. If the vocabulary is divided
  // among ranks, they first agree on each token's maximum, sum of exponentials and target logit
  // (core/tensor_parallel/cross_entropy.py): FP32 all-reduces; when fused, the latter two are one.
  void CrossEntropy(Operand logits, std::string_view module);

 private:
  friend class LatentAttentionOperators;
  friend class MixtureOperators;
  friend class RecurrentOperators;
  friend class IndexerOperators;
  friend class SharedKeyOperators;
  friend class StreamOperators;

  // The cross entropy of logits, as WorkOptions::loss computes it (loss_operators.cc).
  class LossOfLogits;
  // LossOfProduct for losses that hold at most a part of the logits in memory.
  void ChunkedLoss(const Operand& x, const LossHead& head);
  void CutLoss(const Operand& x, const LossHead& head);

  // The operands of an attention core; their gradients go to the same values.
  struct Core {
    LayerTape::Value query, key, value;  // the same value three times if they are contiguous
    bool fused = false;
  };
  // A part of an attention core. Each document has `queries` queries, and each of these attends to
  // at most `visible` keys before it or, if not causal, to all of them. With documents of several
  // lengths, one document has their tokens' mean length.
  struct Block {
    std::int64_t queries = 0, visible = 0;
    bool causal = true;
    // Over all documents of the micro-batch.
    std::int64_t rows = 0, key_rows = 0;
    std::int64_t seen_twice = 0;  // twice the number of attending pairs
  };
  // Over all documents of the micro-batch.
  struct BlockSizes {
    std::int64_t query_elements = 0, output_elements = 0;
    Bytes queries, output;
    Bytes key, value, keys;  // `keys`: keys and values
    Bytes row_numbers;       // one FP32 number per row
  };

  static std::int64_t Elements(const Operand& x) { return x.tokens * x.width; }
  Bytes BytesOfElements(std::int64_t elements) const { return Bytes(elements * element_size_); }
  std::int64_t ElementSize(const Operand& x) const { return x.fp32 ? 4 : element_size_; }
  Bytes Size(const Operand& x) const { return Bytes(Elements(x) * ElementSize(x)); }
  Operand Make(std::string name, std::int64_t width, std::int64_t tokens, bool fp32 = false);
  // `times` copies; their gradients are summed.
  Operand Copies(Operand x, std::string_view name, std::int64_t times);

  Kernel Gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
              ProductLayout layout = ProductLayout::kForward) const;
  // One product of an attention core with separate kernels. The size of its heads is `k` in the
  // forward layout, else `n`.
  Kernel ScoreProduct(std::string name, const AttentionShape& shape, std::int64_t m, std::int64_t n,
                      std::int64_t k, ProductLayout layout) const;
  Kernel Memory(std::string name, std::int64_t flops, Bytes read, Bytes written) const;
  // Marks the kernel's access as eager PyTorch's, unless compiled.
  Kernel Eager(Access access, Kernel kernel) const {
    if (!options_.compiled) kernel.access = access;
    return kernel;
  }
  Operand Elementwise(Operand x, std::string_view module, std::int64_t flops_per_element,
                      bool keeps_result = false);
  // A backward kernel that sums gradients of parameters over a part of the tokens.
  void RunPartGradients(Kernel kernel, LayerTape::Values reads, std::vector<int> gradients,
                        const ModulePositions& parameters);
  // Inputs or outputs of a product for the tokens: all pieces together, or each piece for its part
  // of the tokens.
  using Pieces = std::vector<LayerTape::Piece>;
  struct Factor {
    Pieces pieces{};
    bool by_tokens = false;
  };
  // Runs one kernel, or one for each piece of the tokens, calling `made` after each.
  void RunProduct(bool forward, const Kernel& product, const Factor& input,
                  std::optional<LayerTape::Value> also, const Factor& output,
                  const std::vector<int>& parameters, const std::function<void(int)>& made = {});
  // One product of a linear layer, with its gradients (product_operators.cc).
  class LinearProduct;
  std::vector<Operand> Product(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs,
                               std::shared_ptr<RowRegion> rows);
  // Exchanges the ranks' parts of an activation. Returns the rank's own part and, as pieces of a
  // new value, the others', received one by one.
  Pieces ExchangeParts(bool forward, LayerTape::Value own, LayerTape::Value others);
  // Gathers all ranks' parts of the tokens from `part`, or sums `whole` into the parts, in forward
  // or backward. WorkOptions::divides_sequences decides the order.
  void GatherTokens(bool forward, LayerTape::Value part, LayerTape::Value whole, Bytes bytes,
                    std::string_view name);
  void ScatterTokens(bool forward, LayerTape::Value whole, LayerTape::Value part, Bytes bytes,
                     std::string_view name);
  // The copies of a rank's part of the tokens, if parts are cast before they are gathered. In FP8:
  // the copy to gather, which is transposed after it. Otherwise: copies by rows and by columns.
  // Without casts, `part` itself.
  QuantizedCopies Gatherable(bool forward, LayerTape::Value part, std::int64_t elements,
                             const std::string& name);
  // The inputs of the cast of a rank's part of the tokens: the part and, if the scale comes from
  // the tensor's maximum, the scale. Gathered parts share one scale, so the ranks agree on the
  // maximum before the cast (Transformer Engine, with_amax_reduction of
  // Float8CurrentScalingQuantizer and NVFP4Quantizer; torchao's layers on a DTensor).
  std::vector<LayerTape::Piece> WithAgreedScale(bool forward, LayerTape::Value part,
                                                std::int64_t elements, const std::string& name);
  // A collective that overlaps products which do not need its result.
  LayerTape::Collective Beside(CollectiveKind kind) const;
  // Backward of LeaveRows: the gathered gradient of `sum` is that of `x`.
  void LeaveSum(const Operand& x, const Operand& sum, std::string_view module,
                ModulePositions parameters);
  bool overlaps() const {
    return options_.tensor_overlap != TensorOverlap::kNone && options_.sequence_parallel &&
           options_.tensor > 1;
  }
  bool user_buffers() const {
    return overlaps() && options_.tensor_overlap == TensorOverlap::kUserBuffers;
  }
  // Whether parts of tokens are cast before they are gathered.
  bool gathers_quantized() const {
    return quantizes() && options_.sequence_parallel && (options_.regathers || turns_in_backward());
  }
  // Whether products are in 8 or 4 bits.
  bool quantizes() const { return IsQuantized(options_.compute); }
  // Whether operands have different scales by columns than by rows, so that the copies differ.
  bool scales_both_ways() const { return quantizes() && options_.compute != DataType::kFp8; }
  // Whether a tensor's maximum is read before the cast: with current scaling, and for the
  // per-tensor scale that NVFP4 has in addition to its block scales.
  bool reads_for_scales() const {
    return options_.compute == DataType::kNvfp4 ||
           (options_.compute == DataType::kFp8 && (options_.fp8_scaling == Fp8Scaling::kCurrent ||
                                                   options_.fp8_scaling == Fp8Scaling::kTorchao));
  }
  // One scale per row: for the other side, inputs are cast again from 16 bits.
  bool scales_rows() const {
    return options_.compute == DataType::kFp8 &&
           options_.fp8_scaling == Fp8Scaling::kTorchaoRowwise;
  }
  bool turns_in_backward() const {
    return options_.compute == DataType::kFp8 && options_.fp8_scaling == Fp8Scaling::kTorchao;
  }
  Bytes QuantizedBytes(std::int64_t elements) const { return BytesOf(elements, options_.compute); }
  std::string InLowPrecision() const;  // " in FP8"
  // Casts from 16 bits to `copies` copies.
  Kernel Quantize(std::string name, Bytes bytes, Bytes copy, int copies) const;
  // Runs a kernel that computes FP32 `numbers` per token from `from`, and sums them over the ranks
  // of a divided vocabulary. If the vocabulary is not divided, the kernel needs no separate value.
  std::optional<LayerTape::Value> AgreedRows(Kernel kernel, LayerTape::Value from, std::string name,
                                             std::int64_t numbers);
  // Number of attention units: documents, or sequences. With several lengths, the number of
  // documents of the tokens' mean length, rounded up.
  std::int64_t Documents() const;
  // A block with these queries and keys per document, and twice the number of pairs.
  Block OfEachDocument(std::int64_t queries, std::int64_t keys, std::int64_t visible,
                       std::int64_t seen_twice, bool causal) const;
  Block WholeDocuments(const AttentionShape& shape) const;
  // The pairs of a sequence's tokens that model FLOPs count: all of them, including those that a
  // causal mask hides.
  std::int64_t CountedPairs(const AttentionShape& shape) const;
  BlockSizes SizesOf(const AttentionShape& shape, const Block& block) const;
  Kernel FlashKernel(std::string name, const AttentionShape& shape, const Block& block) const;
  // The kernels of a block's backward. They read `reads`, of which the output's gradient is first,
  // and write the pieces that `gradients` makes.
  void RunFlashGradient(std::string_view module, const AttentionShape& shape, const Block& block,
                        const Pieces& reads, const std::function<Pieces()>& gradients);
  // Delivers the gradients of queries, keys and values (`bytes` in all) to the core's operands.
  void Deliver(const Core& core, std::string_view module, const Pieces& gradients, Bytes bytes);

  // Autocast's 16-bit copy.
  Operand Cast(Operand x, std::string_view module);
  // The copies of a product's input for products in 8 or 4 bits. One pass reads the input and
  // writes both copies, as Fp8Scaling says. Products with the same input share its copies. A frozen
  // weight has no gradient, which needs the second copy, so both are the first.
  std::optional<QuantizedCopies> Quantized(const Operand& x, std::string_view module, bool frozen);
  // The same for a gradient, or for an input that was gathered again.
  QuantizedCopies QuantizedInBackward(const std::vector<LayerTape::Piece>& value,
                                      std::int64_t elements, std::string name);
  // In backward, the copy of `value` for the other side: its 8-bit copy transposed. With one scale
  // per row, CastColumns casts from 16 bits again and reads twice, because a column's maximum is
  // known only after all rows.
  LayerTape::Value Transposed(std::string name, const std::vector<LayerTape::Piece>& value,
                              std::int64_t elements);
  LayerTape::Value CastColumns(std::string name, const std::vector<LayerTape::Piece>& value,
                               std::int64_t elements);
  // RMSNorm in the kernels that eager PyTorch launches for it (eager_operators.cc).
  class UnfusedRmsNorm;
  Operand EagerRmsNorm(Operand x, std::string_view module, ModulePositions parameters);
  Operand ComplexRotary(Operand x, std::string_view module, std::int64_t head_size);
  Operand HalvesRotary(Operand x, std::string_view module, std::int64_t head_size);
  Operand NewGelu(Operand x, std::string_view module);
  Operand Flash(const Core& core, std::string_view module, const AttentionShape& shape);
  Operand FlashOfDocuments(const Core& core, std::string_view module, const AttentionShape& shape);
  // The same if ranks have parts of each sequence (WorkOptions::context); see context_operators.cc.
  Operand FlashOverContext(const Core& core, std::string_view module, const AttentionShape& shape);
  Operand FlashOfParts(const Core& core, std::string_view module, const AttentionShape& shape);
  // Ring attention: a block for each rank's keys in turn, and a merge of the results. In
  // Transformer Engine's, messages overlap the previous block; backward begins with the keys that
  // came last, and the gradients of keys follow them around the ring. PyTorch's merges in FP32, may
  // gather the keys during the first block instead of sending messages, and sums and sends
  // gradients in FP32.
  class KeyRing;
  Operand RingAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // Keys and values are gathered and put in order, then a core runs for each chunk of the rank's
  // queries. Backward gathers again and reduce-scatters the gradients.
  class GatheredKeys;
  Operand GatheredAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // The axes of the ring, and the block of each ring step on the middle rank.
  parallel::AxisSet RingAxes() const;
  std::vector<Block> RingBlocks() const;
  // Exchange among the ranks that divide heads: from some heads of all tokens to all heads of a
  // rank's tokens, or the reverse. Copies come before and after an all-to-all; the copies of
  // several values overlap the all-to-alls.
  struct Exchanged {
    LayerTape::Value from, to;
    Bytes bytes;
  };
  void ExchangeHeads(bool forward, const std::string& name, const std::vector<Exchanged>& values);

  // Make, run and communicate in forward or in backward.
  LayerTape::Value MakeIn(bool forward, std::string name, Bytes bytes);
  void RunIn(bool forward, Kernel kernel, const Pieces& reads, const Pieces& writes);
  void CommunicateIn(bool forward, const LayerTape::Collective& collective, LayerTape::Piece source,
                     LayerTape::Piece target);
  // An attention core with the score matrix in memory (attention_operators.cc).
  class ScoreMatrixCore;
  Operand Math(const Core& core, std::string_view module, const AttentionShape& shape);
  // AttentionShape::capped with separate kernels for `scores` scores, and its gradient.
  struct CappedScores {
    LayerTape::Value tanh, capped;
  };
  CappedScores CapScores(std::string_view module, LayerTape::Value raw, Bytes matrix,
                         std::int64_t scores);
  LayerTape::Value UncappedGradient(std::string_view module, LayerTape::Value gradient,
                                    const CappedScores& caps, Bytes matrix, std::int64_t scores);

  WorkOptions options_;
  LayerTape* tape_;
  std::int64_t tokens_;                               // of the micro-batch, on this rank
  std::int64_t positions_;                            // of a sequence, on this rank
  DataType element_;                                  // type of activations
  std::int64_t element_size_;                         // bytes
  std::vector<std::function<void()>> sums_of_parts_;  // for AddUpParts
  LayerTape::Value quantized_ = -1;  // the value whose copies are quantized_copies_
  QuantizedCopies quantized_copies_;
  bool casts_inside_ = false;  // products cast their own inputs
  // The transposed copy for weight gradients; the first gradient makes it for all.
  std::shared_ptr<std::optional<LayerTape::Value>> turned_;
  LayerTape::Value last_sum_ = -1;  // the latest output of Add: a compiled norm of it fuses with it
};

// The type of activations and of all kernels except matrix products: the compute type, bf16 if that
// has 8 or 4 bits, fp32 if it is tf32.
DataType ActivationType(DataType compute);

}  // namespace stepcast::model
