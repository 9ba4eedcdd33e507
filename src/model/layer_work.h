#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/model/context_parallel.h"
#include "src/model/expert_parallel.h"
#include "src/model/operation.h"
#include "src/model/recomputation.h"
#include "src/model/sample_lengths.h"
#include "src/parallel/axis.h"

// What one layer does in one micro-batch: its kernels, what autograd keeps between forward and
// backward, and what is alive only in passing.
//
// Conventions
//  * Between two layers stands one tensor: the output of the one is the input of the other. It is
//    an activation of the layer that takes it (its backward needs it) and never of the one that
//    makes it, so the sum over all layers counts it once. It comes to life with the taker's first
//    kernel; until then it is a temporary of the maker.
//  * The indices of the tokens belong to the data loader and are not counted.
//  * Element size: 4 bytes in fp32, else 2 (autocast: below). In fp8 only the products of blocks
//    change: kernels cast their operands to one byte an element, and backward keeps those of
//    inputs; attention and the head run in bf16.
//  * With tensor parallelism all sizes are those of one rank.
namespace stepcast::model {

// What one micro-batch on one rank looks like.
struct WorkOptions {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1;   // tokens, on all ranks that have parts of it
  DataType compute = DataType::kBf16;
  Checkpointing checkpointing = Checkpointing::kNone;
  RecomputedModules recomputed_modules{};  // by kSelective
  Share checkpointed_blocks{};             // the others keep everything
  // Blocks under one checkpoint, which run again together: all but the first keep nothing.
  std::int64_t blocks_per_checkpoint = 1;
  Attention attention = Attention::kFlash;
  // The part of its rate that fused attention with sinks reaches: less than one where a library
  // falls back to other kernels.
  double attention_rate = 1;
  // Full recomputation ends as soon as everything that backward needs is there again: the last
  // matrix product of a block and its residual are not run twice (torch.utils.checkpoint without
  // reentrant autograd, since 2.1).
  bool recompute_stops_early = false;
  Loss loss = Loss::kEager;
  // Loss::kChunked: tokens of a part; 0: as many as Liger takes for the sizes (LossChunk).
  std::int64_t loss_chunk = 0;
  // Kernels that memory bounds are fused as torch.compile fuses them inside a block.
  bool compiled = false;
  // Compiled, the loss in one graph with the model: its gradient is written over the logits.
  bool donates_logits = false;
  // Compiled: the gradients of a norm's weights are sums over tokens, which torch.compile
  // before 2.10 does not fuse with the sums over channels behind the input's gradient: another
  // kernel reads all of it again (pytorch/pytorch pull request 165370).
  bool sums_norm_weights_apart = false;
  Implementation norm = Implementation::kFused;
  Implementation rotary = Implementation::kFused;
  Implementation activation_function = Implementation::kEager;
  // Keys and values of grouped queries are copied so that every head has its own, also where the
  // attention kernel could do without (repeat_kv of Meta's Llama, torchtitan, Hugging Face).
  bool repeat_kv = false;
  // Queries, keys and values lie in another order than the attention core takes: they and what it
  // makes are copied, and backward keeps the copies. FlashAttention under Transformer Engine, where
  // tokens lie before sequences (transformer_engine/pytorch/attention/dot_product_attention/
  // backends.py); torch.matmul of heads, whose batches of products lie together while a sequence's
  // heads lie beside each other (Hugging Face's and NVIDIA's BERT, `transpose_for_scores`). One
  // sequence alone is the same in both orders.
  bool transposes_attention = false;
  // The biases of queries, keys and values are added by a kernel behind the product: Megatron-LM's
  // own linear layer (megatron/core/tensor_parallel/layers.py, `output + bias`), torch before 1.12
  // (aten::linear of more than two dimensions; pytorch/pytorch pull request 72728). Other biases
  // are added where something reads the product anyway.
  bool adds_attention_biases = false;
  // Encoders: the head predicts so many tokens of each sequence, those that are masked, which are
  // gathered before it; 0: all of them.
  std::int64_t masked_tokens = 0;
  // Sequences are filled with documents that are so long, and attention stays within each; empty: a
  // sequence is one document. Several lengths only where no ranks divide sequences.
  SampleLengths documents{};
  // torch.autocast over FP32 parameters: embeddings, residuals and norms are FP32, and every matrix
  // product casts its input.
  bool autocast = false;
  // Copies of weights in 8 or 4 bits are made for every micro-batch, since its forward has gathered
  // them anew or nothing tells layers that they are the same; Megatron-LM does
  // (`is_first_microbatch`).
  bool casts_weights = true;
  // Layers divided among the ranks of a group, in time and memory: heads, hidden units and
  // vocabulary over `tensor` ranks (Shoeybi et al. 2019, arXiv 1909.08053), and, between those
  // regions, the tokens too (sequence parallelism, Korthikanti et al. 2022, arXiv 2205.05198).
  std::int64_t tensor = 1;
  // A rank's part of the vocabulary is filled up to a multiple of this: rows of matrix products
  // then stay aligned. Work and activations have the words that are added, parameters do not.
  std::int64_t vocabulary_multiple = 1;
  bool sequence_parallel = false;
  // Each sequence's tokens divided among ranks, everywhere but inside of attention.
  ContextParallel context{};
  // The experts of a mixture divided among ranks.
  ExpertParallel experts{};
  // With sequence parallelism: of what a divided layer takes, a rank keeps its part, and gathers
  // the whole again for the gradients of the weights (Megatron-LM); else it keeps the whole.
  bool regathers = false;
  // With sequence parallelism: each sequence is divided by itself, behind the batch's dimension, so
  // that NCCL's parts of all tokens are put in order by a copy behind each gather and before each
  // reduce-scatter (PyTorch's DTensor: torch/distributed/_functional_collectives.py,
  // all_gather_tensor and reduce_scatter_tensor of another dimension than the first).
  bool divides_sequences = false;
  // Without sequence parallelism: the gradient of what a divided layer takes is added up beside the
  // products of its weights' gradients; else behind them.
  bool sums_beside_weights = true;
  // Megatron-LM: of what is issued on several streams, kernels begin in the order in which they are
  // issued (CUDA_DEVICE_MAX_CONNECTIONS=1). Else a product that is issued behind a collective may
  // fill the device before it, and the collective of the input's gradient begins behind those of
  // weights' gradients: supposed always.
  bool begins_in_issue_order = true;
  // How products and the collectives before and behind them share time.
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  Fp8Scaling fp8_scaling = Fp8Scaling::kDelayed;
  // The products of weights' gradients add to main gradients of this type (Megatron-LM's
  // gradient_accumulation_fusion); nothing: they write gradients of their own.
  std::optional<DataType> main_gradients{};
  // Products that share an input and are divided by columns are one: queries, keys and values, and
  // the two of SwiGLU.
  bool fuses_products = false;
  // Dropout and the residual behind it are one kernel (Megatron-LM's bias_dropout_add).
  bool fuses_dropout_add = false;
  // With sequence parallelism: the gradients of what is applied to a part of the tokens are added
  // up over the ranks at the end of each layer's backward.
  bool adds_up_parts = false;
  // Backward comes in two parts, too (LayerWork::backward_input, ::backward_weight).
  bool splits_backward = false;

