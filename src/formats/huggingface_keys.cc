#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/formats/huggingface.h"

namespace stepcast::formats {
namespace {

using Kind = JsonValue::Kind;

// Keys that change neither shapes nor time, in transformers 4 and 5, and in llm-foundry for MPT.
constexpr std::string_view kWithoutEffect[] = {
    // Names, and notes by programs.
    "model_type", "architectures", "auto_map", "_name_or_path", "name_or_path",
    "transformers_version", "_commit_hash", "torch_dtype", "dtype", "torchscript", "use_bfloat16",
    "use_cache", "return_dict", "output_attentions", "output_hidden_states", "output_past",
    "tf_legacy_loss", "problem_type", "id2label", "label2id", "num_labels", "finetuning_task",
    "task_specific_params", "tokenizer_class", "tokenizer_name", "prefix", "unsloth_fixed",
    "unsloth_version", "verbose", "init_device", "loss_fn",
    // The scenario chooses the kernels of attention, norms and products, and recomputation.
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
    "_flash_attn_2_enabled", "attn_impl", "gradient_checkpointing", "fc_type", "fused_qkv",
    // Heads for other tasks, and the pooler of some releases' encoders, which no class builds.
    "classifier_dropout", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "directionality", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "tie_encoder_decoder", "is_decoder", "cross_attention_hidden_size",
    // Settings of text generation.
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "output_scores", "return_dict_in_generate",
    "suppress_tokens", "begin_suppress_tokens", "exponential_decay_length_penalty",
    "remove_invalid_values", "generation_config",
    // Constants of kernels that always run, and of parameter initialization.
    "initializer_range", "initializer_factor", "init_std", "init_config", "embedding_fraction",
    "rms_norm_eps", "norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon",
    "query_pre_attn_scalar", "attention_multiplier", "softmax_scale", "scale_attn_weights",
    "alibi_bias_max", "max_position_embeddings", "max_sequence_length", "n_ctx",
    // Rotary positions, whose tables are made once.
    "rope_theta", "rotary_emb_base", "rope_scaling", "rope_parameters", "rope_local_base_freq",
    "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "truncate",
    "short_factor", "long_factor", "short_mscale", "long_mscale", "mrope_section",
    "mrope_interleaved", "original_max_position_embeddings", "factor", "low_freq_factor",
    "high_freq_factor", "rope_impl", "rope_dail_config", "rope_hf_config",
    // Which layers have a window; irrelevant without `sliding_window`.
    "max_window_layers",
    // The choice of experts; classes with experts request the keys that they follow.
    "num_experts_per_tok", "num_experts_per_token", "first_k_dense_replace", "moe_layer_freq",
    "decoder_sparse_step", "mlp_only_layers", "scoring_func", "topk_method", "n_group",
    "topk_group", "norm_topk_prob", "routed_scaling_factor", "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux", "ep_size"};

bool ChangesNothing(std::string_view key) {
  return key.ends_with("_token_id") || key.ends_with("_token_ids") ||
         key.ends_with("_token_index") ||
         std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) !=
             std::end(kWithoutEffect);
}

// A key that changes the layers, and its neutral value other than 0.
struct Effect {
  std::string_view key;
  std::string_view said;
  double neutral = 0;
};

// Keys that affect shapes, FLOPs or memory: the forecast would be for another model.
constexpr std::string_view kExperts = "models of this model_type have no experts of this kind";
constexpr std::string_view kLatent = "models of this model_type have no latent attention";
constexpr std::string_view kFurtherTokens =
    "multi-token prediction is not supported for this model_type";
constexpr std::string_view kHeadNorms =
    "norms of queries and keys are not supported for this model_type";
constexpr std::string_view kChunks = "models of this model_type have no chunked attention";
constexpr std::string_view kCaps = "models of this model_type do not cap scores and logits";
constexpr std::string_view kWindow = "models of this model_type have no attention window";
constexpr std::string_view kKindsOfAttention =
    "models with several types of attention are not supported";
constexpr std::string_view kOtherMixers =
    "layers without attention are not supported for this model_type";
constexpr std::string_view kEncoder = "decoders with cross-attention are not supported";
constexpr std::string_view kSideBySide =
    "attention and feed-forward layers in parallel are not supported";
constexpr std::string_view kNorms =
    "norms after attention and feed-forward layers are not supported";
constexpr std::string_view kQuantised = "quantized weights are not supported";
constexpr std::string_view kBiases = "models of this model_type have no biases of this kind";
constexpr std::string_view kDropout = "models of this model_type have no dropout of this kind";
constexpr std::string_view kUnequal = "layers with different shapes are not supported";
constexpr std::string_view kShared = "layers that share keys and values are not supported";

constexpr Effect kNotModelled[] = {
    {"num_nextn_predict_layers", kFurtherTokens},
    {"mtp_num_layers", kFurtherTokens},
    {"num_mtp_layers", kFurtherTokens},
    {"mtp_num_hidden_layers", kFurtherTokens},
    {"use_qk_norm", kHeadNorms},
    {"qk_norm", kHeadNorms},
    {"qk_layernorm", kHeadNorms},
    {"use_qk_layernorm", kHeadNorms},
    {"qk_ln", kHeadNorms},
    {"qk_gn", kHeadNorms},
    {"prefix_lm", "decoders must have causal attention"},
    {"layer_types", kKindsOfAttention},
    {"sliding_window_pattern", kKindsOfAttention, 1},
    {"global_attn_every_n_layers", kKindsOfAttention, 1},
    {"hybrid_override_pattern", kOtherMixers},
    {"layers_block_type", kOtherMixers},
    {"full_attention_interval", kOtherMixers, 1},
    {"attn_layer_period", kOtherMixers, 1},
    {"attn_layer_indices", kOtherMixers},
    {"ssm_state_size", kOtherMixers},
    {"mamba_d_state", kOtherMixers},
    {"linear_num_key_heads", kOtherMixers},
    {"is_encoder_decoder", kEncoder},
    {"add_cross_attention", kEncoder},
    {"cross_attention_layers", kEncoder},
    {"parallel_attn", kSideBySide},
    {"use_parallel_residual", kSideBySide},
    {"parallel_residual", kSideBySide},
    {"new_decoder_architecture", kSideBySide},
    {"sandwich_norm", kNorms},
    {"use_post_norm", kNorms},
    {"post_norm", kNorms},
    {"quantization_config", kQuantised},
    {"compression_config", kQuantised},
    {"pruned_heads", kUnequal},
    {"block_configs", kUnequal},
    {"block_overrides", kUnequal},
    {"hidden_size_per_layer_input", kUnequal},
    {"ffn_hidden_size",
     "models of this model_type use another key for the width of feed-forward layers"},
    {"num_kv_shared_layers", kShared},
    {"cla_share_factor", kShared, 1},
    {"chunk_size_feed_forward", "chunked feed-forward layers are not supported"}};
// Keys of variants that model files support, but this class in transformers does not.
constexpr Effect kNotOfThisType[] = {{"sliding_window", kWindow},
                                     {"attn_logit_softcapping", kCaps},
                                     {"final_logit_softcapping", kCaps},
                                     {"attention_chunk_size", kChunks},
                                     {"kv_lora_rank", kLatent},
                                     {"q_lora_rank", kLatent},
                                     {"qk_nope_head_dim", kLatent},
                                     {"qk_rope_head_dim", kLatent},
                                     {"v_head_dim", kLatent},
                                     {"num_local_experts", kExperts, 1},
                                     {"num_experts", kExperts, 1},
                                     {"n_routed_experts", kExperts, 1},
                                     {"moe_num_experts", kExperts, 1},
                                     {"n_shared_experts", kExperts},
                                     {"num_shared_experts", kExperts},
                                     {"moe_intermediate_size", kExperts},
                                     {"shared_expert_intermediate_size", kExperts},
                                     {"use_sliding_window", kWindow},
                                     {"sliding_window_size", kWindow, -1},
                                     {"attention_window", kWindow, -1},
                                     {"window_size", kWindow, -1},
                                     {"attention_bias", kBiases},
                                     {"qkv_bias", kBiases},
                                     {"use_qkv_bias", kBiases},
                                     {"attention_out_bias", kBiases},
                                     {"mlp_bias", kBiases},
                                     {"use_bias", kBiases},
                                     {"bias", kBiases},
                                     {"lm_head_bias", kBiases},
                                     {"add_bias_linear", kBiases},
                                     {"hidden_dropout", kDropout},
                                     {"hidden_dropout_prob", kDropout},
                                     {"resid_pdrop", kDropout},
                                     {"resid_dropout", kDropout},
                                     {"residual_dropout", kDropout},
                                     {"embd_pdrop", kDropout},
                                     {"emb_pdrop", kDropout},
                                     {"attn_pdrop", kDropout},
                                     {"attention_dropout", kDropout},
                                     {"attention_probs_dropout_prob", kDropout},
                                     {"mlp_dropout", kDropout}};

// Keys that affect only values or a little elementwise work, and parts that are left out as a
// whole.
constexpr std::string_view kWholeHeads = "the forecast rotates all dimensions of each head";
constexpr std::string_view kEveryLayer = "the forecast rotates queries and keys in every layer";
constexpr std::string_view kNoProducts = "the forecast omits the multiplications by this value";
constexpr std::string_view kTextAlone =
    "the forecast ignores this part, because it covers only the text model";

constexpr Effect kWarnedOf[] = {
    {"partial_rotary_factor", kWholeHeads, 1},
    {"rotary_pct", kWholeHeads, 1},
    {"rotary_percent", kWholeHeads, 1},
    {"rope_pct", kWholeHeads, 1},
    {"rotary_dim", kWholeHeads},
    {"no_rope_layers", kEveryLayer},
    {"no_rope_layer_interval", kEveryLayer},
    {"clip_qkv", "the forecast does not clip queries, keys and values"},
    {"embedding_multiplier", kNoProducts, 1},
    {"residual_multiplier", kNoProducts, 1},
    {"logits_scaling", kNoProducts, 1},
    {"logit_scale", kNoProducts, 1},
    {"scale_emb", kNoProducts, 1},
    {"scale_depth", kNoProducts},
    {"scale_attn_by_inverse_layer_idx", "the forecast omits the division by the layer number"},
    {"reorder_and_upcast_attn",
     "the forecast ignores this key: training.attention sets the precision of the attention "
     "scores"},
    {"attn_uses_sequence_id",
     "the forecast ignores this key: tokens attend to other documents, unless "
     "training.document_length is set"},
    {"pretraining_tp", "the forecast does not split matrix multiplications", 1},
    {"vision_config", kTextAlone},
    {"audio_config", kTextAlone},
    {"speech_config", kTextAlone},
    {"video_config", kTextAlone},
    {"mm_vision_tower", kTextAlone},
};

const Effect* EffectOf(std::string_view key, std::span<const Effect> effects) {
  const auto found = std::find_if(effects.begin(), effects.end(),
                                  [key](const Effect& effect) { return effect.key == key; });
  return found == effects.end() ? nullptr : &*found;
}

// Whether the layers are the same as without the key.
bool IsNeutral(const JsonValue& value, double neutral) {
  switch (value.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBoolean:
      return !value.boolean;
    case Kind::kInteger:
    case Kind::kNumber:
      return value.number == 0 || value.number == neutral;
    case Kind::kText:
      return value.text.empty();
    case Kind::kArray:
    case Kind::kObject:
      return value.elements == 0;
  }
  return false;
}

// Whether the value disables the key, the only check for a key of unknown meaning.
bool IsSwitchedOff(const JsonValue& value) {
  return value.kind == Kind::kNull || (value.kind == Kind::kBoolean && !value.boolean);
}

void WarnOfUnknown(HuggingFaceReader& reader, const std::string& path) {
  std::string said = "the forecast ignores this key, because it is unknown";
  const std::string_view nearest = NearestWord(path, reader.KeysAskedFor());
  if (!nearest.empty()) said += fmt::format("; did you mean {}?", Quoted(nearest));
  reader.Warn(path, said);
}

}  // namespace

void AcceptHeadNorms(HuggingFaceReader& reader) {
  for (const Effect& effect : kNotModelled) {
    if (effect.said == kHeadNorms) reader.Accept(std::string(effect.key));
  }
}

void JudgeOtherKeys(HuggingFaceReader& reader, UnknownKeys unknown) {
  for (const auto& [path, value] : reader.Others()) {
    const std::string_view key = std::string_view(path).substr(path.rfind('.') + 1);
    if (ChangesNothing(key)) continue;
    if (const Effect* effect = EffectOf(key, kNotModelled)) {
      if (IsNeutral(*value, effect->neutral)) continue;
      reader.Refuse(path, effect->said, kTakeTheKeyOut);
    } else if (const Effect* effect = EffectOf(key, kNotOfThisType)) {
      if (!IsNeutral(*value, effect->neutral)) reader.Refuse(path, effect->said);
    } else if (const Effect* effect = EffectOf(key, kWarnedOf)) {
      if (!IsNeutral(*value, effect->neutral)) reader.Warn(path, effect->said);
    } else if (unknown == UnknownKeys::kWarnOf && !IsSwitchedOff(*value)) {
      WarnOfUnknown(reader, path);
    }
  }
}

}  // namespace stepcast::formats
