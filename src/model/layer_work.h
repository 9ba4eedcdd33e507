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
// Conventions:
//   * One tensor connects two layers: the output of one is the input of the other. The tensor is an
//     activation of the layer that reads it, because that layer's backward needs it. A sum over all
//     layers therefore counts the tensor once. Until the reader's first kernel, the tensor is a
//     temporary of the writer.
//   * The indices of the tokens belong to the data loader. No layer's work includes these indices.
//   * Elements have 4 bytes in fp32, otherwise 2 (for autocast, see WorkOptions::autocast). In fp8,
//     only the GEMMs of blocks change: kernels cast their operands to one byte per element, and
//     backward keeps the cast inputs. Attention and the head run in bf16.
//   * With tensor parallelism, all sizes are sizes on one rank.
namespace stepcast::model {

// The shape and settings of one micro-batch on one rank.
struct WorkOptions {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1;   // tokens of the complete sequence, even if several ranks
                                      // divide it
  DataType compute = DataType::kBf16;
  Checkpointing checkpointing = Checkpointing::kNone;
  RecomputedModules recomputed_modules{};  // modules that Checkpointing::kSelective recomputes
  Share checkpointed_blocks{};             // the blocks that `checkpointing` applies to; all other
                                           // blocks keep everything
  // The number of blocks under one checkpoint, which are recomputed together. Only the first of
  // these blocks keeps its input.
  std::int64_t blocks_per_checkpoint = 1;
  Attention attention = Attention::kFlash;
  // The speed of fused attention with sinks divided by its speed without sinks. Below 1 if a
  // library uses slower kernels for sinks.
  double attention_rate = 1;
  // Whether full recomputation ends as soon as all values that backward needs exist again. The
  // block's last GEMM and residual sum are then not recomputed (torch.utils.checkpoint without
  // reentrant autograd, since 2.1).
  bool recompute_stops_early = false;
  Loss loss = Loss::kEager;
  // For Loss::kChunked: tokens per chunk. 0: Liger's choice (LossChunk).
  std::int64_t loss_chunk = 0;
  // Whether memory-bound kernels inside a block are fused as torch.compile fuses them.
  bool compiled = false;
  // For compiled code whose graph includes the loss: whether the gradient of the loss overwrites
  // the logits.
  bool donates_logits = false;
  // For compiled code: whether a separate kernel computes the weight gradients of norms and reads
  // all values again. Before PyTorch 2.10, torch.compile does not fuse these sums over tokens with
  // the sums over channels for the input's gradient (pytorch/pytorch pull request 165370).
  bool sums_norm_weights_apart = false;
  Implementation norm = Implementation::kFused;
  Implementation rotary = Implementation::kFused;
  Implementation activation_function = Implementation::kEager;
  // Whether grouped keys and values are copied so that every query head has separate keys and
  // values, even if the attention kernel does not need this. True for repeat_kv of Meta's Llama,
  // torchtitan and Hugging Face.
  bool repeat_kv = false;
  // Whether kernels copy queries, keys, values and the output, because the attention core requires
  // another order in memory. Backward keeps the copies. Not needed if a micro-batch is one
  // sequence. Two cases:
  //   FlashAttention under Transformer Engine, with tokens before sequences
  //     (transformer_engine/pytorch/attention/dot_product_attention/backends.py).
  //   torch.matmul with one batch entry per head, which requires contiguous heads (Hugging Face's
  //     and NVIDIA's BERT, `transpose_for_scores`).
  bool transposes_attention = false;
  // Whether a separate kernel adds the biases of queries, keys and values after the GEMM. True for
  // Megatron-LM's linear layer (megatron/core/tensor_parallel/layers.py, `output + bias`), and for
  // PyTorch before 1.12 (aten::linear of more than two dimensions; pytorch/pytorch pull request
  // 72728). All other biases are added by the kernel that reads the GEMM's output.
  bool adds_attention_biases = false;
  // For encoders: the number of masked tokens per sequence that the head predicts, after a kernel
  // gathers these tokens. 0: the head predicts all tokens.
  std::int64_t masked_tokens = 0;
  // The lengths in tokens of the documents that fill a sequence. Attention stays within each
  // document. Empty: a sequence is one document. If sequences are divided among ranks, all
  // documents must have the same length.
  SampleLengths documents{};
  // Whether parameters are FP32 under torch.autocast: embeddings, residuals and norms are FP32, and
  // every GEMM casts its input.
  bool autocast = false;
  // Whether weights are cast to 8 or 4 bits for every micro-batch: forward gathers the weights
  // again, or layers do not know that the weights are unchanged. False for Megatron-LM, which tells
  // its layers (`is_first_microbatch`).
  bool casts_weights = true;
  // Tensor parallelism divides heads, hidden units and vocabulary among `tensor` ranks (Shoeybi et
  // al. 2019, arXiv 1909.08053). With `sequence_parallel`, the tokens between these regions are
  // also divided among the ranks (Korthikanti et al. 2022, arXiv 2205.05198).
  std::int64_t tensor = 1;
  // A rank's part of the vocabulary is padded to a multiple of this number, so that rows of GEMMs
  // are aligned. Work and activations include the padding; parameters do not.
  std::int64_t vocabulary_multiple = 1;
  bool sequence_parallel = false;
  // How each sequence's tokens are divided among ranks, everywhere except inside attention.
  ContextParallel context{};
  // How the experts of a mixture are divided among ranks.
  ExpertParallel experts{};
  // True, with sequence parallelism: a rank keeps only its part of a divided layer's input, and
  // gathers the full input again for weight gradients (Megatron-LM). False: each rank keeps the
  // full input.
  bool regathers = false;
  // With sequence parallelism: whether each sequence is divided separately, along the dimension
  // after the batch. A copy after each gather and before each reduce-scatter then reorders NCCL's
  // parts, as in PyTorch's DTensor for every dimension except the first
  // (torch/distributed/_functional_collectives.py, all_gather_tensor and reduce_scatter_tensor).
  bool divides_sequences = false;
  // Without sequence parallelism: whether the ranks sum the gradient of a divided layer's input
  // during the weight-gradient GEMMs (true) or after these GEMMs (false).
  bool sums_beside_weights = true;
  // True: kernels on several streams begin in issue order (Megatron-LM sets
  // CUDA_DEVICE_MAX_CONNECTIONS=1). False: a GEMM that is issued after a collective may begin
  // before the collective. Forecasts then assume that the collective of the input's gradient begins
  // after the weight-gradient GEMMs.
  bool begins_in_issue_order = true;
  // How GEMMs overlap with the collectives before and after them.
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  Fp8Scaling fp8_scaling = Fp8Scaling::kDelayed;
  // The type of the main gradients to which weight-gradient GEMMs add their results (Megatron-LM's
  // gradient_accumulation_fusion). Not set: the GEMMs write separate gradients.
  std::optional<DataType> main_gradients{};
  // Whether column-divided linear layers with the same input run as one GEMM: queries, keys and
  // values, and the two layers before SwiGLU.
  bool fuses_products = false;
  // Whether dropout and the following residual sum are one kernel (Megatron-LM's bias_dropout_add).
  bool fuses_dropout_add = false;
  // With sequence parallelism: whether each layer's backward ends with a gradient all-reduce for
  // parameters that each rank applies to a part of the tokens.
  bool adds_up_parts = false;
  // Whether the work also contains backward in two parts (LayerWork::backward_input,
  // ::backward_weight).
  bool splits_backward = false;

