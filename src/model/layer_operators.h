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

// The operators that layers of a transformer are made of, each with its forward and backward
// kernels as eager PyTorch launches them and with what its backward keeps. What is kept follows
// Korthikanti et al. 2022 (arXiv 2205.05198) for LayerNorm, GeLU, dropout and attention with
// separate kernels; FlashAttention-2 (Dao 2023, arXiv 2307.08691) for the fused core.
//
// All functions take an activation of `width` features for every token and return a new one. A
// module's name must outlive the object. Widths are those of one rank: of a layer that is divided
// over WorkOptions::tensor ranks, its part.
namespace stepcast::model {

struct ColumnRegion;
struct RowRegion;

// An activation: `width` elements for each of `tokens`. With sequence parallelism those are a
// rank's part of the micro-batch's between the regions that tensor parallelism divides.
struct Operand {
  LayerTape::Value value = -1;
  std::int64_t width = 0;
  std::int64_t tokens = 0;
  bool fp32 = false;  // under autocast, where kernels compute in 16 bits
  // What EnterColumns made; null: anything else.
  std::shared_ptr<ColumnRegion> region{};
  // What Linear made for LeaveRows; null: anything else.
  std::shared_ptr<RowRegion> rows{};
};

// Where a module's parameters stand in Layer::tensors; -1: it has none.
struct ModulePositions {
  int weight = -1;
  int bias = -1;
  // It is whole on every rank and applied to a rank's part of the tokens
  // (Tensor::sequence_parallel).
  bool of_part = false;
  // Another product of the layer has the same weight, whose gradient is complete behind that one's.
  bool gradient_later = false;
  // It has a weight, and perhaps a bias, which are not trained: no positions, no gradients.
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

// A linear layer, or one of those that are one product.
struct LinearModule {
  std::string_view name;
  std::int64_t out = 0;
  ModulePositions parameters;
  bool part = false;  // of the tensor, and the bias, that the module before it has
};

// What a product of several modules makes: one tensor; or one for each module, whose gradients lie
// side by side, or apart, so that a copy puts them together.
enum class Outputs : std::uint8_t { kOne, kSideBySide, kApart };

// The dimensions of an attention core.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;   // of queries and keys
  std::int64_t value_size = 0;  // of values and of what attention makes; 0: head_size
  // Of these, what fills values up to the size that the kernel takes, and is none of the model's.
  std::int64_t value_filling = 0;
  std::int64_t window = 0;  // 0: every token before it
  bool dropout = false;
  bool causal = true;  // false: every token sees all of its sequence, but for masked padding
  // A number for each head takes part in the softmax of its scores, as another key would, and is
  // left out of what comes of it.
  bool sinks = false;
  ModulePositions sink_positions{};
  // Scores lie between a number and its negative: divided by it, tanh, times it.
  bool capped = false;

  std::int64_t values() const { return value_size > 0 ? value_size : head_size; }
};

class LayerOperators {
 public:
  LayerOperators(const WorkOptions& options, LayerTape& tape);

  Operand Input(std::int64_t width);

