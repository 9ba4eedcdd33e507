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

// The work of one layer in one micro-batch: its kernels, the values that autograd keeps between
// forward and backward, and its temporaries.
//
// Conventions
//  * One tensor connects two layers: the output of one is the input of the other. It counts as an
//    activation of the layer that reads it, whose backward needs it, and not of the layer that
//    writes it, so a sum over all layers counts it once. It begins to live with the reader's first
//    kernel. Until then it is a temporary of the writer.
//  * The indices of the tokens belong to the data loader and are not counted.
//  * Element size: 4 bytes in fp32, otherwise 2 (for autocast see below). In fp8 only the products
//    of blocks change: kernels cast their operands to one byte an element, and backward keeps those
//    of inputs. Attention and the head run in bf16.
//  * With tensor parallelism, all sizes are those of one rank.
namespace stepcast::model {

// The shape and settings of one micro-batch on one rank.
struct WorkOptions {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1;   // tokens, over all ranks that have parts of it
  DataType compute = DataType::kBf16;
  Checkpointing checkpointing = Checkpointing::kNone;
  RecomputedModules recomputed_modules{};  // for kSelective
  Share checkpointed_blocks{};             // the other blocks keep everything
  // Blocks under one checkpoint, recomputed together. All but the first keep nothing.
  std::int64_t blocks_per_checkpoint = 1;
  Attention attention = Attention::kFlash;
  // Relative speed of fused attention with sinks: less than one if a library falls back to other
  // kernels.
  double attention_rate = 1;
  // Full recomputation ends as soon as everything that backward needs exists again: a block's last
  // matrix product and its residual are not run twice (torch.utils.checkpoint without reentrant
  // autograd, since 2.1).
  bool recompute_stops_early = false;
  Loss loss = Loss::kEager;
  // Loss::kChunked: tokens per chunk; 0: as Liger chooses for the sizes (LossChunk).
  std::int64_t loss_chunk = 0;
  // Memory-bound kernels inside a block are fused as torch.compile does.
  bool compiled = false;
  // Compiled, with the loss in the model's graph: the loss's gradient overwrites the logits.
  bool donates_logits = false;
  // Compiled: the gradients of a norm's weights are sums over tokens. Before 2.10, torch.compile
  // does not fuse them with the sums over channels for the input's gradient, so another kernel
  // reads everything again (pytorch/pytorch pull request 165370).
  bool sums_norm_weights_apart = false;
  Implementation norm = Implementation::kFused;
  Implementation rotary = Implementation::kFused;
  Implementation activation_function = Implementation::kEager;
  // Keys and values of grouped queries are copied so that every head has its own, even if the
  // attention kernel does not need it (repeat_kv of Meta's Llama, torchtitan, Hugging Face).
  bool repeat_kv = false;
  // Queries, keys and values are stored in another order than the attention core requires. They and
  // the output are copied, and backward keeps the copies. This holds for FlashAttention under
  // Transformer Engine, with tokens before sequences
  // (transformer_engine/pytorch/attention/dot_product_attention/backends.py). It also holds for
  // torch.matmul of heads, whose batches must be contiguous while a token's heads are adjacent
  // (Hugging Face's and NVIDIA's BERT, `transpose_for_scores`). A single sequence has the same
  // layout in both orders.
  bool transposes_attention = false;
  // The biases of queries, keys and values are added by a kernel after the product: in
  // Megatron-LM's own linear layer (megatron/core/tensor_parallel/layers.py, `output + bias`), and
  // in torch before 1.12 (aten::linear of more than two dimensions; pytorch/pytorch pull request
  // 72728). Other biases are added by a kernel that reads the product anyway.
  bool adds_attention_biases = false;
  // Encoders: number of masked tokens per sequence that the head predicts; they are gathered before
  // it. 0: all tokens.
  std::int64_t masked_tokens = 0;
  // Lengths of the documents that fill a sequence; attention stays within each. Empty: a sequence
  // is one document. Several lengths only if no ranks divide sequences.
  SampleLengths documents{};
  // torch.autocast over FP32 parameters: embeddings, residuals and norms are FP32, and every matrix
  // product casts its input.
  bool autocast = false;
  // Copies of weights in 8 or 4 bits are made for every micro-batch: its forward has gathered the
  // weights again, or layers do not know that they are unchanged. Megatron-LM tells them
  // (`is_first_microbatch`).
  bool casts_weights = true;
  // Ranks that divide layers: heads, hidden units and vocabulary over `tensor` ranks (Shoeybi et
  // al. 2019, arXiv 1909.08053) and, between those regions, also the tokens (sequence parallelism,
  // Korthikanti et al. 2022, arXiv 2205.05198).
  std::int64_t tensor = 1;
  // A rank's part of the vocabulary is padded to a multiple of this, so that rows of matrix
  // products stay aligned. Work and activations include the padding; parameters do not.
  std::int64_t vocabulary_multiple = 1;
  bool sequence_parallel = false;
  // Each sequence's tokens are divided among ranks, everywhere except inside attention.
  ContextParallel context{};
  // The experts of a mixture are divided among ranks.
  ExpertParallel experts{};
  // With sequence parallelism: a rank keeps only its part of a divided layer's input, and gathers
  // the whole again for weight gradients (Megatron-LM). If false, it keeps the whole.
  bool regathers = false;
  // With sequence parallelism: each sequence is divided separately, in the dimension after the
  // batch. A copy after each gather and before each reduce-scatter then reorders NCCL's parts
  // (PyTorch's DTensor: torch/distributed/_functional_collectives.py, all_gather_tensor and
  // reduce_scatter_tensor of another dimension than the first).
  bool divides_sequences = false;
  // Without sequence parallelism: the gradient of a divided layer's input is summed during the
  // weight-gradient products; if false, after them.
  bool sums_beside_weights = true;
  // Megatron-LM: kernels issued on several streams begin in issue order
  // (CUDA_DEVICE_MAX_CONNECTIONS=1). If false, a product issued after a collective may fill the
  // device first, so the collective of the input's gradient begins after the weight-gradient
  // products; this is assumed to happen always.
  bool begins_in_issue_order = true;
  // How products overlap the collectives before and after them.
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  Fp8Scaling fp8_scaling = Fp8Scaling::kDelayed;
  // The type of main gradients to which weight-gradient products add (Megatron-LM's
  // gradient_accumulation_fusion). None: products write separate gradients.
  std::optional<DataType> main_gradients{};
  // Column-divided products with the same input are one product: queries, keys and values, and the
  // two of SwiGLU.
  bool fuses_products = false;
  // Dropout and the following residual sum are one kernel (Megatron-LM's bias_dropout_add).
  bool fuses_dropout_add = false;
  // With sequence parallelism: gradients of parameters applied to a part of the tokens are summed
  // over the ranks at the end of each layer's backward.
  bool adds_up_parts = false;
  // Also produce backward in two parts (LayerWork::backward_input, ::backward_weight).
  bool splits_backward = false;

