#include "src/foreign/nemo.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace stepcast::foreign {
namespace {

struct Renamed {
  std::string_view name;      // in NeMo's file or in Megatron-Bridge's
  std::string_view argument;  // of Megatron-LM; empty: it changes neither time nor memory
  // Values at which the argument is not given; empty: it is given with the value. "words a=b" are
  // the argument's words for NeMo's.
  std::string_view words{};
};

// NeMo 1's model section where a name differs from Megatron-LM's, or a value does.
constexpr Renamed kRenamed[] = {
    {"model.encoder_seq_length", "seq-length"},
    {"model.tokenizer.type", "tokenizer-type"},
    {"model.tokenizer.model", "tokenizer-model"},
    {"model.data.seq_length", ""},
    {"model.layernorm_epsilon", "norm-epsilon"},
    {"model.rotary_percentage", "rotary-percent"},
    {"model.bias", "disable-bias-linear", "false=true False=true true=false True=false"},
    {"model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
     "false=true False=true true=false True=false"},
    {"model.normalization", "normalization",
     "rmsnorm=RMSNorm RMSNorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm "
     "LayerNorm=LayerNorm"},
    {"model.activation", "swiglu",
     "swiglu=true fast-swiglu=true gelu=false squared-relu=false geglu=false"},
    {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
    {"model.activations_checkpoint_granularity", "recompute-granularity"},
    {"model.activations_checkpoint_method", "recompute-method"},
    {"model.activations_checkpoint_num_layers", "recompute-num-layers"},
    {"model.ub_tp_comm_overlap", "tp-comm-overlap"},
    {"model.overlap_p2p_comm", "no-overlap-p2p-communication",
     "true=false True=false false=true False=true"},
    {"model.use_flash_attention", ""},
    {"model.gradient_accumulation_fusion", "no-gradient-accumulation-fusion",
     "true=false True=false false=true False=true"},
    {"model.optim.overlap_grad_sync", "overlap-grad-reduce"},
    {"model.optim.overlap_param_sync", "overlap-param-gather"},
    {"model.optim.name", "use-distributed-optimizer",
     "distributed_fused_adam=true mcore_distributed_optim=true fused_adam=false adamw=false "
     "adam=false"},
    {"model.optim.bucket_cap_mb", "ddp-bucket-cap-mb"},
    {"model.optim.grad_sync_dtype", "grad-sync-dtype"},
    {"model.fp8", "fp8-enabled"},
    {"model.fp8_hybrid", "fp8-hybrid-format"},
    {"model.fp8_e4m3", "fp8-e4m3-format"},
    {"model.num_query_groups", "num-query-groups"},
    {"trainer.num_nodes", "launcher.nnodes"},
    {"trainer.devices", "launcher.nproc-per-node"},
    {"trainer.precision", "precision"},
    {"trainer.gradient_clip_val", "clip-grad"},
    {"trainer.accumulate_grad_batches", ""},
    {"model.moe_grouped_gemm", "moe-grouped-gemm"},
    // Megatron-Bridge.
    {"train.micro_batch_size", "micro-batch-size"},
    {"train.global_batch_size", "global-batch-size"},
    {"optimizer.optimizer", "optimizer"},
    {"optimizer.clip_grad", "clip-grad"},
    {"optimizer.use_distributed_optimizer", "use-distributed-optimizer"},
    {"optimizer.use_precision_aware_optimizer", "use-precision-aware-optimizer"},
    {"optimizer.main_grads_dtype", "main-grads-dtype"},
    {"optimizer.main_params_dtype", "main-params-dtype"},
    {"optimizer.exp_avg_dtype", "exp-avg-dtype"},
    {"optimizer.exp_avg_sq_dtype", "exp-avg-sq-dtype"},
    {"optimizer.bf16", "bf16"},
    {"optimizer.fp16", "fp16"},
    {"ddp.use_distributed_optimizer", "use-distributed-optimizer"},
    {"ddp.overlap_grad_reduce", "overlap-grad-reduce"},
    {"ddp.overlap_param_gather", "overlap-param-gather"},
    {"ddp.grad_reduce_in_fp32", "accumulate-allreduce-grads-in-fp32"},
    {"ddp.bucket_size", "ddp-bucket-size"},
    {"ddp.align_param_gather", ""},
    {"ddp.num_distributed_optimizer_instances", "num-distributed-optimizer-instances"},
    {"mixed_precision", "precision"},
    {"comm_overlap.tp_comm_overlap", "tp-comm-overlap"},
    {"model.ffn_hidden_size", "ffn-hidden-size"},
    {"model.vocab_size", "vocab-size"},
    {"model.add_bias_linear", "disable-bias-linear", "false=true False=true true=false True=false"},
    {"model.gated_linear_unit", "swiglu"},
    {"dataset.sequence_length", "seq-length"},
    {"dataset.seq_length", "seq-length"},
    {"model.seq_length", "seq-length"},
};

// Sections in which nothing changes a step.
constexpr std::string_view kSilent[] = {
    "run.",       "exp_manager.", "name",        "restore_from", "checkpoint.", "logger.",
    "tokenizer.", "scheduler.",   "rng.",        "rerun_state",  "dist.",       "profiling.",
    "nsys",       "model.nsys",   "model.data",  "model.token",  "model.sched", "model.optim.",
    "inprocess",  "straggler",    "validation.", "train.",       "dataset.",    "trainer.",
    "optimizer.", "ddp.",         "ft."};

// Of the model section, settings of initialisation and of what is fused in any case.
constexpr std::string_view kSilentOfModel[] = {"mcore_gpt",
                                               "init_method_std",
                                               "use_scaled_init_method",
                                               "do_layer_norm_weight_decay",
                                               "pre_process",
                                               "post_process",
                                               "persist_layer_norm",
                                               "headscale",
                                               "openai_gelu",
                                               "seed",
                                               "native_amp",
                                               "hysteresis",
                                               "onnx_safe",
                                               "apex_transformer",
                                               "resume_from_checkpoint",
                                               "use_cpu_initialization",
                                               "gc_interval",
                                               "transformer_engine",
                                               "attention_type",
                                               "normalize_attention_scores",
                                               "scale_positional",
                                               "transformer_block_type",
                                               "megatron_amp_O2",
                                               "grad_div_ar_fusion",
                                               "grad_allreduce_chunk",
                                               "gradient_as_bucket_view",
                                               "sync_batch_comm",
                                               "bias_activation_fusion",
                                               "bias_dropout_add_fusion",
                                               "masked_softmax_fusion",
                                               "apply_rope_fusion",
                                               "get_attention_mask",
                                               "fp8_margin",
                                               "fp8_interval",
                                               "fp8_amax",
                                               "reduce_amax",
                                               "use_emha",
                                               "ub_tp_comm_overlap_cfg",
                                               "hidden_act",
                                               "dist_ckpt",
                                               "_target_",
                                               "ffn_dropout",
                                               "batch_p2p_comm",
                                               "apply_query_key",
                                               "fp32_residual",
                                               "fp16_lm_cross",
                                               "num_micro_batches_with",
                                               "activations_checkpoint_layers",
                                               "context_parallel_config",
                                               "wgrad_deferral",
                                               "perform_initialization",
                                               "params_dtype",
                                               "pipeline_dtype",
                                               "autocast_dtype",
                                               "init_method",
                                               "output_layer_init"};

bool StartsWithAny(std::string_view name, const auto& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string Hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

class Renamer {
 public:
  explicit Renamer(const Document& document) : document_(document) { result_.file = document.file; }

  Document Run() {
    for (const Setting& setting : document_.settings) Rename(setting);
    Add("group-query-attention", "num-query-groups");
    AddPrecision();
    return std::move(result_);
  }

 private:
  void Rename(Setting setting) {
    setting.written = setting.name;
    const auto renamed = std::find_if(std::begin(kRenamed), std::end(kRenamed),
                                      [&](const Renamed& row) { return row.name == setting.name; });
    if (renamed != std::end(kRenamed)) {
      if (renamed->argument.empty() || setting.value.kind == Value::Kind::kNothing) return;
      setting.name = renamed->argument;
      if (!renamed->words.empty()) {
        const auto word = WordFor(renamed->words, setting.value.text);
        if (word) setting.value.text = std::string(*word);
      }
      result_.settings.push_back(std::move(setting));
      return;
    }
    const std::string_view name = setting.name;
    if (name.starts_with("model.")) {
      const std::string_view own = name.substr(std::string_view("model.").size());
      if (StartsWithAny(own, kSilentOfModel) || StartsWithAny(name, kSilent)) return;
      setting.name = Hyphens(std::string(own));
      if (setting.value.kind != Value::Kind::kNothing) result_.settings.push_back(setting);
      return;
    }
    if (!StartsWithAny(name, kSilent)) result_.settings.push_back(std::move(setting));
  }

  // A switch that follows from another setting, at its place.
  void Add(const char* name, const char* from) {
    const Setting* setting = result_.Find(from);
    if (setting == nullptr || result_.Find(name) != nullptr) return;
    result_.settings.push_back({name, Value::Text("true"), setting->location});
  }

  // The trainer's precision, and the model's switches of FP8.
  void AddPrecision() {
    const Setting* stated = result_.Find("precision");
    const std::string precision = stated == nullptr ? "" : stated->value.text;
    const Location location = stated == nullptr ? Location{} : stated->location;
    const Setting* enabled = result_.Find("fp8-enabled");
    const Setting* hybrid = result_.Find("fp8-hybrid-format");
    const bool fp8 = enabled != nullptr && enabled->value.Boolean().value_or(false);
    std::vector<Setting> added;
    if (precision.find("bf16") != std::string::npos) {
      added.push_back({"bf16", Value::Text("true"), location});
    } else if (precision.find("16") != std::string::npos) {
      added.push_back({"fp16", Value::Text("true"), location});
    }
    if (fp8) {
      const bool both = hybrid != nullptr && hybrid->value.Boolean().value_or(false);
      added.push_back({"fp8-format", Value::Text(both ? "hybrid" : "e4m3"), enabled->location});
    }
    if (precision.find("fp8") != std::string::npos) {
      const char* recipe = precision.find("mx") != std::string::npos        ? "mxfp8"
                           : precision.find("current") != std::string::npos ? "tensorwise"
                           : precision.find("delayed") != std::string::npos ? "delayed"
                                                                            : "blockwise";
      added.push_back({"fp8-format", Value::Text("hybrid"), location});
      added.push_back({"fp8-recipe", Value::Text(recipe), location});
    }
    std::erase_if(result_.settings, [](const Setting& setting) {
      return setting.name == "precision" || setting.name == "fp8-enabled" ||
             setting.name == "fp8-hybrid-format" || setting.name == "fp8-e4m3-format";
    });
    std::move(added.begin(), added.end(), std::back_inserter(result_.settings));
  }

  const Document& document_;
  Document result_;
};

}  // namespace

std::optional<Document> NemoDocument(const Document& document) {
  const bool first = document.Has("trainer") && document.Has("model.tensor_model_parallel_size");
  const bool bridge = document.Has("model.tensor_model_parallel_size") &&
                      (document.Has("train.global_batch_size") || document.Has("ddp"));
  if (!first && !bridge) return std::nullopt;
  return Renamer(document).Run();
}

}  // namespace stepcast::foreign
