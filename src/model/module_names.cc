#include "src/model/module_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::model {
namespace {

constexpr ModuleNames kGpt2Names = {.embedding = "transformer.wte",
                                    .positions = "transformer.wpe",
                                    .blocks = "transformer.h",
                                    .final_norm = "transformer.ln_f",
                                    .head = "lm_head",
                                    .attention_norm = "ln_1",
                                    .attention = "attn",
                                    .query = "attn.c_attn",
                                    .key = "attn.key",
                                    .value = "attn.value",
                                    .query_key_value = "attn.c_attn",
                                    .projection = "attn.c_proj",
                                    .feed_forward_norm = "ln_2",
                                    .feed_forward = "mlp",
                                    .gate = "",
                                    .up = "mlp.c_fc",
                                    .activator = "mlp.act",
                                    .down = "mlp.c_proj",
                                    .linear_qkv = "attn.c_attn",
                                    .linear_fc1 = "mlp.c_fc"};

constexpr ModuleNames kMptNames = {.embedding = "transformer.wte",
                                   .positions = "transformer.wpe",
                                   .blocks = "transformer.blocks",
                                   .final_norm = "transformer.norm_f",
                                   .head = "lm_head",
                                   .attention_norm = "norm_1",
                                   .attention = "attn",
                                   .query = "",
                                   .key = "",
                                   .value = "",
                                   .query_key_value = "attn.Wqkv",
                                   .projection = "attn.out_proj",
                                   .feed_forward_norm = "norm_2",
                                   .feed_forward = "ffn",
                                   .gate = "",
                                   .up = "ffn.up_proj",
                                   .activator = "ffn.act",
                                   .down = "ffn.down_proj",
                                   .linear_qkv = "attn.Wqkv",
                                   .linear_fc1 = "ffn.up_proj"};

constexpr ModuleNames kLlamaNames = {.embedding = "model.embed_tokens",
                                     .positions = "",
                                     .blocks = "model.layers",
                                     .final_norm = "model.norm",
                                     .head = "lm_head",
                                     .attention_norm = "input_layernorm",
                                     .attention = "self_attn",
                                     .query = "self_attn.q_proj",
                                     .key = "self_attn.k_proj",
                                     .value = "self_attn.v_proj",
                                     .query_key_value = "",
                                     .projection = "self_attn.o_proj",
                                     .feed_forward_norm = "post_attention_layernorm",
                                     .feed_forward = "mlp",
                                     .gate = "mlp.gate_proj",
                                     .up = "mlp.up_proj",
                                     .activator = "mlp.act_fn",
                                     .down = "mlp.down_proj",
                                     .linear_qkv = "self_attn.qkv_proj",
                                     .linear_fc1 = "mlp.gate_up_proj",
                                     .query_norm = "self_attn.q_norm",
                                     .key_norm = "self_attn.k_norm",
                                     .query_down = "self_attn.q_a_proj",
                                     .query_latent_norm = "self_attn.q_a_layernorm",
                                     .query_up = "self_attn.q_b_proj",
                                     .kv_down = "self_attn.kv_a_proj_with_mqa",
                                     .kv_latent_norm = "self_attn.kv_a_layernorm",
                                     .kv_up = "self_attn.kv_b_proj",
                                     .further_embedding_norm = "enorm",
                                     .further_hidden_norm = "hnorm",
                                     .further_projection = "eh_proj",
                                     .further_norm = "shared_head.norm",
                                     .router = "mlp.gate",
                                     .experts_gate_up = "mlp.experts.gate_up_proj",
                                     .experts_down = "mlp.experts.down_proj",
                                     .shared_gate = "mlp.shared_experts.gate_proj",
                                     .shared_up = "mlp.shared_experts.up_proj",
                                     .shared_down = "mlp.shared_experts.down_proj"};

constexpr ModuleNames GptOssNames() {
  ModuleNames names = kLlamaNames;
  names.sinks = "self_attn.sinks";
  names.router = "mlp.router";
  return names;
}
constexpr ModuleNames kGptOssNames = GptOssNames();

constexpr ModuleNames GemmaNames() {
  ModuleNames names = kLlamaNames;
  names.attention_post_norm = "post_attention_layernorm";
  names.feed_forward_norm = "pre_feedforward_layernorm";
  names.feed_forward_post_norm = "post_feedforward_layernorm";
  return names;
}
constexpr ModuleNames kGemmaNames = GemmaNames();

constexpr ModuleNames Olmo2Names() {
  ModuleNames names = kGemmaNames;
  names.attention_norm = names.feed_forward_norm = "";
  return names;
}
constexpr ModuleNames kOlmo2Names = Olmo2Names();

constexpr ModuleNames Phi3Names() {
  ModuleNames names = kLlamaNames;
  names.query = names.linear_qkv;
  names.gate = names.linear_fc1;
  return names;
}
constexpr ModuleNames kPhi3Names = Phi3Names();

constexpr ModuleNames Qwen2Names() {
  ModuleNames names = kLlamaNames;
  names.shared_gate = "mlp.shared_expert.gate_proj";
  names.shared_up = "mlp.shared_expert.up_proj";
  names.shared_down = "mlp.shared_expert.down_proj";
  names.shared_expert_gate = "mlp.shared_expert_gate";
  return names;
}
constexpr ModuleNames kQwen2Names = Qwen2Names();

constexpr ModuleNames GlmNames() {
  ModuleNames names = kLlamaNames;
  names.gate = names.linear_fc1;
  return names;
}
constexpr ModuleNames kGlmNames = GlmNames();

constexpr ModuleNames Glm4Names() {
  ModuleNames names = kGlmNames;
  names.attention_post_norm = "post_self_attn_layernorm";
  names.feed_forward_post_norm = "post_mlp_layernorm";
  return names;
}
constexpr ModuleNames kGlm4Names = Glm4Names();

constexpr ModuleNames Starcoder2Names() {
  ModuleNames names = kLlamaNames;
  names.gate = "";
  names.up = names.linear_fc1 = "mlp.c_fc";
  names.activator = "mlp.act";
  names.down = "mlp.c_proj";
  return names;
}
constexpr ModuleNames kStarcoder2Names = Starcoder2Names();

constexpr ModuleNames PhiNames() {
  ModuleNames names = kLlamaNames;
  names.final_norm = "model.final_layernorm";
  names.projection = "self_attn.dense";
  names.gate = "";
  names.up = names.linear_fc1 = "mlp.fc1";
  names.activator = "mlp.activation_fn";
  names.down = "mlp.fc2";
  return names;
}
constexpr ModuleNames kPhiNames = PhiNames();

constexpr ModuleNames GptjNames() {
  ModuleNames names = kGpt2Names;
  names.query = "attn.q_proj";
  names.key = "attn.k_proj";
  names.value = "attn.v_proj";
  names.query_key_value = "";
  names.projection = "attn.out_proj";
  names.feed_forward_norm = "";
  names.up = names.linear_fc1 = "mlp.fc_in";
  names.down = "mlp.fc_out";
  names.linear_qkv = "attn.qkv_proj";
  return names;
}
constexpr ModuleNames kGptjNames = GptjNames();

constexpr ModuleNames kGptNeoxNames = {.embedding = "gpt_neox.embed_in",
                                       .positions = "",
                                       .blocks = "gpt_neox.layers",
                                       .final_norm = "gpt_neox.final_layer_norm",
                                       .head = "embed_out",
                                       .attention_norm = "input_layernorm",
                                       .attention = "attention",
                                       .query = "attention.query_key_value",
                                       .key = "attention.key",
                                       .value = "attention.value",
                                       .query_key_value = "",
                                       .projection = "attention.dense",
                                       .feed_forward_norm = "post_attention_layernorm",
                                       .feed_forward = "mlp",
                                       .gate = "",
                                       .up = "mlp.dense_h_to_4h",
                                       .activator = "mlp.act",
                                       .down = "mlp.dense_4h_to_h",
                                       .linear_qkv = "attention.query_key_value",
                                       .linear_fc1 = "mlp.dense_h_to_4h"};

// The names ln_attn and ln_mlp are Falcon-40B's two norms; the other models' single norm is
// input_layernorm.
constexpr ModuleNames kFalconNames = {.embedding = "transformer.word_embeddings",
                                      .positions = "",
                                      .blocks = "transformer.h",
                                      .final_norm = "transformer.ln_f",
                                      .head = "lm_head",
                                      .attention_norm = "ln_attn",
                                      .attention = "self_attention",
                                      .query = "self_attention.query_key_value",
                                      .key = "self_attention.key",
                                      .value = "self_attention.value",
                                      .query_key_value = "",
                                      .projection = "self_attention.dense",
                                      .feed_forward_norm = "ln_mlp",
                                      .feed_forward = "mlp",
                                      .gate = "",
                                      .up = "mlp.dense_h_to_4h",
                                      .activator = "mlp.act",
                                      .down = "mlp.dense_4h_to_h",
                                      .linear_qkv = "self_attention.query_key_value",
                                      .linear_fc1 = "mlp.dense_h_to_4h"};

constexpr ModuleNames Llama4Names() {
  ModuleNames names = kLlamaNames;
  names.feed_forward = "feed_forward";
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.activator = "feed_forward.activation_fn";
  names.down = "feed_forward.down_proj";
  names.linear_fc1 = "feed_forward.gate_up_proj";
  names.router = "feed_forward.router";
  names.experts_gate_up = "feed_forward.experts.gate_up_proj";
  names.experts_down = "feed_forward.experts.down_proj";
  names.shared_gate = "feed_forward.shared_expert.gate_proj";
  names.shared_up = "feed_forward.shared_expert.up_proj";
  names.shared_down = "feed_forward.shared_expert.down_proj";
  return names;
}
constexpr ModuleNames kLlama4Names = Llama4Names();

constexpr ModuleNames kBertNames = {.embedding = "bert.embeddings.word_embeddings",
                                    .positions = "bert.embeddings.position_embeddings",
                                    .blocks = "bert.encoder.layer",
                                    .final_norm = "",
                                    .head = "cls.predictions.decoder",
                                    .attention_norm = "attention.output.LayerNorm",
                                    .attention = "attention",
                                    .query = "attention.self.query",
                                    .key = "attention.self.key",
                                    .value = "attention.self.value",
                                    .query_key_value = "",
                                    .projection = "attention.output.dense",
                                    .feed_forward_norm = "output.LayerNorm",
                                    .feed_forward = "intermediate",
                                    .gate = "",
                                    .up = "intermediate.dense",
                                    .activator = "intermediate.intermediate_act_fn",
                                    .down = "output.dense",
                                    .linear_qkv = "attention.self.query_key_value",
                                    .linear_fc1 = "intermediate.dense",
                                    .token_types = "bert.embeddings.token_type_embeddings",
                                    .embedding_norm = "bert.embeddings.LayerNorm",
                                    .pooler = "bert.pooler.dense",
                                    .predictions = "cls.predictions",
                                    .head_dense = "cls.predictions.transform.dense",
                                    .head_norm = "cls.predictions.transform.LayerNorm",
                                    .next_sentence = "cls.seq_relationship"};

constexpr ModuleNames MegatronBertNames() {
  ModuleNames names = kBertNames;
  names.final_norm = "bert.encoder.ln";
  names.attention_norm = "attention.ln";
  names.feed_forward_norm = "ln";
  names.embedding_norm = "";
  return names;
}
constexpr ModuleNames kMegatronBertNames = MegatronBertNames();

}  // namespace