  friend auto operator<=>(const WorkOptions&, const WorkOptions&) = default;
};

// A tensor that lives between a layer's operators.
struct LayerValue {
  std::string name;  // "mlp.gate_proj output"
  Bytes bytes;
  // A communicated value whose memory is allocated once and kept. Values with one name share it.
  bool registered = false;
  // A saved value that the weights' part of a two-part backward reads. It lives until that part has
  // ended.
  bool for_weights = false;
  friend bool operator==(const LayerValue&, const LayerValue&) = default;
};

// The work of one layer for one micro-batch, in execution order.
struct LayerWork {
  // All values of the layer, by lifetime.
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
  // The block is not the first of its checkpoint, so its input is recomputed too.
  bool continues_checkpoint = false;
  std::vector<Operation> backward;
  // Peak bytes of temporaries, besides `values`, while the layer's forward or backward runs
  // (activation gradients, softmax scratch, unsaved outputs). Gradients of parameters are not
  // included: the sharding strategy decides where they are.
  Bytes forward_transient;
  Bytes backward_transient;
  // The same tensor by tensor at the peak, because an allocator allocates each separately.
  std::vector<Bytes> forward_temporaries{};
  std::vector<Bytes> backward_temporaries{};
  // Backward in two parts, for pipeline schedules that need it. An operation is in the weights'
  // part if it contributes to gradients of parameters but not to the gradient of the layer's input.
  struct BackwardPart {
    std::vector<Operation> operations;
    Bytes transient;
    std::vector<Bytes> temporaries;
    friend bool operator==(const BackwardPart&, const BackwardPart&) = default;
  };
  BackwardPart backward_input{}, backward_weight{};
  // The first deferred value is the gradient of the layer's output; the part for inputs makes the
  // others.
  bool defers_gradient_of_output = false;
  // The index of the layer's input among the saved values. kNone: backward does not need it, as in
  // layer lists, which keep only their `activation`.
  static constexpr int kNone = -1;
  int input = kNone;
  Bytes output{};  // bytes of the output; zero if the layer ends in the loss
  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

}  // namespace stepcast::model
