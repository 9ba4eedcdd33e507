#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/emit/described_blocks.h"
#include "src/emit/trainers.h"
#include "src/model/family.h"

namespace stepcast::emit {
namespace {

class Arguments {
 public:
  void Flag(const char* name) { text_ += fmt::format("--{}\n", name); }
  template <typename T>
  void Add(const char* name, const T& value) {
    text_ += fmt::format("--{} {}\n", name, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Parts of blocks that the command line cannot express, or that are not supported here; empty if
// there are none.
std::string UnsaidOf(const model::Architecture& a) {
  if (a.experts.shared_gate && a.experts.exist()) {
    // --moe-shared-expert-gate is newer than the supported release.
    return "Megatron-LM's shared experts have no gate (shared_expert_gate)";
  }
  if (a.experts.router_bias || a.experts.bias) {
    return "Megatron-LM's routers and grouped experts have no biases";
  }
  if (a.score_cap > 0 || a.logit_cap > 0)
    return "Megatron-LM does not cap attention scores or logits";
  if (a.branch_norms) {
    return "blocks of Megatron-LM have norms only before attention and before the feed-forward "
           "layer";
  }
  if (a.scales_embeddings) return "Megatron-LM does not multiply embeddings by a constant";
  if (a.parallel_residual_norms > 0) {
    return "Megatron-LM runs the feed-forward layer after attention, not at the same time "
           "(parallel_residual_norms)";
  }
  if (a.head_bias) return "Megatron-LM's head has no bias (lm_head_bias)";
  if (a.qk_norm && a.norms_all_heads) {
    return "Megatron-LM normalizes the queries and keys of each head separately";
  }
  if (a.attention_chunk > 0)
    return "Megatron-LM does not support chunked attention (attention_chunk_size)";
  return "";
}

// Groups of experts, if a token uses only some groups: the model's own, or the nodes of a plan that
// limits a token's nodes.
struct ExpertGroups {
  std::int64_t count = 0, per_token = 0;  // 0: a token goes to any
  friend bool operator==(const ExpertGroups&, const ExpertGroups&) = default;
};
ExpertGroups GroupsOfModel(const model::Experts& experts) {
  return {experts.groups, experts.groups > 0 ? experts.groups_per_token : 0};
}
ExpertGroups GroupsOfPlan(const plan::Plan& plan) {
  const std::int64_t nodes = plan.parallelism.expert / plan.parallelism.expert_near;
  const std::int64_t limit = plan.mixture.node_limit;
  return limit > 0 ? ExpertGroups{nodes, limit} : ExpertGroups{};
}

// Reasons why Megatron-LM cannot train a model or plan, by subject; empty if it can.
std::string ModelObstacle(const model::Architecture* architecture) {
  if (architecture == nullptr) return "the model is a layer list, which has no dimensions";
  if (model::TraitsOf(*architecture).encoder) {
    return "Megatron-LM's pretrain_gpt.py trains decoders, but the model is an encoder";
  }
  if (std::string unsaid = UnsaidOf(*architecture); !unsaid.empty()) return unsaid;
  if (architecture->position == model::Position::kAlibi)
    return "Megatron-LM has no ALiBi positions";
  if (architecture->normalization == model::Normalization::kLayerNorm && !architecture->norm_bias)
    return "Megatron-LM's layer norms have biases: norm_bias";
  if (architecture->activator == model::Activator::kRelu)
    return "Megatron-LM has no option for feed-forward layers of ReLU: activation";
  if (architecture->activator == model::Activator::kXielu)
    return "Megatron-LM has no option for feed-forward layers of xIELU: activation";
  if (!model::NamesOf(*architecture).embedding_norm.empty())
    return "Megatron-LM's decoders have no norm after the embedding";
  if (architecture->projection_bias != architecture->feed_forward_bias) {
    return "Megatron-LM has biases either in all linear layers or in no linear layer";
  }
  return "";
}

std::string LayerObstacle(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  if (training.lora.adapts()) {
    return "Megatron-LM does not support adapters, unlike NeMo and Megatron-Bridge (training.lora)";
  }
  if (training.precision == DataType::kFp8 && training.fp8_scaling != model::Fp8Scaling::kDelayed &&
      training.fp8_scaling != model::Fp8Scaling::kCurrent) {
    return "Megatron-LM uses the FP8 layers of Transformer Engine (training.fp8_scaling)";
  }
  if (training.tp_only_amax_red) {
    return "Megatron-LM's command line has no option for training.tp_only_amax_red";
  }
  if (plan.mixture.dispatch_dtype == DataType::kFp8) {
    return "Megatron-LM's dispatchers send rows in 16 bits (experts.dispatch_dtype)";
  }
  if (training.compile)
    return "Megatron-LM does not compile blocks with torch.compile (training.compile)";
  if (training.activation_checkpointing == model::Checkpointing::kSelectiveOp) {
    return "Megatron-LM recomputes complete blocks or modules, not single operators "
           "(training.activation_checkpointing)";
  }
  return "";
}

std::string ExpertGroupObstacle(const plan::Plan& plan, const model::Experts& experts) {
  const ExpertGroups limited = GroupsOfPlan(plan);
  if (limited.count == 0) return "";
  const ExpertGroups own = GroupsOfModel(experts);
  if (own.count > 0 && own != limited) {
    return "the router of Megatron-LM can limit either groups of experts or nodes "
           "(experts.node_limit)";
  }
  if (own.count == 0 && !model::SendsTokensOnce(plan.mixture.dispatcher)) {
    return "Megatron-LM limits nodes only if the dispatcher sends each token once per node "
           "(experts.node_limit)";
  }
  return "";
}

// 16-bit parameters without stored remainders.
bool LacksRemainders(const plan::Training& training) {
  return training.parameter_dtype == DataType::kBf16 &&
         training.master_weights != plan::MasterWeights::kFp16Remainder;
}

std::string MainGradientObstacle(const plan::Plan& plan) {
  const plan::DataParallel& data_parallel = plan.data_parallel;
  if (data_parallel.copy_main_gradients) return "";
  if (!data_parallel.optimizer_cpu_offload && LacksRemainders(plan.training)) {
    return "the optimizer of Megatron-LM needs fp16_remainder to read 16-bit gradients without a "
           "copy (training.master_weights)";
  }
  if (data_parallel.zero_stage == 0) {
    return "in Megatron-LM, only the distributed optimizer reads 16-bit gradients without a copy "
           "(data_parallel.copy_main_gradients)";
  }
  return "";
}

std::string MessageObstacle(const plan::DataParallel& data_parallel) {
  if (data_parallel.scatter_gather_tensors_in_pipeline) {
    return "since 2023, pipeline stages of Megatron-LM send complete tensors "
           "(data_parallel.scatter_gather_tensors_in_pipeline)";
  }
  if (!data_parallel.batch_p2p_sync) {
    return "Megatron-LM always waits for the device after messages between stages "
           "(data_parallel.batch_p2p_sync)";
  }
  return "";
}

std::string CheckpointedBlocksObstacle(const plan::Training& training) {
  const model::Share& blocks = training.checkpointed_blocks;
  if (training.activation_checkpointing != model::Checkpointing::kNone && !blocks.all() &&
      (blocks.first == 0 || training.activation_checkpointing != model::Checkpointing::kFull)) {
    return "Megatron-LM can recompute only complete blocks at the start of the model "
           "(training.checkpointed_blocks)";
  }
  return "";
}

std::string RotaryObstacle(const model::Architecture& architecture,
                           const model::NumericalConstants& constants) {
  // --use-rope-scaling: apply_rope_scaling of
  // megatron/core/models/common/embeddings/rotary_pos_embedding.py has the other three constants of
  // Llama 3.1's rule built in.
  if (const auto& scaling = constants.rotary_scaling) {
    model::RotaryScaling known;
    known.factor = scaling->factor;
    if (*scaling != known) {
      return "Megatron-LM supports only Llama 3.1's scaling of rotary positions (rope_scaling)";
    }
  }
  if (architecture.position == model::Position::kRotary &&
      constants.rotary_base != std::floor(constants.rotary_base)) {
    return "Megatron-LM's --rotary-base must be an integer (rope_theta)";
  }
  return "";
}

// Why Megatron-LM cannot train the plan; empty if it can.
std::string Obstacle(const plan::Plan& plan, const model::Architecture* architecture,
                     const model::NumericalConstants& constants) {
  const plan::Training& training = plan.training;
  if (!TrainerOf(plan).takes_megatron_args) {
    return "the plan's framework is not megatron";
  }
  if (std::string obstacle = ModelObstacle(architecture); !obstacle.empty()) return obstacle;
  if (std::string obstacle = LayerObstacle(plan); !obstacle.empty()) return obstacle;
  if (std::string obstacle = ExpertGroupObstacle(plan, architecture->experts); !obstacle.empty()) {
    return obstacle;
  }
  if (!plan.data_parallel.no_sync) {
    return "Megatron-LM reduces gradients once per step (data_parallel.no_sync)";
  }
  if (plan::IsPrecisionAware(training) && LacksRemainders(training)) {
    return "Megatron-LM's precision-aware optimizer always uses fp16_remainder for bf16 parameters "
           "(training.master_weights)";
  }
  if (training.activation_checkpointing == model::Checkpointing::kFull &&
      training.checkpoint_early_stop) {
    return "Megatron-LM always recomputes a block up to its end (training.checkpoint_early_stop)";
  }
  if (training.optimizer_implementation != plan::OptimizerImplementation::kFused) {
    return "Megatron-LM's optimizers update all tensors in one kernel "
           "(training.optimizer_implementation)";
  }
  if (std::string obstacle = MainGradientObstacle(plan); !obstacle.empty()) return obstacle;
  if (std::string obstacle = MessageObstacle(plan.data_parallel); !obstacle.empty()) {
    return obstacle;
  }
  if (std::string obstacle = CheckpointedBlocksObstacle(training); !obstacle.empty()) {
    return obstacle;
  }
  if (std::string obstacle = RotaryObstacle(*architecture, constants); !obstacle.empty()) {
    return obstacle;
  }
  // megatron/core/transformer/transformer_config.py refuses both together.
  if (training.activation_offload &&
      training.activation_checkpointing != model::Checkpointing::kNone) {
    return "Megatron-LM cannot recompute activations and also offload activations "
           "(training.activation_offload)";
  }
  if (training.attention == model::Attention::kFlash1)
    return "Megatron-LM does not support version 1 of FlashAttention (training.attention)";
  if (training.attention == model::Attention::kFlex)
    return "Megatron-LM does not run FlexAttention (training.attention)";
  if (training.loss != model::Loss::kInPlace && training.loss != model::Loss::kFused) {
    return "Megatron-LM computes cross entropy only in_place or fused (training.loss)";
  }
  return "";
}

// `constants`: null if the model's file does not state them.
void AddModel(const model::Architecture& model, const model::NumericalConstants* constants,
              const plan::Training& training, Arguments& arguments) {
  arguments.Add("num-layers", model.layers);
  arguments.Add("hidden-size", model.hidden);
  arguments.Add("ffn-hidden-size", model.feed_forward);
  arguments.Add("num-attention-heads", model.heads);
  if (model.latent.exists()) {
    arguments.Flag("multi-latent-attention");
    if (model.latent.query_rank > 0) arguments.Add("q-lora-rank", model.latent.query_rank);
    arguments.Add("kv-lora-rank", model.latent.kv_rank);
    arguments.Add("qk-head-dim", model.latent.plain_head);
    arguments.Add("qk-pos-emb-head-dim", model.latent.rotary_head);
    arguments.Add("v-head-dim", model.latent.value_head);
  } else if (model.head_size * model.heads != model.hidden) {
    arguments.Add("kv-channels", model.head_size);
  }
  // For latent attention, the norms of both vectors.
  if (model.qk_norm || model.latent.exists()) arguments.Flag("qk-layernorm");
  if (model.further_tokens > 0) arguments.Add("mtp-num-layers", model.further_tokens);
  if (model.further_repeated) arguments.Flag("mtp-use-repeated-layer");
  if (model.kv_heads != model.heads) {
    arguments.Flag("group-query-attention");
    arguments.Add("num-query-groups", model.kv_heads);
  }
  const bool learned = model.position == model::Position::kLearned;
  const bool rotary = model.position == model::Position::kRotary;
  arguments.Add("position-embedding-type", learned ? "learned_absolute" : rotary ? "rope" : "none");
  if (rotary && constants != nullptr) {
    arguments.Add("rotary-base", std::llround(constants->rotary_base));
    if (constants->rotary_scaling) {
      arguments.Flag("use-rope-scaling");
      arguments.Add("rope-scaling-factor", constants->rotary_scaling->factor);
    }
  }
  if (training.make_vocab_size_divisible_by != 128) {
    arguments.Add("make-vocab-size-divisible-by", training.make_vocab_size_divisible_by);
  }
  arguments.Add("seq-length", training.sequence_length);
  arguments.Add(
      "max-position-embeddings",
      learned ? model.max_positions : std::max(model.max_positions, training.sequence_length));
  arguments.Add("normalization",
                model.normalization == model::Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  if (constants != nullptr) arguments.Add("norm-epsilon", constants->norm_epsilon);
  if (model.activator == model::Activator::kSwiGlu) arguments.Flag("swiglu");
  if (model.activator == model::Activator::kSquaredRelu) {
    arguments.Flag("squared-relu");
    arguments.Flag("apply-layernorm-1p");
  }
  if (!model.feed_forward_bias) arguments.Flag("disable-bias-linear");
  if (model.attention_bias && !model.feed_forward_bias) arguments.Flag("add-qkv-bias");
  if (!model.tie_embeddings) arguments.Flag("untie-embeddings-and-output-weights");
  if (model.attention_window > 0 && model.attention_window < training.sequence_length) {
    arguments.Add("window-size", fmt::format("({},0)", model.attention_window));
    if (model.full_attention_every > 0) {
      arguments.Add("window-attn-skip-freq", model.full_attention_every);
    }
  }
  arguments.Add("hidden-dropout", model.dropout ? "0.1" : "0.0");
  arguments.Add("attention-dropout", model.attention_dropout ? "0.1" : "0.0");
}

// Sparse attention and the delta rule, as in core_v0.17.0
// (megatron/core/models/gpt/experimental_attention_variant_module_specs.py). Each option is a field
// of TransformerConfig.
void AddVariant(const GptBlocks& blocks, Arguments& arguments) {
  const model::Indexer& index = blocks.plain.indexer;
  if (blocks.plain.output_gate != model::OutputGate::kNone) {
    arguments.Flag("attention-output-gate");
  }
  if (blocks.shared_gate) arguments.Flag("moe-shared-expert-gate");
  if (index.exists()) {
    arguments.Flag("enable-experimental");
    arguments.Add("experimental-attention-variant", "dsa");
    arguments.Add("dsa-indexer-n-heads", index.heads);
    arguments.Add("dsa-indexer-head-dim", index.head);
    arguments.Add("dsa-indexer-topk", index.top);
    arguments.Add("dsa-indexer-loss-coeff", "0.01");
    arguments.Flag("dsa-indexer-use-sparse-loss");
  }
  if (blocks.delta.empty()) return;
  arguments.Flag("enable-experimental");
  arguments.Add("experimental-attention-variant", "gated_delta_net");
  arguments.Add("linear-attention-freq", LinearAttentionFrequency(blocks.delta));
  arguments.Add("linear-conv-kernel-dim", blocks.rule.conv);
  arguments.Add("linear-key-head-dim", blocks.rule.key);
  arguments.Add("linear-value-head-dim", blocks.rule.value);
  arguments.Add("linear-num-key-heads", blocks.rule.key_heads);
  arguments.Add("linear-num-value-heads", blocks.rule.value_heads);
}

void AddPrecision(const plan::Training& training, Arguments& arguments) {
  switch (training.precision) {
    case DataType::kFp32:
    case DataType::kTf32:
      break;
    case DataType::kFp16:
      arguments.Flag("fp16");
      break;
    case DataType::kFp8:
      arguments.Flag("bf16");
      arguments.Add("fp8-format", "hybrid");
      if (training.fp8_scaling == model::Fp8Scaling::kCurrent) {
        arguments.Add("fp8-recipe", "tensorwise");
      }
      break;
    case DataType::kMxfp8:
      arguments.Flag("bf16");
      arguments.Add("fp8-format", "e4m3");
      arguments.Add("fp8-recipe", "mxfp8");
      break;
    case DataType::kNvfp4:
      arguments.Flag("bf16");
      arguments.Add("fp4-format", "e2m1");
      arguments.Add("fp4-recipe", "nvfp4");
      break;
    case DataType::kBf16:
      arguments.Flag("bf16");
      break;
  }
}

void AddAttention(const plan::Training& training, Arguments& arguments) {
  switch (training.attention) {
    case model::Attention::kMathFp32:
      arguments.Flag("attention-softmax-in-fp32");
      [[fallthrough]];
    case model::Attention::kMath:
      arguments.Add("attention-backend", "unfused");
      arguments.Flag("no-masked-softmax-fusion");
      break;
    case model::Attention::kFusedSoftmax:
      arguments.Add("attention-backend", "unfused");
      break;
    case model::Attention::kFlash:
    case model::Attention::kFlash1:
    case model::Attention::kFlash3:
    case model::Attention::kFlex:
      arguments.Add("attention-backend", "flash");
      break;
    case model::Attention::kCudnn:
      arguments.Add("attention-backend", "fused");
      break;
  }
}

void AddRecomputation(const plan::Training& training, Arguments& arguments) {
  switch (training.activation_checkpointing) {
    case model::Checkpointing::kNone:
    case model::Checkpointing::kSelectiveOp:
      break;
    case model::Checkpointing::kFull:
      arguments.Add("recompute-granularity", "full");
      arguments.Add("recompute-method",
                    training.checkpointed_blocks.first > 0 ? "block" : "uniform");
      arguments.Add("recompute-num-layers",
                    std::max(training.blocks_per_checkpoint, training.checkpointed_blocks.first));
      break;
    case model::Checkpointing::kSelective:
      arguments.Add("recompute-granularity", "selective");
      if (training.recompute_modules != model::RecomputedModules()) {
        arguments.Add("recompute-modules", model::Text(training.recompute_modules));
      }
      break;
  }
}

void AddTraining(const plan::Training& training, Arguments& arguments) {
  arguments.Add("micro-batch-size", training.micro_batch_size);
  arguments.Add("global-batch-size", training.global_batch_size);
  AddPrecision(training, arguments);
  if (training.gradient_dtype == DataType::kFp32 && training.parameter_dtype != DataType::kFp32) {
    arguments.Flag("accumulate-allreduce-grads-in-fp32");
  } else if (training.gradient_dtype == DataType::kBf16) {
    arguments.Flag("grad-reduce-in-bf16");
  }
  arguments.Add("optimizer", training.optimizer == plan::Optimizer::kAdamW  ? "adam"
                             : training.optimizer == plan::Optimizer::kMuon ? "muon"
                                                                            : "sgd");
  // The default is 1.0; 0.0 means no clipping.
  arguments.Add("clip-grad", training.gradient_clipping.value_or(0.0));
  AddAttention(training, arguments);
  if (training.loss == model::Loss::kFused) arguments.Flag("cross-entropy-loss-fusion");
  if (training.deterministic) arguments.Flag("deterministic-mode");
  AddRecomputation(training, arguments);
}

// Megatron-LM makes stages of equal numbers of blocks by default; others need a layout. In it E is
// the embedding, t a block, L the head, and | the border of a (virtual) stage, in the order of the
// layers (docs/user-guide/features/pipeline_parallel_layout.md).
void AddStages(const plan::Parallelism& parallelism, Arguments& arguments) {
  if (parallelism.pipeline == 1) return;
  const std::vector<std::int64_t>& blocks = parallelism.stage_layers;
  const bool equal =
      std::adjacent_find(blocks.begin(), blocks.end(), std::not_equal_to<>()) == blocks.end();
  if (equal) {
    if (parallelism.virtual_stages > 1) {
      arguments.Add("num-virtual-stages-per-pipeline-rank", parallelism.virtual_stages);
    }
    return;
  }
  std::string layout = "E";
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    layout += fmt::format("{}t*{}", stage == 0 ? "" : "|", blocks[stage]);
  }
  arguments.Add("pipeline-model-parallel-layout", layout + ",L");
}

const char* ContextCommunication(model::ContextMethod method) {
  switch (method) {
    case model::ContextMethod::kRing:
      return "p2p";
    case model::ContextMethod::kAllGather:
      return "all_gather";
    case model::ContextMethod::kAllToAll:
      return "a2a";
    case model::ContextMethod::kHierarchical:
      return "a2a+p2p";
  }
  return "";
}

void AddContext(const plan::Parallelism& axes, Arguments& arguments) {
  arguments.Add("context-parallel-size", axes.context);
  if (axes.context == 1) return;
  arguments.Add("cp-comm-type", ContextCommunication(axes.context_method));
  if (axes.context_inner > 1) {
    arguments.Add("hierarchical-context-parallel-sizes",
                  fmt::format("{} {}", axes.context_inner, axes.context / axes.context_inner));
  }
}

// Megatron-Core's defaults are a gather of all tokens, single experts and no fusion
// (megatron/core/transformer/transformer_config.py), so every setting is written.
void AddDispatch(const plan::Mixture& mixture, Arguments& arguments) {
  switch (mixture.dispatcher) {
    case model::Dispatcher::kAllToAll:
      arguments.Add("moe-token-dispatcher-type", "alltoall");
      break;
    case model::Dispatcher::kAllGather:
      arguments.Add("moe-token-dispatcher-type", "allgather");
      break;
    case model::Dispatcher::kDeepEp:
    case model::Dispatcher::kHybridEp:
      arguments.Add("moe-token-dispatcher-type", "flex");
      arguments.Add("moe-flex-dispatcher-backend", model::Name(mixture.dispatcher));
      break;
  }
  if (mixture.products != model::ExpertProducts::kLooped) arguments.Flag("moe-grouped-gemm");
  if (mixture.products == model::ExpertProducts::kGrouped) {
    arguments.Flag("moe-use-grouped-tensor");
  }
  if (mixture.router_dtype == DataType::kFp32) arguments.Add("moe-router-dtype", "fp32");
  if (mixture.fused_router) arguments.Flag("moe-router-fusion");
  if (mixture.fused_permutation) arguments.Flag("moe-permute-fusion");
  if (mixture.fused_rows) {
    arguments.Flag("moe-router-padding-for-quantization");
    arguments.Flag("use-transformer-engine-op-fuser");
  }
  if (mixture.capacity_factor) {
    arguments.Add("moe-expert-capacity-factor", *mixture.capacity_factor);
  }
  if (mixture.pad_to_capacity) arguments.Flag("moe-pad-expert-input-to-capacity");
  if (mixture.overlap_communication) arguments.Flag("overlap-moe-expert-parallel-comm");
  if (mixture.delay_weight_gradients) arguments.Flag("delay-wgrad-compute");
  if (mixture.overlap_shared_experts) arguments.Flag("moe-shared-expert-overlap");
}

void AddExperts(const model::Architecture& model, const plan::Plan& plan, Arguments& arguments) {
  const model::Experts& experts = model.experts;
  if (!experts.exist()) return;
  arguments.Add("num-experts", experts.count);
  arguments.Add("moe-router-topk", experts.per_token);
  arguments.Add("moe-ffn-hidden-size", experts.feed_forward);
  if (experts.shared_feed_forward > 0) {
    arguments.Add("moe-shared-expert-intermediate-size", experts.shared_feed_forward);
  }
  if (experts.leading_dense > 0) {
    arguments.Add("moe-layer-freq", fmt::format("([0]*{}+[1]*{})", experts.leading_dense,
                                                model.layers - experts.leading_dense));
  } else if (experts.every > 1) {
    arguments.Add("moe-layer-freq", experts.every);
  }
  if (experts.scores == model::RouterScores::kSigmoid) {
    arguments.Add("moe-router-score-function", "sigmoid");
  } else if (experts.scores == model::RouterScores::kSoftmax) {
    arguments.Flag("moe-router-pre-softmax");
  }
  const ExpertGroups groups = experts.groups > 0 ? GroupsOfModel(experts) : GroupsOfPlan(plan);
  if (groups.count > 0) {
    arguments.Add("moe-router-num-groups", groups.count);
    arguments.Add("moe-router-group-topk", groups.per_token);
  }
  if (experts.balancing_bias) arguments.Flag("moe-router-enable-expert-bias");
  arguments.Add("expert-model-parallel-size", plan.parallelism.expert);
  arguments.Add("expert-tensor-parallel-size", plan.parallelism.expert_tensor);
  AddDispatch(plan.mixture, arguments);
}

void AddParallelism(const plan::Plan& plan, Arguments& arguments) {
  const plan::DataParallel& data_parallel = plan.data_parallel;
  arguments.Add("tensor-model-parallel-size", plan.parallelism.tensor);
  arguments.Add("pipeline-model-parallel-size", plan.parallelism.pipeline);
  AddContext(plan.parallelism, arguments);
  if (plan.parallelism.sequence_parallel) arguments.Flag("sequence-parallel");
  if (plan.training.tensor_overlap == model::TensorOverlap::kUserBuffers) {
    arguments.Flag("tp-comm-overlap");
  }
  if (!plan.training.async_tensor_model_parallel_allreduce) {
    arguments.Flag("no-async-tensor-model-parallel-allreduce");
  }
  AddStages(plan.parallelism, arguments);
  if (const std::int64_t group = plan.parallelism.microbatch_group_size_per_vp_stage;
      group > plan.parallelism.pipeline) {
    arguments.Add("microbatch-group-size-per-virtual-pipeline-stage", group);
  }
  if (plan.parallelism.virtual_stages > 1 && !data_parallel.overlap_p2p_comm) {
    arguments.Flag("no-overlap-p2p-communication");
  }
  if (!data_parallel.gradient_accumulation_fusion) {
    arguments.Flag("no-gradient-accumulation-fusion");
  }
  if (data_parallel.zero_stage == 1) {
    arguments.Flag("use-distributed-optimizer");
    if (data_parallel.overlap_param_gather) arguments.Flag("overlap-param-gather");
    if (data_parallel.overlap_param_gather_with_optimizer_step) {
      arguments.Flag("overlap-param-gather-with-optimizer-step");
    }
    if (data_parallel.overlap_param_gather && plan.parallelism.virtual_stages > 1 &&
        !data_parallel.align_param_gather) {
      arguments.Flag("no-align-param-gather");
    }
    // megatron/training/arguments.py: offloading requires the precision-aware optimizer.
    if (data_parallel.optimizer_cpu_offload || !data_parallel.copy_main_gradients) {
      arguments.Flag("use-precision-aware-optimizer");
    }
    if (plan::IsPrecisionAware(plan.training)) {
      const std::string type(Name(plan.training.optimizer_state_dtype));
      arguments.Add("exp-avg-dtype", type);
      arguments.Add("exp-avg-sq-dtype", type);
    }
    if (data_parallel.optimizer_cpu_offload) {
      arguments.Flag("optimizer-cpu-offload");
      arguments.Add("optimizer-offload-fraction", "1.0");
      if (data_parallel.overlap_cpu_optimizer_d2h_h2d) {
        arguments.Flag("overlap-cpu-optimizer-d2h-h2d");
      }
    }
    const std::int64_t instances = plan.parallelism.data / data_parallel.shard_group_size;
    if (instances > 1) arguments.Add("num-distributed-optimizer-instances", instances);
  }
  if (!data_parallel.align_grad_reduce) arguments.Flag("no-align-grad-reduce");
  if (data_parallel.overlap) {
    arguments.Flag("overlap-grad-reduce");
    if (data_parallel.bucket_size) {
      // Bucket sizes are in parameters.
      arguments.Add("ddp-bucket-size",
                    data_parallel.bucket_size->count() / SizeOf(plan.training.gradient_dtype));
    }
  }
}

}  // namespace

Target MegatronArguments(const scenario::Scenario& scenario,
                         const model::NumericalConstants& constants) {
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  GptBlocks blocks;
  const bool described = architecture != nullptr && !architecture->kinds.empty();
  if (described) {
    auto made = GptBlocksOf(*architecture);
    if (!made) return CannotRun(std::move(made.error()));
    blocks = *std::move(made);
    architecture = &blocks.plain;
  }
  if (std::string obstacle = Obstacle(scenario.plan, architecture, constants); !obstacle.empty()) {
    return CannotRun(std::move(obstacle));
  }
  Arguments arguments;
  AddModel(*architecture, described ? nullptr : &constants, scenario.plan.training, arguments);
  AddVariant(blocks, arguments);
  AddExperts(*architecture, scenario.plan, arguments);
  AddTraining(scenario.plan.training, arguments);
  if (scenario.plan.training.activation_offload && architecture->layers > 1) {
    // The last block's activations stay on the device, in Transformer Engine as in the forecast.
    arguments.Add("cpu-offloading-num-layers", architecture->layers - 1);
  }
  AddParallelism(scenario.plan, arguments);
  return arguments.Take();
}

Target LaunchMegatron(const scenario::Scenario& scenario,
                      const model::NumericalConstants& constants) {
  if (const Target arguments = MegatronArguments(scenario, constants); !arguments) {
    return CannotRun(arguments.error());
  }
  // Megatron-LM's NullTokenizer adds one token for the end of a document.
  return fmt::format("VOCABULARY={}\n",
                     std::get<model::Architecture>(scenario.model->source).vocabulary - 1) +
         "# Write your data, tokenizer and learning rate as arguments. Without arguments, the\n"
         "# script trains on mock data, for timing.\n"
         "if [ $# -eq 0 ]; then\n"
         "  set -- --mock-data --tokenizer-type NullTokenizer --vocab-size \"$VOCABULARY\" \\\n"
         "    --train-iters 20 --lr 1e-4\n"
         "fi\n"
         "# shellcheck disable=SC2046\n"
         "set -- \"${MEGATRON:?set MEGATRON to a checkout of Megatron-LM}/pretrain_gpt.py\" \\\n"
         "  $(cat \"$here/megatron.args\") \"$@\"\n";
}

}  // namespace stepcast::emit