const ModuleNames& NamesOf(Family family) {
  switch (family) {
    case Family::kGpt2:
      return kGpt2Names;
    case Family::kMpt:
      return kMptNames;
    case Family::kBert:
      return kBertNames;
    case Family::kMegatronBert:
      return kMegatronBertNames;
    case Family::kGptOss:
      return kGptOssNames;
    case Family::kGemma2:
    case Family::kGemma3:
      return kGemmaNames;
    case Family::kPhi3:
      return kPhi3Names;
    case Family::kOlmo2:
      return kOlmo2Names;
    case Family::kLlama4:
      return kLlama4Names;
    case Family::kQwen2:
      return kQwen2Names;
    case Family::kGlm:
      return kGlmNames;
    case Family::kGlm4:
      return kGlm4Names;
    case Family::kStarcoder2:
      return kStarcoder2Names;
    case Family::kGptj:
      return kGptjNames;
    case Family::kGptNeox:
      return kGptNeoxNames;
    case Family::kPhi:
      return kPhiNames;
    case Family::kFalcon:
      return kFalconNames;
    case Family::kLlama:
    case Family::kMistral:
    case Family::kGemma:
    case Family::kOlmoe:
    case Family::kCohere:
    case Family::kNemotron:
    case Family::kMixtral:
    case Family::kQwen3:
    case Family::kDeepseek:
    case Family::kGlm4Moe:
    case Family::kDescribed:
      break;
  }
  return kLlamaNames;
}