  friend auto operator<=>(const WorkOptions&, const WorkOptions&) = default;
};

// A tensor that lives between a layer's operators.
struct LayerValue {
  std::string name;  // "mlp.gate_proj output"
  Bytes bytes;
  // The value is communicated, and its memory is set up once and kept. Values of one name share it.
  bool registered = false;
  // The value is saved, backward comes in two parts, and the part for weights reads the value,
  // which therefore lives until that part has ended.
  bool for_weights = false;
  friend bool operator==(const LayerValue&, const LayerValue&) = default;
};

// The work of one layer for one micro-batch, in execution order.
struct LayerWork {
  // All values of the layer, by how long they live.
  std::array<std::vector<LayerValue>, kLifetimes> values{};
  std::vector<LayerValue>& Of(Lifetime lifetime) {
    return values[static_cast<std::size_t>(lifetime)];
  }
  const std::vector<LayerValue>& Of(Lifetime lifetime) const {
    return values[static_cast<std::size_t>(lifetime)];
  }
  Bytes BytesOf(Lifetime lifetime) const {
    Bytes bytes;
    for (const LayerValue& value : Of(lifetime)) bytes += value.bytes;
    return bytes;
  }

  std::vector<Operation> forward;
  // Run at the start of the layer's backward, or of its checkpoint's; empty without recomputation.
  std::vector<Operation> recompute;
  // A block behind the first of its checkpoint: its input is recomputed, too.
  bool continues_checkpoint = false;
  std::vector<Operation> backward;
  // Besides its values: temporaries alive at once while the layer's forward, or backward, runs
  // (activation gradients, softmax scratch, unsaved outputs). Gradients of parameters are not among
  // them: where those live is the sharding strategy's business.
  Bytes forward_transient;
  Bytes backward_transient;
  // The same tensor by tensor, as they are at the height: an allocator hands out each by itself.
  std::vector<Bytes> forward_temporaries{};
  std::vector<Bytes> backward_temporaries{};
  // Backward in two parts, where a pipeline's schedule asks for it: an operation is of the weights'
  // part if gradients of parameters come of it and the gradient of the layer's input does not.
  struct BackwardPart {
    std::vector<Operation> operations;
    Bytes transient;
    std::vector<Bytes> temporaries;
    friend bool operator==(const BackwardPart&, const BackwardPart&) = default;
  };
  BackwardPart backward_input{}, backward_weight{};
  // The first deferred value is the gradient of the layer's output; the others are made by the part
  // for inputs.
  bool defers_gradient_of_output = false;
  // The place of the layer's input among the saved values. kNone: backward does not need it, as in
  // layer lists, whose `activation` is all that is kept.
  static constexpr int kNone = -1;
  int input = kNone;
  Bytes output{};  // what it hands to the next one; zero where it ends in the loss
  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

}  // namespace stepcast::model
