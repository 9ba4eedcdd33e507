#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "src/foreign/python_settings.h"
#include "src/foreign/readers.h"
#include "src/foreign/recipes.h"

namespace stepcast::foreign {
namespace {

struct Renamed {
  // "NAME=ARGUMENT", separated by spaces: names in NeMo's or Megatron-Bridge's files and arguments
  // of Megatron-LM. An empty argument affects neither time nor memory.
  std::string_view arguments;
  // NeMo's words and the arguments': "a=b". Other values are copied.
  std::string_view words{};
};

// The argument negates NeMo's setting.
constexpr std::string_view kNot = "true=false True=false false=true False=true";

// PyTorch's names of data types, and Megatron-LM's.
constexpr std::string_view kTypes =
    "float32=fp32 torch.float32=fp32 bfloat16=bf16 torch.bfloat16=bf16 float16=fp16 "
    "torch.float16=fp16 uint8=fp8 torch.uint8=fp8";

// Settings of NeMo 1 and 2 and of Megatron-Bridge whose name or value differs from Megatron-LM's.
constexpr Renamed kRenamed[] = {
    // NeMo 1.
    {"model.encoder_seq_length=seq-length model.tokenizer.type=tokenizer-type "
     "model.tokenizer.model=tokenizer-model model.data.seq_length= "
     "model.layernorm_epsilon=norm-epsilon model.rotary_percentage=rotary-percent "
     "model.virtual_pipeline_model_parallel_size=num-virtual-stages-per-pipeline-rank "
     "model.activations_checkpoint_granularity=recompute-granularity "
     "model.activations_checkpoint_method=recompute-method "
     "model.activations_checkpoint_num_layers=recompute-num-layers "
     "model.ub_tp_comm_overlap=tp-comm-overlap model.use_flash_attention= "
     "model.optim.overlap_grad_sync=overlap-grad-reduce "
     "model.optim.overlap_param_sync=overlap-param-gather "
     "model.optim.bucket_cap_mb=ddp-bucket-cap-mb model.optim.grad_sync_dtype=grad-sync-dtype "
     "model.fp8=fp8-enabled model.fp8_hybrid=fp8-hybrid-format model.fp8_e4m3=fp8-e4m3-format "
     "model.num_query_groups=num-query-groups model.fp8_params=fp8-param-gather model= "
     "model.0=recipe.model trainer.num_nodes=launcher.nnodes "
     "trainer.devices=launcher.nproc-per-node trainer.precision=precision "
     "trainer.gradient_clip_val=clip-grad trainer.accumulate_grad_batches= "
     "model.moe_grouped_gemm=moe-grouped-gemm"},
    // Megatron-Bridge.
    {"train.micro_batch_size=micro-batch-size train.global_batch_size=global-batch-size "
     "optimizer.optimizer=optimizer optimizer.clip_grad=clip-grad "
     "optimizer.use_distributed_optimizer=use-distributed-optimizer "
     "optimizer.use_precision_aware_optimizer=use-precision-aware-optimizer optimizer.bf16=bf16 "
     "optimizer.fp16=fp16 ddp.use_distributed_optimizer=use-distributed-optimizer "
     "ddp.overlap_grad_reduce=overlap-grad-reduce ddp.overlap_param_gather=overlap-param-gather "
     "ddp.grad_reduce_in_fp32=accumulate-allreduce-grads-in-fp32 ddp.bucket_size=ddp-bucket-size "
     "ddp.num_distributed_optimizer_instances=num-distributed-optimizer-instances "
     "mixed_precision=precision comm_overlap.tp_comm_overlap=tp-comm-overlap "
     "model.ffn_hidden_size=ffn-hidden-size model.vocab_size=vocab-size "
     "model.gated_linear_unit=swiglu model.num_moe_experts=num-experts "
     "model.microbatch_group_size_per_vp_stage=microbatch-group-size-per-virtual-pipeline-stage "
     "model.num_layers_in_first_pipeline_stage=decoder-first-pipeline-num-layers "
     "model.num_layers_in_last_pipeline_stage=decoder-last-pipeline-num-layers "
     "model.layernorm_zero_centered_gamma=apply-layernorm-1p mixed_precision.bf16=bf16 "
     "mixed_precision.fp16=fp16 mixed_precision.fp8=fp8-format "
     "mixed_precision.fp8_recipe=fp8-recipe mixed_precision.fp4=fp4-format "
     "mixed_precision.fp8_param_gather=fp8-param-gather "
     "mixed_precision.first_last_layers_bf16=first-last-layers-bf16 "
     "ddp.data_parallel_sharding_strategy=data-parallel-sharding-strategy "
     "ddp.use_megatron_fsdp=use-megatron-fsdp ddp.use_custom_fsdp=use-custom-fsdp "
     "model.fsdp=use-megatron-fsdp optimizer.optimizer_cpu_offload=optimizer-cpu-offload "
     "optimizer.optimizer_offload_fraction=optimizer-offload-fraction"},
    // NeMo 2's recipes, changed on its command line.
    {"trainer.strategy.tensor_model_parallel_size=tensor-model-parallel-size "
     "trainer.strategy.pipeline_model_parallel_size=pipeline-model-parallel-size "
     "trainer.strategy.virtual_pipeline_model_parallel_size=num-virtual-stages-per-pipeline-rank "
     "trainer.strategy.context_parallel_size=context-parallel-size "
     "trainer.strategy.expert_model_parallel_size=expert-model-parallel-size "
     "trainer.strategy.sequence_parallel=sequence-parallel"},
    // Arguments of recipe functions, and other options of their scripts.
    {"num_nodes=launcher.nnodes num_gpus_per_node=launcher.nproc-per-node dir= comm_overlap= "
     "comm_overlap.tp_comm_overlap_cfg= data.micro_batch_size=micro-batch-size "
     "data.global_batch_size=global-batch-size data.seq_length=seq-length "
     "dataset.sequence_length=seq-length dataset.seq_length=seq-length "
     "model.seq_length=seq-length"},
    // Of several programs.
    {"model.bias=disable-bias-linear "
     "model.share_embeddings_and_output_weights=untie-embeddings-and-output-weights "
     "model.overlap_p2p_comm=no-overlap-p2p-communication "
     "model.gradient_accumulation_fusion=no-gradient-accumulation-fusion "
     "ddp.align_param_gather=no-align-param-gather model.add_bias_linear=disable-bias-linear "
     "model.bias_activation_fusion=no-bias-swiglu-fusion model.apply_rope_fusion=no-rope-fusion "
     "model.masked_softmax_fusion=no-masked-softmax-fusion "
     "model.bias_dropout_add_fusion=no-bias-dropout-fusion "
     "model.bias_dropout_fusion=no-bias-dropout-fusion "
     "model.bias_swiglu_fusion=no-bias-swiglu-fusion "
     "model.persist_layer_norm=no-persist-layer-norm "
     "model.async_tensor_model_parallel_allreduce=no-async-tensor-model-parallel-allreduce "
     "mixed_precision.grad_reduce_in_fp32=grad-reduce-in-bf16 "
     "dist.align_grad_reduce=no-align-grad-reduce",
     kNot},
    {"model.normalization=normalization",
     "rmsnorm=RMSNorm RMSNorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm "
     "LayerNorm=LayerNorm"},
    {"model.activation=swiglu",
     "swiglu=true fast-swiglu=true gelu=false squared-relu=false geglu=false"},
    {"model.optim.name=use-distributed-optimizer",
     "distributed_fused_adam=true mcore_distributed_optim=true fused_adam=false adamw=false "
     "adam=false"},
    {"optimizer.main_grads_dtype=main-grads-dtype optimizer.main_params_dtype=main-params-dtype "
     "optimizer.exp_avg_dtype=exp-avg-dtype optimizer.exp_avg_sq_dtype=exp-avg-sq-dtype",
     kTypes},
};

// Beginnings of names without effect on a step.
constexpr std::string_view kSilent =
    "run. exp_manager. name restore_from checkpoint. logger. tokenizer. scheduler. rng. "
    "rerun_state dist. profiling. nsys model.nsys model.data model.token model.sched model.optim. "
    "inprocess straggler validation. train. dataset. trainer. optimizer. ddp. ft. model.fsdp_ "
    "data. log. optim. resume.";

// Beginnings of names in the model section, for initialization and for kernels that are always
// fused.
constexpr std::string_view kSilentOfModel =
    "mcore_gpt init_method_std use_scaled_init_method do_layer_norm_weight_decay pre_process "
    "post_process headscale openai_gelu seed native_amp hysteresis onnx_safe apex_transformer "
    "resume_from_checkpoint use_cpu_initialization gc_interval transformer_engine attention_type "
    "normalize_attention_scores scale_positional transformer_block_type megatron_amp_O2 "
    "grad_div_ar_fusion grad_allreduce_chunk gradient_as_bucket_view sync_batch_comm "
    "get_attention_mask fp8_margin fp8_interval fp8_amax reduce_amax use_emha "
    "ub_tp_comm_overlap_cfg hidden_act dist_ckpt _target_ ffn_dropout batch_p2p_comm "
    "apply_query_key fp16_lm_cross num_micro_batches_with activations_checkpoint_layers "
    "context_parallel_config wgrad_deferral perform_initialization params_dtype pipeline_dtype "
    "autocast_dtype init_method output_layer_init activation_func softmax_type fp8_recipe "
    "fp8_wgrad fp4_recipe cuda_graph_warmup kitchen inference linear_ mamba_ mup_ yarn_ "
    "tp_comm_bulk tp_comm_split tp_comm_atomic tp_comm_overlap_ag tp_comm_overlap_rs "
    "tp_comm_bootstrap parallel_output scatter_embedding timers transformer_layer_spec "
    "deallocate_pipeline_outputs batch_p2p_sync clone_scatter config_logger barrier_with "
    "cpu_offloading_activations calculate_per_token hf_model_id glu_linear_offset use_mamba "
    "min_offloaded moe_deepep_num_sms moe_hybridep_num_sms moe_token_drop_policy mtp_loss_scaling "
    "mlp_chunks qk_clip seq_len_interpolation num_layers_at rope_scaling_factor "
    "cross_entropy_fusion_impl finalize_model_grads moe_aux_loss moe_router_bias";

bool StartsWithAny(std::string_view name, std::string_view prefixes) {
  const std::vector<std::string_view> all = SplitWords(prefixes);
  return std::any_of(all.begin(), all.end(),
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
    for (const Renamed& row : kRenamed) {
      const auto argument = WordFor(row.arguments, setting.name);
      if (!argument) continue;
      if (argument->empty() || setting.value.kind == Value::Kind::kNothing) return;
      setting.name = *argument;
      if (const auto word = WordFor(row.words, setting.value.text)) {
        setting.written_value = setting.value.Shown();
        setting.value.text = std::string(*word);
      }
      result_.settings.push_back(std::move(setting));
      return;
    }
    const std::string_view name = setting.name;
    if (name.ends_with(kUnderCondition)) {
      result_.settings.push_back(std::move(setting));
      return;
    }
    // Files that list all settings also list disabled ones.
    const std::string& text = setting.value.text;
    const bool off = setting.value.kind == Value::Kind::kText &&
                     (text.empty() || text == "none" || setting.value.Boolean() == false);
    if (off || name.ends_with("_target_") || name.ends_with("_call_")) return;
    if (name.starts_with("model.")) {
      const std::string_view own = name.substr(std::string_view("model.").size());
      if (StartsWithAny(own, kSilentOfModel) || StartsWithAny(name, kSilent)) return;
      setting.name = Hyphens(std::string(own));
      if (setting.value.kind != Value::Kind::kNothing) result_.settings.push_back(setting);
      return;
    }
    if (StartsWithAny(name, kSilent)) return;
    // Arguments of recipes have Megatron-LM's names.
    if (name.find('.') == std::string_view::npos) setting.name = Hyphens(setting.name);
    result_.settings.push_back(std::move(setting));
  }

  // Adds a switch implied by another setting, at its position.
  void Add(const char* name, const char* from) {
    const Setting* setting = result_.Find(from);
    if (setting == nullptr || result_.Find(name) != nullptr) return;
    result_.settings.push_back({name, Value::Text("true"), setting->location});
  }

  // The trainer's precision, and the model's FP8 switches.
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

  const Document document_;
  Document result_;
};

}  // namespace

// Megatron-Bridge's sections by the names of ConfigContainer. Older files have `model_config`, or
// nest all sections below `ConfigContainer`.
Document Sections(Document document) {
  constexpr std::string_view kContainer = "ConfigContainer.";
  for (Setting& setting : document.settings) {
    setting.written = setting.name;
    if (setting.name.starts_with(kContainer)) setting.name.erase(0, kContainer.size());
    const std::size_t dot = setting.name.find('.');
    constexpr std::string_view kEnd = "_config";
    if (dot == std::string::npos || dot < kEnd.size()) continue;
    if (setting.name.compare(dot - kEnd.size(), kEnd.size(), kEnd) == 0) {
      setting.name.erase(dot - kEnd.size(), kEnd.size());
    }
  }
  return document;
}

namespace {

// The option that names a recipe, in scripts of Megatron-Bridge and NeMo and in our own.
constexpr std::string_view kNamesRecipe[] = {
    "recipe", "factory", "recipe_name", "recipe-name", "model_recipe_name", "model-recipe-name"};

}  // namespace

std::optional<Document> NemoDocument(const Document& original) {
  Document document = Sections(original);
  // Megatron-LM's own YAML (--yaml-cfg): two of its sections contain the names of NeMo's `model`.
  if (document.Has("language_model") && document.Has("model_parallel")) {
    for (Setting& setting : document.settings) {
      for (const std::string_view section : {"language_model.", "model_parallel."}) {
        if (!setting.name.starts_with(section)) continue;
        setting.name.replace(0, section.size(), "model.");
        break;
      }
    }
    return Renamer(std::move(document)).Run();
  }
  for (const std::string_view option : kNamesRecipe) {
    const Setting* named = document.Find(option);
    if (named == nullptr || named->value.kind != Value::Kind::kText) continue;
    const Recipe* recipe = RecipeOf(named->value.text);
    const Location location = named->location;
    if (recipe != nullptr) {
      std::erase_if(document.settings,
                    [option](const Setting& setting) { return setting.name == option; });
      return Renamer(WithRecipe(*recipe, location, std::move(document))).Run();
    }
    // The rules report it, with the known names.
    if (option == "recipe") {
      Document unknown{.file = document.file};
      unknown.settings.push_back({"recipe", Value::Text(named->value.text), location});
      return unknown;
    }
  }
  const bool of_model = document.Has("model.tensor_model_parallel_size") ||
                        document.Has("model.cross_entropy_fusion_impl") ||
                        document.Has("model.seq_length");
  const bool first = document.Has("trainer") && of_model;
  const bool bridge = of_model && (document.Has("train") || document.Has("ddp"));
  if (!first && !bridge) return std::nullopt;
  return Renamer(std::move(document)).Run();
}

}  // namespace stepcast::foreign