namespace {

// The fields of ModuleNames by their names in a family's file.
struct NamedField {
  std::string_view name;
  std::string_view ModuleNames::*field;
};
constexpr NamedField kFields[] = {
    {"tower_patch", &ModuleNames::tower_patch},
    {"tower_positions", &ModuleNames::tower_positions},
    {"tower_norm", &ModuleNames::tower_norm},
    {"tower_query_key_value", &ModuleNames::tower_query_key_value},
    {"tower_projection", &ModuleNames::tower_projection},
    {"tower_up", &ModuleNames::tower_up},
    {"tower_down", &ModuleNames::tower_down},
    {"tower_last_norm", &ModuleNames::tower_last_norm},
    {"tower_merge_norm", &ModuleNames::tower_merge_norm},
    {"tower_merge_up", &ModuleNames::tower_merge_up},
    {"tower_merge_down", &ModuleNames::tower_merge_down},

    {"streams_attention", &ModuleNames::streams_attention},
    {"streams_feed_forward", &ModuleNames::streams_feed_forward},
    {"streams_head", &ModuleNames::streams_head},
    {"shared_key", &ModuleNames::shared_key},
    {"shared_key_norm", &ModuleNames::shared_key_norm},
    {"output_down", &ModuleNames::output_down},
    {"compress", &ModuleNames::compress},
    {"compress_positions", &ModuleNames::compress_positions},
    {"compress_norm", &ModuleNames::compress_norm},
    {"index_compress", &ModuleNames::index_compress},
    {"index_compress_positions", &ModuleNames::index_compress_positions},
    {"index_compress_norm", &ModuleNames::index_compress_norm},

    {"embedding", &ModuleNames::embedding},
    {"positions", &ModuleNames::positions},
    {"blocks", &ModuleNames::blocks},
    {"final_norm", &ModuleNames::final_norm},
    {"head", &ModuleNames::head},
    {"attention_norm", &ModuleNames::attention_norm},
    {"attention", &ModuleNames::attention},
    {"query", &ModuleNames::query},
    {"key", &ModuleNames::key},
    {"value", &ModuleNames::value},
    {"query_key_value", &ModuleNames::query_key_value},
    {"projection", &ModuleNames::projection},
    {"feed_forward_norm", &ModuleNames::feed_forward_norm},
    {"feed_forward", &ModuleNames::feed_forward},
    {"gate", &ModuleNames::gate},
    {"up", &ModuleNames::up},
    {"activator", &ModuleNames::activator},
    {"down", &ModuleNames::down},
    {"linear_qkv", &ModuleNames::linear_qkv},
    {"linear_fc1", &ModuleNames::linear_fc1},
    {"token_types", &ModuleNames::token_types},
    {"embedding_norm", &ModuleNames::embedding_norm},
    {"pooler", &ModuleNames::pooler},
    {"predictions", &ModuleNames::predictions},
    {"head_dense", &ModuleNames::head_dense},
    {"head_norm", &ModuleNames::head_norm},
    {"next_sentence", &ModuleNames::next_sentence},
    {"attention_post_norm", &ModuleNames::attention_post_norm},
    {"feed_forward_post_norm", &ModuleNames::feed_forward_post_norm},
    {"query_norm", &ModuleNames::query_norm},
    {"key_norm", &ModuleNames::key_norm},
    {"sinks", &ModuleNames::sinks},
    {"query_down", &ModuleNames::query_down},
    {"query_latent_norm", &ModuleNames::query_latent_norm},
    {"query_up", &ModuleNames::query_up},
    {"kv_down", &ModuleNames::kv_down},
    {"kv_latent_norm", &ModuleNames::kv_latent_norm},
    {"kv_up", &ModuleNames::kv_up},
    {"further_embedding_norm", &ModuleNames::further_embedding_norm},
    {"further_hidden_norm", &ModuleNames::further_hidden_norm},
    {"further_projection", &ModuleNames::further_projection},
    {"further_norm", &ModuleNames::further_norm},
    {"router", &ModuleNames::router},
    {"experts_gate_up", &ModuleNames::experts_gate_up},
    {"experts_down", &ModuleNames::experts_down},
    {"shared_gate", &ModuleNames::shared_gate},
    {"shared_up", &ModuleNames::shared_up},
    {"shared_down", &ModuleNames::shared_down},
    {"shared_expert_gate", &ModuleNames::shared_expert_gate},
    {"latent_down", &ModuleNames::latent_down},
    {"latent_up", &ModuleNames::latent_up},
    {"latent_norm", &ModuleNames::latent_norm},
    {"dense_post_norm", &ModuleNames::dense_post_norm},
    {"experts_norm", &ModuleNames::experts_norm},
    {"experts_post_norm", &ModuleNames::experts_post_norm},
    {"router_scale", &ModuleNames::router_scale},
    {"expert_scale", &ModuleNames::expert_scale},
    {"attention_gate", &ModuleNames::attention_gate},
    {"index_query", &ModuleNames::index_query},
    {"index_key", &ModuleNames::index_key},
    {"index_key_norm", &ModuleNames::index_key_norm},
    {"index_weights", &ModuleNames::index_weights},
    {"index_query_norm", &ModuleNames::index_query_norm},
    {"delta_in", &ModuleNames::delta_in},
    {"delta_decay_beta", &ModuleNames::delta_decay_beta},
    {"delta_conv", &ModuleNames::delta_conv},
    {"delta_query", &ModuleNames::delta_query},
    {"delta_key", &ModuleNames::delta_key},
    {"delta_value", &ModuleNames::delta_value},
    {"delta_query_conv", &ModuleNames::delta_query_conv},
    {"delta_key_conv", &ModuleNames::delta_key_conv},
    {"delta_value_conv", &ModuleNames::delta_value_conv},
    {"delta_beta", &ModuleNames::delta_beta},
    {"delta_decay_down", &ModuleNames::delta_decay_down},
    {"delta_decay_up", &ModuleNames::delta_decay_up},
    {"delta_gate_down", &ModuleNames::delta_gate_down},
    {"delta_gate_up", &ModuleNames::delta_gate_up},
    {"delta_a", &ModuleNames::delta_a},
    {"delta_bias", &ModuleNames::delta_bias},
    {"delta_norm", &ModuleNames::delta_norm},
    {"delta_out", &ModuleNames::delta_out},
    {"state_in", &ModuleNames::state_in},
    {"state_conv", &ModuleNames::state_conv},
    {"state_a", &ModuleNames::state_a},
    {"state_d", &ModuleNames::state_d},
    {"state_bias", &ModuleNames::state_bias},
    {"state_norm", &ModuleNames::state_norm},
    {"state_out", &ModuleNames::state_out},
    {"layer_table", &ModuleNames::layer_table},
    {"layer_projection", &ModuleNames::layer_projection},
    {"layer_projection_norm", &ModuleNames::layer_projection_norm},
    {"layer_gate", &ModuleNames::layer_gate},
    {"layer_up", &ModuleNames::layer_up},
    {"layer_norm", &ModuleNames::layer_norm},
    {"bank_attention", &ModuleNames::bank_attention},
    {"bank_feed_forward", &ModuleNames::bank_feed_forward},
    {"bank_head", &ModuleNames::bank_head},
    {"input", &ModuleNames::input},
    {"input_halving", &ModuleNames::input_halving},
    {"class_rows", &ModuleNames::class_rows},
    {"distances", &ModuleNames::distances},
    {"encoder_distances", &ModuleNames::encoder_distances},
    {"encoder_blocks", &ModuleNames::encoder_blocks},
    {"encoder_norm", &ModuleNames::encoder_norm},
    {"encoder_input", &ModuleNames::encoder_input},
    {"encoder_input_halving", &ModuleNames::encoder_input_halving},
    {"encoder_positions", &ModuleNames::encoder_positions},
    {"cross_norm", &ModuleNames::cross_norm},
    {"cross_query", &ModuleNames::cross_query},
    {"cross_key", &ModuleNames::cross_key},
    {"cross_value", &ModuleNames::cross_value},
    {"cross_projection", &ModuleNames::cross_projection},
    {"cross_query_norm", &ModuleNames::cross_query_norm},
    {"cross_key_norm", &ModuleNames::cross_key_norm},
    {"time_in", &ModuleNames::time_in},
    {"time_out", &ModuleNames::time_out},
    {"guidance_in", &ModuleNames::guidance_in},
    {"guidance_out", &ModuleNames::guidance_out},
    {"classes", &ModuleNames::classes},
    {"text_vector_in", &ModuleNames::text_vector_in},
    {"text_vector_out", &ModuleNames::text_vector_out},
    {"shared_modulation", &ModuleNames::shared_modulation},
    {"modulation", &ModuleNames::modulation},
    {"head_modulation", &ModuleNames::head_modulation},
    {"text_in", &ModuleNames::text_in},
    {"text_out", &ModuleNames::text_out},
};

struct GeneralName {
  std::string_view ModuleNames::*field;
  std::string_view name;
};
constexpr GeneralName kGeneralNames[] = {
    {&ModuleNames::tower_patch, "visual.patch_embed.proj"},
    {&ModuleNames::tower_positions, "visual.pos_embed"},
    {&ModuleNames::tower_norm, "visual.blocks.norms"},
    {&ModuleNames::tower_query_key_value, "visual.blocks.attn.qkv"},
    {&ModuleNames::tower_projection, "visual.blocks.attn.proj"},
    {&ModuleNames::tower_up, "visual.blocks.mlp.linear_fc1"},
    {&ModuleNames::tower_down, "visual.blocks.mlp.linear_fc2"},
    {&ModuleNames::tower_last_norm, "visual.norm"},
    {&ModuleNames::tower_merge_norm, "visual.merger.norm"},
    {&ModuleNames::tower_merge_up, "visual.merger.linear_fc1"},
    {&ModuleNames::tower_merge_down, "visual.merger.linear_fc2"},

    {&ModuleNames::streams_attention, "attn_hc"},
    {&ModuleNames::streams_feed_forward, "ffn_hc"},
    {&ModuleNames::streams_head, "model.hc_head"},
    {&ModuleNames::shared_key, "self_attn.wkv"},
    {&ModuleNames::shared_key_norm, "self_attn.kv_norm"},
    {&ModuleNames::output_down, "self_attn.wo_a"},
    {&ModuleNames::compress, "self_attn.compressor.wkv_gate"},
    {&ModuleNames::compress_positions, "self_attn.compressor.ape"},
    {&ModuleNames::compress_norm, "self_attn.compressor.norm"},
    {&ModuleNames::index_compress, "self_attn.indexer.compressor.wkv_gate"},
    {&ModuleNames::index_compress_positions, "self_attn.indexer.compressor.ape"},
    {&ModuleNames::index_compress_norm, "self_attn.indexer.compressor.norm"},

    {&ModuleNames::latent_down, "mlp.fc1_latent_proj"},
    {&ModuleNames::latent_up, "mlp.fc2_latent_proj"},
    {&ModuleNames::latent_norm, "mlp.latent_norm"},
    {&ModuleNames::dense_post_norm, "post_feedforward_layernorm_1"},
    {&ModuleNames::experts_norm, "pre_feedforward_layernorm_2"},
    {&ModuleNames::experts_post_norm, "post_feedforward_layernorm_2"},
    {&ModuleNames::router_scale, "router.scale"},
    {&ModuleNames::expert_scale, "router.per_expert_scale"},
    {&ModuleNames::attention_gate, "self_attn.g_proj"},
    {&ModuleNames::index_query, "self_attn.indexer.wq_b"},
    {&ModuleNames::index_key, "self_attn.indexer.wk"},
    {&ModuleNames::index_key_norm, "self_attn.indexer.k_norm"},
    {&ModuleNames::index_weights, "self_attn.indexer.weights_proj"},
    {&ModuleNames::index_query_norm, "self_attn.indexer.q_norm"},
    {&ModuleNames::delta_in, "linear_attn.in_proj_qkvz"},
    {&ModuleNames::delta_decay_beta, "linear_attn.in_proj_ba"},
    {&ModuleNames::delta_conv, "linear_attn.conv1d"},
    {&ModuleNames::delta_query, "self_attn.q_proj"},
    {&ModuleNames::delta_key, "self_attn.k_proj"},
    {&ModuleNames::delta_value, "self_attn.v_proj"},
    {&ModuleNames::delta_query_conv, "self_attn.q_conv1d"},
    {&ModuleNames::delta_key_conv, "self_attn.k_conv1d"},
    {&ModuleNames::delta_value_conv, "self_attn.v_conv1d"},
    {&ModuleNames::delta_beta, "self_attn.b_proj"},
    {&ModuleNames::delta_decay_down, "self_attn.f_a_proj"},
    {&ModuleNames::delta_decay_up, "self_attn.f_b_proj"},
    {&ModuleNames::delta_gate_down, "self_attn.g_a_proj"},
    {&ModuleNames::delta_gate_up, "self_attn.g_b_proj"},
    {&ModuleNames::delta_a, "linear_attn.A_log"},
    {&ModuleNames::delta_bias, "linear_attn.dt_bias"},
    {&ModuleNames::delta_norm, "linear_attn.norm"},
    {&ModuleNames::delta_out, "linear_attn.out_proj"},
    {&ModuleNames::state_in, "mixer.in_proj"},
    {&ModuleNames::state_conv, "mixer.conv1d"},
    {&ModuleNames::state_a, "mixer.A_log"},
    {&ModuleNames::state_d, "mixer.D"},
    {&ModuleNames::state_bias, "mixer.dt_bias"},
    {&ModuleNames::state_norm, "mixer.norm"},
    {&ModuleNames::state_out, "mixer.out_proj"},
    {&ModuleNames::layer_table, "model.embed_tokens_per_layer"},
    {&ModuleNames::layer_projection, "model.per_layer_model_projection"},
    {&ModuleNames::layer_projection_norm, "model.per_layer_projection_norm"},
    {&ModuleNames::layer_gate, "per_layer_input_gate"},
    {&ModuleNames::layer_up, "per_layer_projection"},
    {&ModuleNames::layer_norm, "post_per_layer_input_norm"},
    {&ModuleNames::bank_attention, "attn_res"},
    {&ModuleNames::bank_feed_forward, "mlp_res"},
    {&ModuleNames::bank_head, "model.output_res"},
    {&ModuleNames::positions, "pos_embed"},
    {&ModuleNames::input, "patch_embed.proj"},
    {&ModuleNames::input_halving, "conv2"},
    {&ModuleNames::class_rows, "cls_token"},
    {&ModuleNames::distances, "decoder.relative_attention_bias"},
    {&ModuleNames::encoder_distances, "encoder.relative_attention_bias"},
    {&ModuleNames::encoder_blocks, "encoder.layers"},
    {&ModuleNames::encoder_norm, "encoder.layer_norm"},
    {&ModuleNames::encoder_input, "encoder.conv1"},
    {&ModuleNames::encoder_input_halving, "encoder.conv2"},
    {&ModuleNames::encoder_positions, "encoder.embed_positions"},
    {&ModuleNames::cross_norm, "cross_attn_layer_norm"},
    {&ModuleNames::cross_query, "cross_attn.q_proj"},
    {&ModuleNames::cross_key, "cross_attn.k_proj"},
    {&ModuleNames::cross_value, "cross_attn.v_proj"},
    {&ModuleNames::cross_projection, "cross_attn.o_proj"},
    {&ModuleNames::cross_query_norm, "cross_attn.q_norm"},
    {&ModuleNames::cross_key_norm, "cross_attn.k_norm"},
    {&ModuleNames::time_in, "time_in.in_layer"},
    {&ModuleNames::time_out, "time_in.out_layer"},
    {&ModuleNames::guidance_in, "guidance_in.in_layer"},
    {&ModuleNames::guidance_out, "guidance_in.out_layer"},
    {&ModuleNames::classes, "class_embedding"},
    {&ModuleNames::text_vector_in, "vector_in.in_layer"},
    {&ModuleNames::text_vector_out, "vector_in.out_layer"},
    {&ModuleNames::shared_modulation, "time_projection"},
    {&ModuleNames::modulation, "modulation.lin"},
    {&ModuleNames::head_modulation, "final_layer.modulation"},
    {&ModuleNames::text_in, "txt_in"},
    {&ModuleNames::text_out, "txt_out"},
};

// Default names for modules that no built-in family has.
ModuleNames WithGeneralNames(ModuleNames names) {
  const auto set = [](std::string_view& name, std::string_view general) {
    if (name.empty()) name = general;
  };
  set(names.sinks, "self_attn.sinks");
  set(names.shared_expert_gate, "mlp.shared_expert_gate");
  for (const auto& [field, general] : kGeneralNames) set(names.*field, general);
  return names;
}

}  // namespace