  // y = x W + b. One GEMM forward; backward the input's gradient, then the weight's, then the
  // bias's as a reduction over tokens. Keeps x, or under autocast its copy in 16 bits, with FP8 its
  // transposed copy in 8, with MXFP8 and NVFP4 the one that is scaled for the other side. These
  // cast inputs, output gradients and weights (the latter for every micro-batch, or once a step:
  // WorkOptions::casts_weights).
  Operand Linear(Operand x, std::string_view module, std::int64_t out, ModulePositions parameters);
  // Several that share their input as one product.
  std::vector<Operand> Linears(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs);
  // Tensor parallelism (arXiv 1909.08053, 2205.05198). Between EnterColumns and LeaveRows each rank
  // computes with its own columns of the one weight and rows of the next. Without it they return x.
  //
  // The whole activation on each rank: nothing to do, or, with sequence parallelism, an all-gather.
  // Backward adds up the ranks' gradients (all-reduce, reduce-scatter), which weight gradients of
  // the region do not wait for: those follow behind it, as Megatron-LM issues them
  // (core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication). What was
  // gathered is kept, or only the rank's own part, and gathered again beside the gradients of the
  // inputs (WorkOptions::regathers). What is gathered again is gathered in 8 or 4 bits where
  // products are in those: each rank casts its part first (Transformer Engine; torchao's
  // Float8ColwiseParallel and Float8RowwiseParallel do so with what is kept whole, too);
  // `as_it_is`: unless something else takes the whole, too. `name`: of what follows.
  Operand EnterColumns(Operand x, std::string_view name, bool as_it_is = false);
  // Adds up what the ranks have made (all-reduce, reduce-scatter); backward gathers the gradient
  // with sequence parallelism. `module` may have a bias, which is added to the sum: backward its
  // gradient, a reduction over tokens.
  Operand LeaveRows(Operand x, std::string_view module, ModulePositions parameters);
  // The parts of queries, keys and values that a rank has of an attention whose key-value heads are
  // fewer than the ranks (Megatron-LM's pull request 2565). `x`, the rank's columns of the one
  // product, holds no whole head: the ranks gather the product's columns, and take out of them
  // `widths` columns each. Backward adds up what the ranks that share a head have made.
  std::array<Operand, 3> GatherHeads(Operand x, std::string_view module,
                                     const std::array<std::int64_t, 3>& widths);
  // A linear layer and LeaveRows, where WorkOptions::tensor_overlap says so piece by piece.
  Operand LinearRows(Operand x, std::string_view module, std::int64_t out,
                     ModulePositions parameters);
  // The sum on every rank, with sequence parallelism too: an all-reduce.
  Operand AddUp(Operand x);
  // The gradients of norms and of what else is applied to a part of the tokens, added up over the
  // ranks at the end of the backward, if WorkOptions::adds_up_parts. Comes first in forward.
  void AddUpParts();
  // A rank's part of the tokens, of an activation that all have; backward gathers the gradient.
  // Without sequence parallelism x itself.
  Operand PartOfTokens(Operand x, std::string_view module);
  // The reverse: all tokens of an activation of which each rank has some; backward adds up the
  // ranks' gradients of the rank's own. Without sequence parallelism all ranks have the same, whose
  // gradients are added up.
  Operand AllTokens(Operand x, std::string_view module);
  // Of a rank's part of the features the whole, as Megatron-LM gathers along the last dimension:
  // an all-gather and a copy. Backward takes the rank's part of the gradient.
  Operand GatherFeatures(Operand x, std::string_view module);
  // Of a rank's part of the features all features of its part of the tokens: an all-to-all, and
  // another one in backward.
  Operand FeaturesToTokens(Operand x, std::string_view module);

  // One fused kernel, which keeps x and, for RMSNorm, one FP32 number per token; the statistics of
  // LayerNorm are left out as in the paper. An unfused RMSNorm keeps x in FP32, the number and what
  // it multiplies by the weight (eager_operators.cc).
  Operand Norm(Operand x, std::string_view module, Normalization normalization,
               ModulePositions parameters);
  // RMSNorm over each of the heads that stand side by side, with the weight that they share.
  Operand NormOfHeads(Operand x, std::string_view module, std::int64_t head_size,
                      ModulePositions parameters);
  // Rotary positions of queries or keys, one kernel or several. Keeps nothing.
  Operand Rotary(Operand x, std::string_view module, std::int64_t head_size);
  // Queries, keys and values that stand side by side, each copied out.
  std::array<Operand, 3> Split(Operand x, std::string_view module,
                               const std::array<std::int64_t, 3>& widths);
  // Keys or values of `kv_heads` copied so that every query head has its own.
  Operand RepeatHeads(Operand x, std::string_view module, std::int64_t times);
  // Heads of one size copied to another: filled up with zeros, or the filling left out. For cores
  // whose values are as wide as queries and keys.
  Operand ResizeHeads(Operand x, std::string_view module, std::string_view suffix,
                      std::int64_t heads, std::int64_t size);
  // A bias added to what lies in one piece, in place. The product has counted reading the bias.
  void AddBias(const std::vector<Operand>& ys, std::string_view module);
  // A copy with tokens and sequences the other way round.
  Operand Transposed(Operand x, std::string_view module, std::string_view suffix);

  // The attention core as one kernel: scores never reach memory. Causal, half of the scores are
  // computed. Keeps its operands, its output and the log-sum-exp (FP32, one per head and token).
  // Backward recomputes the scores: five products for the forward's two.
  Operand FlashAttention(Operand query, Operand key, Operand value, std::string_view module,
                         const AttentionShape& shape);
  // The same on one tensor that holds queries, keys and values side by side. Its gradient is put
  // together by a copy.
  Operand FlashAttention(Operand query_key_value, std::string_view module,
                         const AttentionShape& shape);
  // The attention core as products, mask, softmax and dropout that write the whole score matrix.
  // Keys and values have as many heads as the queries. Keeps its operands, the softmax output and,
  // with dropout, the mask (one byte an element) and the dropout's output. Compiled, what lies
  // between the products is one kernel, and one in backward. An encoder scales the scores in a
  // kernel of their own (transformers/models/bert/modeling_bert.py) where the softmax does not.
  Operand MathAttention(Operand query, Operand key, Operand value, std::string_view module,
                        const AttentionShape& shape);
  Operand MathAttention(Operand query_key_value, std::string_view module,
                        const AttentionShape& shape);

