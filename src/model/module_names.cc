#include "src/model/module_names.h"

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

// Falcon-40B's two norms are ln_attn and ln_mlp; the one of others is input_layernorm.
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
      break;
  }
  return kLlamaNames;
}

}  // namespace stepcast::model