std::shared_ptr<const DescribedFamily> DescribeFamily(
    std::string name, Family like, std::map<std::string, std::string, std::less<>> texts,
    std::string* unknown) {
  auto family = std::make_shared<DescribedFamily>();
  family->name = std::move(name);
  family->texts = std::move(texts);
  family->names = NamesOf(like);
  for (const auto& [field, text] : family->texts) {
    const auto* const found =
        std::find_if(std::begin(kFields), std::end(kFields),
                     [&field = field](const NamedField& named) { return named.name == field; });
    if (found == std::end(kFields)) {
      if (unknown != nullptr) *unknown = field;
      return nullptr;
    }
    family->names.*(found->field) = text;
  }
  // A module without a name does not exist in the family.
  ModuleNames general = WithGeneralNames(family->names);
  for (const auto& [field, text] : family->texts) {
    if (!text.empty()) continue;
    const auto* const found =
        std::find_if(std::begin(kFields), std::end(kFields),
                     [&field = field](const NamedField& named) { return named.name == field; });
    general.*(found->field) = "";
  }
  family->names = general;
  for (const NamedField& named : kFields) {
    family->of_text.*named.field =
        family->texts_of_text.emplace_back(fmt::format("txt.{}", general.*named.field));
  }
  return family;
}

const ModuleNames& NamesOfText(const Architecture& architecture) {
  STEPCAST_CHECK(architecture.described != nullptr, "only described families have two streams");
  return architecture.described->of_text;
}

const ModuleNames& NamesOf(const Architecture& architecture) {
  return architecture.described != nullptr ? architecture.described->names
                                           : NamesOf(architecture.family);
}

}  // namespace stepcast::model