  // The gradients of the heads' sinks, behind a core's backward: before the core in forward. A
  // sum over tokens of what the softmax gave them, which follows from the log-sum-exp and the sums
  // of rows that backward has.
  void SinkGradients(const AttentionShape& shape, std::string_view module);
  // What a core that knows of no sinks has made, as it is with them (RescalesForSinks): each head's
  // part times the sigmoid of the log-sum-exp less the head's sink.
  Operand RescaleForSinks(const Operand& y, std::string_view module, const AttentionShape& shape);

  // Values that come from outside of the model, without a gradient: pixels.
  Operand Values(std::string_view name, std::int64_t width, std::int64_t tokens);
  // x with the rows in the place of as many of its own.
  Operand ReplaceRows(Operand x, Operand rows, std::string_view name);
  // The features of both side by side.
  Operand Join(Operand x, Operand y, std::string_view name);
  // The gradients that two products have made of one weight, added up. In forward before the first
  // of the two, which makes its gradient last.
  void AddUpWeightGradients(std::string_view module, std::int64_t elements,
                            ModulePositions parameters);
  Operand Add(Operand x, Operand y, std::string_view name);
  // A weighted mean of x and of other rows of its width, `rows` together, which others keep; the
  // weights are softmax of products with a vector, behind a norm. One kernel, and one in backward.
  Operand MeanOfRows(Operand x, std::string_view module, std::int64_t rows,
                     ModulePositions parameters);
  // Tokens of a document, of the longest part of the tokens where they have several lengths.
  std::int64_t DocumentLength() const;
  // x times a constant; in compiled code the kernel that reads it does so.
  Operand Scale(Operand x, std::string_view name);
  Operand Multiply(Operand x, Operand y, std::string_view name);  // keeps both
  Operand Gelu(Operand x, std::string_view module);               // keeps x; NewGELU four
  Operand Silu(Operand x, std::string_view module);               // keeps x
  Operand Tanh(Operand x, std::string_view module);               // keeps its result
  Operand Sigmoid(Operand x, std::string_view module);            // keeps its result
  // Each token's row of x times the token's one number; keeps both.
  Operand ScaleRows(Operand x, Operand numbers, std::string_view name);
  // One fused kernel, as Megatron-LM's jit_fuser makes it; keeps x.
  Operand SquaredRelu(Operand x, std::string_view module);
  // silu(gate) up as one kernel, with one for both gradients; keeps both.
  Operand GatedSilu(Operand gate, Operand up, std::string_view module);
  Operand Dropout(Operand x, std::string_view module);  // keeps a mask of one byte an element
  // x + dropout(branch) as one kernel, as Megatron-LM's bias_dropout_add; keeps the mask.
  Operand DropoutAdd(Operand x, Operand branch, std::string_view module);

  // Rows of a table, one per token. Its gradient is dense: zeros, and the tokens' rows added up.
  // `shared`: the table also is the head's, and its two gradients are added at the end.
  Operand Lookup(std::string_view module, std::int64_t rows, std::int64_t width, int weight,
                 bool shared);
  // Adds rows of a table of positions, the same for every sequence.
  Operand AddPositions(Operand x, std::string_view module, std::int64_t rows, int weight);

  // Adds rows of a table of token types, one per token.
  Operand AddTokenTypes(Operand x, std::string_view module, std::int64_t rows, int weight);
  // Some of the tokens, copied behind one another. Backward: zeros, and these tokens' gradients.
  Operand TakeTokens(Operand x, std::string_view module, std::int64_t tokens);

  // The head's product, and the cross entropy of its logits.
  struct LossHead {
    std::string_view module;
    std::int64_t words = 0;  // of the rank
    ModulePositions parameters;
    bool capped = false;  // logits lie between a number and its negative
    std::string_view loss;
  };
  void LossOfProduct(Operand x, const LossHead& head);