  friend auto operator<=>(const WorkOptions&, const WorkOptions&) = default;
};

// A tensor that lives between a layer's operators.
struct LayerValue {
  std::string name;  // "mlp.gate_proj output"
  Bytes bytes;
  // Whether the value is communicated and stored in memory that is allocated once and never freed.
  // Values with the same name share this memory.
  bool registered = false;
  // Whether backward_weight reads this saved value, which therefore lives until the end of
  // backward_weight.
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
  // The operations that run at the start of the backward of the layer, or of the layer's
  // checkpoint. The list is empty without recomputation.
  std::vector<Operation> recompute;
  // Whether the block is not the first block of its checkpoint, so that its input is recomputed
  // too.
  bool continues_checkpoint = false;
  std::vector<Operation> backward;
  // The peak bytes of temporaries (activation gradients, softmax scratch, unsaved outputs) in the
  // layer's forward and backward, in addition to `values`. Gradients of parameters are not
  // included, because the sharding strategy determines their storage.
  Bytes forward_transient;
  Bytes backward_transient;
  // The bytes of each temporary that is alive at the peak, because an allocator allocates each
  // tensor separately.
  std::vector<Bytes> forward_temporaries{};
  std::vector<Bytes> backward_temporaries{};
  // One of the two parts of a backward, for pipeline schedules that separate input gradients from
  // weight gradients. The part for weights has the operations that affect parameter gradients but
  // not the gradient of the layer's input.
  struct BackwardPart {
    std::vector<Operation> operations;
    Bytes transient;
    std::vector<Bytes> temporaries;
    friend bool operator==(const BackwardPart&, const BackwardPart&) = default;
  };
  BackwardPart backward_input{}, backward_weight{};
  // Whether the first deferred value is the gradient of the layer's output. All other deferred
  // values are created by the backward for inputs.
  bool defers_gradient_of_output = false;
  // The index of the layer's input among the saved values. kNone: backward does not need the input,
  // as in layer lists, which keep only their `activation`.
  static constexpr int kNone = -1;
  int input = kNone;
  Bytes output{};  // bytes of the output; zero if the layer ends in the loss
  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

}  // namespace stepcast::model