  // Cross entropy over the whole vocabulary: cast to FP32, log-softmax, negative log-likelihood.
  // Neither the logits nor their FP32 copy stay, but the log-softmax: training loops let go of the
  // logits before backward (torchtitan/train.py, `del pred`; transformers/trainer.py, compute_loss
  // returns the loss alone). One that holds them is Loss::kHuggingFace. Backward makes two FP32
  // gradients of that size, then the logits' own. Fused, FP32 numbers stay in registers: forward
  // reads the logits for the maximum and for the sum, backward once more, and writes their
  // gradient. Over a vocabulary that is divided among ranks they agree on each token's maximum, sum
  // of exponentials and target's logit first (core/tensor_parallel/cross_entropy.py): FP32
  // all-reduces; fused, the latter two are one.
  void CrossEntropy(Operand logits, std::string_view module);

 private:
  friend class LatentAttentionOperators;
  friend class MixtureOperators;
  friend class RecurrentOperators;
  friend class IndexerOperators;
  friend class SharedKeyOperators;
  friend class StreamOperators;

  // The cross entropy of logits, in one of its ways to be computed (loss_operators.cc).
  class LossOfLogits;
  // LossOfProduct where no more than a part of the logits reaches memory.
  void ChunkedLoss(const Operand& x, const LossHead& head);
  void CutLoss(const Operand& x, const LossHead& head);

  // The operands of an attention core, and where their gradients go.
  struct Core {
    LayerTape::Value query, key, value;  // the same one three times if they stand side by side
    bool fused = false;
  };
  // A part of an attention core: of each document so many queries, which see so many of so many
  // keys before them, or, where it is not causal, all of these. Of documents of several lengths
  // that is one of their tokens' mean length.
  struct Block {
    std::int64_t queries = 0, visible = 0;
    bool causal = true;
    // Of all documents of the micro-batch.
    std::int64_t rows = 0, key_rows = 0;
    std::int64_t seen_twice = 0;  // twice the pairs that see each other
  };
  // Of all documents of the micro-batch.
  struct BlockSizes {
    std::int64_t query_elements = 0, output_elements = 0;
    Bytes queries, output;
    Bytes key, value, keys;  // `keys`: and values
    Bytes row_numbers;       // one FP32 number a row
  };

  static std::int64_t Elements(const Operand& x) { return x.tokens * x.width; }
  Bytes BytesOfElements(std::int64_t elements) const { return Bytes(elements * element_size_); }
  std::int64_t ElementSize(const Operand& x) const { return x.fp32 ? 4 : element_size_; }
  Bytes Size(const Operand& x) const { return Bytes(Elements(x) * ElementSize(x)); }
  Operand Make(std::string name, std::int64_t width, std::int64_t tokens, bool fp32 = false);
  // `times` copies, whose gradients are added up.
  Operand Copies(Operand x, std::string_view name, std::int64_t times);

  Kernel Gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
              ProductLayout layout = ProductLayout::kForward) const;
  // One of the products of an attention core over separate kernels; `size` is that of its heads.
  Kernel ScoreProduct(std::string name, const AttentionShape& shape, std::int64_t size,
                      std::int64_t n, std::int64_t k, ProductLayout layout) const;
  Kernel Memory(std::string name, std::int64_t flops, Bytes read, Bytes written) const;
  // The kernel as eager PyTorch runs it; as it is in a compiled graph.
  Kernel Eager(Access access, Kernel kernel) const {
    if (!options_.compiled) kernel.access = access;
    return kernel;
  }
  Operand Elementwise(Operand x, std::string_view module, std::int64_t flops_per_element,
                      bool keeps_result = false);
  // A kernel of backward that adds up the gradients of parameters over a part of the tokens.
  void RunPartGradients(Kernel kernel, LayerTape::Values reads, std::vector<int> gradients,
                        const ModulePositions& parameters);
  // What a product reads or writes for every token: all of them together, or each for its part of
  // the tokens.
  using Pieces = std::vector<LayerTape::Piece>;
  struct Factor {
    Pieces pieces{};
    bool by_tokens = false;
  };
  // One kernel, or one for each piece of the tokens, which `made` follows.
  void RunProduct(bool forward, const Kernel& product, const Factor& input,
                  std::optional<LayerTape::Value> also, const Factor& output,
                  const std::vector<int>& parameters, const std::function<void(int)>& made = {});
  // One product of a linear layer, with its gradients (product_operators.cc).
  class LinearProduct;
  std::vector<Operand> Product(Operand x, std::string_view name,
                               const std::vector<LinearModule>& modules, Outputs outputs,
                               std::shared_ptr<RowRegion> rows);
  // The ranks' parts of an activation: the own one and, received one by one, the others', which
  // make up a new value.
  Pieces ExchangeParts(bool forward, LayerTape::Value own, LayerTape::Value others);
  // Of all ranks' parts of the tokens, in forward or backward: gathered from `part`, or added up to
  // it from `whole`, in the order that WorkOptions::divides_sequences asks for.
  void GatherTokens(bool forward, LayerTape::Value part, LayerTape::Value whole, Bytes bytes,
                    std::string_view name);
  void ScatterTokens(bool forward, LayerTape::Value whole, LayerTape::Value part, Bytes bytes,
                     std::string_view name);
  // Of a rank's part of the tokens, where parts are cast before they are gathered, its copies: in
  // FP8 the one that is gathered, and turned behind that; else, by rows and by columns. `part`
  // itself, where they are not cast.
  QuantizedCopies Gatherable(bool forward, LayerTape::Value part, std::int64_t elements,
                             const std::string& name);
  // What casts a rank's part of the tokens reads: the part and, where a tensor's largest number is
  // read off it, the scale, since parts that are gathered have one: the ranks agree on the largest
  // number before they cast (Transformer Engine, with_amax_reduction of
  // Float8CurrentScalingQuantizer and NVFP4Quantizer; torchao's layers on a DTensor).
  std::vector<LayerTape::Piece> WithAgreedScale(bool forward, LayerTape::Value part,
                                                std::int64_t elements, const std::string& name);
  // A collective beside products that do not need its result.
  LayerTape::Collective Beside(CollectiveKind kind) const;
  // Backward of LeaveRows: the gradient of `sum`, gathered, is that of `x`.
  void LeaveSum(const Operand& x, const Operand& sum, std::string_view module,
                ModulePositions parameters);
  bool overlaps() const {
    return options_.tensor_overlap != TensorOverlap::kNone && options_.sequence_parallel &&
           options_.tensor > 1;
  }
  bool user_buffers() const {
    return overlaps() && options_.tensor_overlap == TensorOverlap::kUserBuffers;
  }
  // Parts of tokens are cast before they are gathered.
  bool gathers_quantized() const {
    return quantizes() && options_.sequence_parallel && (options_.regathers || turns_in_backward());
  }
  // Products in 8 or 4 bits.
  bool quantizes() const { return IsQuantized(options_.compute); }
  // By columns operands have other scales than by rows, and are not the same numbers turned.
  bool scales_both_ways() const { return quantizes() && options_.compute != DataType::kFp8; }
  // The largest number is read off a tensor before it is cast: current scaling, and the one scale a
  // tensor that NVFP4 has beside those of its blocks.
  bool reads_for_scales() const {
    return options_.compute == DataType::kNvfp4 ||
           (options_.compute == DataType::kFp8 && (options_.fp8_scaling == Fp8Scaling::kCurrent ||
                                                   options_.fp8_scaling == Fp8Scaling::kTorchao));
  }
  // A scale a row: along the other side inputs are cast from 16 bits again.
  bool scales_rows() const {
    return options_.compute == DataType::kFp8 &&
           options_.fp8_scaling == Fp8Scaling::kTorchaoRowwise;
  }
  bool turns_in_backward() const {
    return options_.compute == DataType::kFp8 && options_.fp8_scaling == Fp8Scaling::kTorchao;
  }
  Bytes QuantizedBytes(std::int64_t elements) const { return BytesOf(elements, options_.compute); }
  std::string InLowPrecision() const;  // " in FP8"
  // Casts 16 bits to so many copies.
  Kernel Quantize(std::string name, Bytes bytes, Bytes copy, int copies) const;
  // Runs a kernel that makes FP32 numbers of `from` for every token, and has the ranks of a divided
  // vocabulary add them up; without one the numbers are not told apart from what the kernel does.
  std::optional<LayerTape::Value> AgreedRows(Kernel kernel, LayerTape::Value from, std::string name,
                                             std::int64_t numbers);
  // What attention goes over: a document, or the sequence; and how many there are. Of several
  // lengths one of their tokens' mean length, and how many of those have all tokens, rounded up.
  std::int64_t Documents() const;
  // Of each document so many queries and keys, and twice so many pairs.
  Block OfEachDocument(std::int64_t queries, std::int64_t keys, std::int64_t visible,
                       std::int64_t seen_twice, bool causal) const;
  Block WholeDocuments(const AttentionShape& shape) const;
  // The pairs of a sequence's tokens that a model's FLOPs count: all of them, under a causal mask
  // those that it hides, too.
  std::int64_t CountedPairs(const AttentionShape& shape) const;
  BlockSizes SizesOf(const AttentionShape& shape, const Block& block) const;
  Kernel FlashKernel(std::string name, const AttentionShape& shape, const Block& block) const;
  // The kernels of a block's backward. They read the output's gradient, which comes first of
  // `reads`, and write what `gradients` makes.
  void RunFlashGradient(std::string_view module, const AttentionShape& shape, const Block& block,
                        const Pieces& reads, const std::function<Pieces()>& gradients);
  // The gradients of queries, keys and values, so many bytes, to the core's operands.
  void Deliver(const Core& core, std::string_view module, const Pieces& gradients, Bytes bytes);

  // Autocast's copy in 16 bits.
  Operand Cast(Operand x, std::string_view module);
  // Of a product's input, where products are in 8 or 4 bits: one pass reads it and writes both
  // copies, as Fp8Scaling says. Products that share an input share its copies. Of a frozen weight
  // there is no gradient, which needs the second copy: both are the first.
  std::optional<QuantizedCopies> Quantized(const Operand& x, std::string_view module, bool frozen);
  // The same of a gradient, or of an input that has been gathered again.
  QuantizedCopies QuantizedInBackward(const std::vector<LayerTape::Piece>& value,
                                      std::int64_t elements, std::string name);
  // In backward, what runs along the other side of `value`: its copy in 8 bits transposed, or, with
  // a scale a row, 16 bits cast again, read twice since the largest number of a column is known
  // when all rows have been read.
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
  // The same where ranks have parts of each sequence (WorkOptions::context); context_operators.cc.
  Operand FlashOverContext(const Core& core, std::string_view module, const AttentionShape& shape);
  Operand FlashOfParts(const Core& core, std::string_view module, const AttentionShape& shape);
  // A block for each rank's keys in turn, and a merge of what they have made. Transformer Engine's:
  // messages beside the blocks before; backward begins with the keys that came last, and the
  // gradients of keys follow them around. PyTorch's merges in FP32, may gather the keys beside the
  // first block in place of messages, and adds up and sends gradients in FP32.
  class KeyRing;
  Operand RingAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // Keys and values gathered and put in order, then a core for each chunk of the rank's queries.
  // Backward gathers again, and reduce-scatters the gradients.
  class GatheredKeys;
  Operand GatheredAttention(const Core& core, std::string_view module, const AttentionShape& shape);
  // The axes of the ring, and each of its steps, on the rank in its middle.
  parallel::AxisSet RingAxes() const;
  std::vector<Block> RingBlocks() const;
  // Of the ranks that share out heads: of what has some heads of a rank's tokens all heads, or the
  // reverse. Copies before and behind an all-to-all; those of several values run beside them.
  struct Exchanged {
    LayerTape::Value from, to;
    Bytes bytes;
  };
  void ExchangeHeads(bool forward, const std::string& name, const std::vector<Exchanged>& values);

  // In forward, or in backward.
  LayerTape::Value MakeIn(bool forward, std::string name, Bytes bytes);
  void RunIn(bool forward, Kernel kernel, const Pieces& reads, const Pieces& writes);
  void CommunicateIn(bool forward, const LayerTape::Collective& collective, LayerTape::Piece source,
                     LayerTape::Piece target);
  // An attention core that writes the matrix of scores (attention_operators.cc).
  class ScoreMatrixCore;
  Operand Math(const Core& core, std::string_view module, const AttentionShape& shape);
  // AttentionShape::capped over separate kernels, of so many scores, and its gradient.
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
  std::int64_t positions_;                            // of a sequence, likewise
  DataType element_;                                  // of activations
  std::int64_t element_size_;                         // bytes
  std::vector<std::function<void()>> sums_of_parts_;  // for AddUpParts
  LayerTape::Value quantized_ = -1;                   // what Quantized made the copies of
  QuantizedCopies quantized_copies_;
  bool casts_inside_ = false;  // casts are part of the products that read them
  // What the weights' gradients turned it into, the first of them for all.
  std::shared_ptr<std::optional<LayerTape::Value>> turned_;
  LayerTape::Value last_sum_ = -1;  // what Add made last: a compiled norm of it fuses with it
};

// The type of activations and of all kernels but matrix products: the compute type, or bf16 in 8
// and 4 bits, fp32 in tf32.
DataType ActivationType(DataType compute);

}  // namespace stepcast::model
