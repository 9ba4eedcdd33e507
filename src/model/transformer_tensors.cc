#include "src/model/transformer_tensors.h"

#include <string>
#include <utility>

#include "fmt/format.h"

namespace stepcast::model {
namespace {

constexpr ModuleNames kGpt2Names = {.embedding = "transformer.wte",
                                    .positions = "transformer.wpe",
                                    .blocks = "transformer.h",
                                    .final_norm = "transformer.ln_f",
                                    .head = "lm_head",
                                    .attention_norm = "ln_1",
                                    .attention = "attn",
                                    .query = "",
                                    .key = "",
                                    .value = "",
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

using Parameters = std::vector<ModuleParameter>;
using Of = ModuleParameter::Of;

// Linear layers come in pairs: the first is divided by its outputs, the second by its inputs, so
// that what lies between them stays on its rank (Shoeybi et al. 2019, arXiv 1909.08053).
enum class Pairing : std::uint8_t { kColumns, kRows };

std::vector<Split> AlongTensor(int dimension) {
  return {{.axis = parallel::Axis::kTensor, .dimension = dimension}};
}

// nn.Linear keeps its weight as [out, in]; GPT-2's Conv1D as [in, out].
void AppendLinear(const Architecture& a, std::string_view module, std::int64_t in, std::int64_t out,
                  bool bias, Pairing pairing, Parameters& parameters) {
  std::vector<std::int64_t> shape{out, in};
  const bool by_outputs = pairing == Pairing::kColumns;
  int divided = by_outputs ? 0 : 1;
  if (a.family == Family::kGpt2) {
    std::swap(shape[0], shape[1]);
    divided = 1 - divided;
  }
  const bool frozen = a.lora.adapts();
  parameters.push_back(
      {module, Of::kWeight, std::move(shape), AlongTensor(divided), false, frozen});
  if (!bias) return;
  // Behind rows the bias is added to the sum.
  parameters.push_back({module,
                        Of::kBias,
                        {out},
                        by_outputs ? AlongTensor(0) : std::vector<Split>(),
                        !by_outputs,
                        frozen});
}

// The first matrix is divided as the linear layer is, by what it makes or by what it takes; the
// second one by what it makes (NVIDIA/NeMo, nemo/collections/llm/peft/utils.py,
// ParallelLinearAdapter).
void AppendAdapter(const Architecture& a, bool adapted, std::string_view module, std::int64_t in,
                   std::int64_t out, Pairing pairing, Parameters& parameters) {
  if (!a.lora.adapts() || !adapted) return;
  parameters.push_back(
      {module, Of::kLoraA, {a.lora.rank, in}, AlongTensor(pairing == Pairing::kColumns ? 0 : 1)});
  parameters.push_back({module, Of::kLoraB, {out, a.lora.rank}, AlongTensor(0)});
}

// Of all heads together one weight for each place in a head. A rank has some of the heads, and its
// gradient is of those alone, as that of other norms is of a part of the tokens.
void AppendHeadNorm(const Architecture& a, std::string_view module, std::int64_t heads,
                    Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  if (a.family == Family::kOlmo2) {  // over all heads, with a weight for each place
    parameters.push_back(
        {module, Of::kWeight, {heads * a.head_size}, AlongTensor(0), false, frozen});
  } else if (a.family != Family::kLlama4) {  // whose norms have no weights
    parameters.push_back({module, Of::kWeight, {a.head_size}, {}, true, frozen});
  }
}

// What leads down to the latent vectors is whole on every rank, which computes its part of the
// tokens with it; what leads up is divided by heads (Megatron-Core,
// megatron/core/transformer/multi_latent_attention.py).
void AppendLatentAttention(const Architecture& a, const ModuleNames& names,
                           Parameters& parameters) {
  const LatentAttention& latent = a.latent;
  const bool frozen = a.lora.adapts();
  const auto down = [&](std::string_view module, std::string_view norm, std::int64_t width,
                        std::int64_t rank) {
    parameters.push_back({module, Of::kWeight, {width, a.hidden}, {}, true, frozen});
    parameters.push_back({norm, Of::kWeight, {rank}, {}, true, frozen});
  };
  const std::int64_t query = a.heads * a.head_size;
  if (latent.query_rank > 0) {
    down(names.query_down, names.query_latent_norm, latent.query_rank, latent.query_rank);
    AppendLinear(a, names.query_up, latent.query_rank, query, false, Pairing::kColumns, parameters);
  } else {
    AppendLinear(a, names.query, a.hidden, query, false, Pairing::kColumns, parameters);
  }
  down(names.kv_down, names.kv_latent_norm, latent.kv_rank + latent.rotary_head, latent.kv_rank);
  AppendLinear(a, names.kv_up, latent.kv_rank, a.heads * (latent.plain_head + latent.value_head),
               false, Pairing::kColumns, parameters);
}

void AppendNorm(const Architecture& a, std::string_view module, Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  parameters.push_back({module, Of::kWeight, {a.hidden}, {}, true, frozen});
  if (!a.norm_bias) return;
  parameters.push_back({module, Of::kBias, {a.hidden}, {}, true, frozen});
}

// Which of the two the family's module makes first.
bool RegistersRouterFirst(Family family) {
  return family == Family::kMixtral || family == Family::kGptOss;
}

// GPT-OSS and Llama 4 keep the matrices of their experts as [in, out].
bool HasExpertsByInput(Family family) {
  return family == Family::kGptOss || family == Family::kLlama4;
}

// Each rank routes its own tokens.
void AppendRouter(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  const std::int64_t count = a.experts.count;
  parameters.push_back({names.router, Of::kWeight, {count, a.hidden}, {}, true, frozen});
  if (a.experts.router_bias) {
    parameters.push_back({names.router, Of::kBias, {count}, {}, true, frozen});
  }
}

// The experts' matrices are one tensor each, [E, 2f, h] and [E, h, f], as transformers 5 has them
// (integrations/moe.py). Ranks have different experts, and perhaps a part of each.
void AppendExperts(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const Experts& experts = a.experts;
  const bool frozen = a.lora.adapts();
  const auto append = [&](std::string_view module, Of of, std::vector<std::int64_t> shape,
                          int divided) {
    std::vector<Split> splits{{.axis = parallel::Axis::kExpertOuter, .dimension = 0},
                              {.axis = parallel::Axis::kExpertInner, .dimension = 0}};
    if (divided > 0)
      splits.push_back({.axis = parallel::Axis::kExpertTensor, .dimension = divided});
    parameters.push_back({module, of, std::move(shape), std::move(splits), false, frozen,
                          ParameterGroup::kExperts, true});
  };
  const bool by_input = HasExpertsByInput(a.family);
  const auto append_matrix = [&](std::string_view module, std::int64_t in, std::int64_t out,
                                 bool by_outputs) {
    std::vector<std::int64_t> shape{experts.count, out, in};
    if (by_input) std::swap(shape[1], shape[2]);
    append(module, Of::kWeight, std::move(shape), by_outputs != by_input ? 1 : 2);
  };
  const bool router_first = RegistersRouterFirst(a.family);
  if (router_first) AppendRouter(a, names, parameters);
  append_matrix(names.experts_gate_up, a.hidden, 2 * experts.feed_forward, true);
  if (experts.bias) {
    append(names.experts_gate_up, Of::kBias, {experts.count, 2 * experts.feed_forward}, 1);
  }
  append_matrix(names.experts_down, experts.feed_forward, a.hidden, false);
  if (experts.bias) append(names.experts_down, Of::kBias, {experts.count, a.hidden}, 0);
  if (!router_first) AppendRouter(a, names, parameters);
  if (experts.shared_feed_forward == 0) return;
  const std::int64_t width = experts.shared_feed_forward;
  AppendLinear(a, names.shared_gate, a.hidden, width, false, Pairing::kColumns, parameters);
  AppendLinear(a, names.shared_up, a.hidden, width, false, Pairing::kColumns, parameters);
  AppendLinear(a, names.shared_down, width, a.hidden, false, Pairing::kRows, parameters);
}

std::string TensorName(std::string_view prefix, const ModuleParameter& parameter) {
  if (parameter.direct) {
    return fmt::format("{}{}{}", prefix, parameter.module,
                       parameter.of == Of::kBias ? "_bias" : "");
  }
  const char* what = "weight";
  if (parameter.of == Of::kBias) what = "bias";
  if (parameter.of == Of::kLoraA) what = "lora_A.weight";
  if (parameter.of == Of::kLoraB) what = "lora_B.weight";
  return fmt::format("{}{}.{}", prefix, parameter.module, what);
}

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
    case Family::kLlama:
    case Family::kMistral:
    case Family::kQwen2:
    case Family::kNemotron:
    case Family::kMixtral:
    case Family::kQwen3:
    case Family::kDeepseek:
    case Family::kGlm4Moe:
      break;
  }
  return kLlamaNames;
}

bool HasFusedAttention(Family family) { return family == Family::kGpt2 || family == Family::kMpt; }

std::vector<ModuleParameter> EmbeddingParameters(const Architecture& a) {
  const ModuleNames& names = NamesOf(a.family);
  Parameters parameters;
  const bool frozen = a.lora.adapts();
  parameters.push_back(
      {names.embedding, Of::kWeight, {a.vocabulary, a.hidden}, AlongTensor(0), false, frozen});
  if (a.position == Position::kLearned) {
    parameters.push_back(
        {names.positions, Of::kWeight, {a.max_positions, a.hidden}, {}, false, frozen});
  }
  if (a.token_types > 0) {
    parameters.push_back({names.token_types, Of::kWeight, {a.token_types, a.hidden}});
  }
  if (HasPostNorm(a.family)) AppendNorm(a, names.embedding_norm, parameters);
  return parameters;
}

std::vector<ModuleParameter> BlockParameters(const Architecture& a, bool experts) {
  const ModuleNames& names = NamesOf(a.family);
  const std::int64_t query = a.heads * a.head_size;
  const std::int64_t key = a.kv_heads * a.head_size;
  const AdaptedLayers& adapted = a.lora.targets;
  Parameters parameters;
  const auto linear = [&](std::string_view module, std::int64_t in, std::int64_t out, bool bias,
                          Pairing pairing, bool has_adapter) {
    AppendLinear(a, module, in, out, bias, pairing, parameters);
    AppendAdapter(a, has_adapter, module, in, out, pairing, parameters);
  };
  const auto feed_forward = [&] {
    if (experts) return AppendExperts(a, names, parameters);
    const bool gated = IsGated(a.activator);
    const bool bias = a.feed_forward_bias;
    if (HasFusedLayers(a.family)) {
      linear(names.gate, a.hidden, 2 * a.feed_forward, bias, Pairing::kColumns, adapted.linear_fc1);
      linear(names.down, a.feed_forward, a.hidden, bias, Pairing::kRows, adapted.down);
      return;
    }
    if (gated) {
      linear(names.gate, a.hidden, a.feed_forward, bias, Pairing::kColumns, adapted.gate);
    }
    linear(names.up, a.hidden, a.feed_forward, bias, Pairing::kColumns,
           adapted.up || (!gated && adapted.linear_fc1));
    AppendAdapter(a, gated && adapted.linear_fc1, names.linear_fc1, a.hidden, 2 * a.feed_forward,
                  Pairing::kColumns, parameters);
    linear(names.down, a.feed_forward, a.hidden, bias, Pairing::kRows, adapted.down);
  };
  if (HasFusedAttention(a.family)) {
    AppendNorm(a, names.attention_norm, parameters);
    linear(names.query_key_value, a.hidden, query + 2 * key, a.attention_bias, Pairing::kColumns,
           adapted.linear_qkv);
    linear(names.projection, query, a.hidden, a.projection_bias, Pairing::kRows,
           adapted.projection);
    AppendNorm(a, names.feed_forward_norm, parameters);
    feed_forward();
    return parameters;
  }
  const bool encoder = IsEncoder(a.family), post_norm = HasPostNorm(a.family);
  // BertLayer: attention.self, attention.output, intermediate, output; MegatronBertLayer has each
  // norm before what it is for.
  if (encoder && !post_norm) AppendNorm(a, names.attention_norm, parameters);
  if (HasSinks(a.family)) {
    parameters.push_back({names.sinks,
                          Of::kWeight,
                          {a.heads},
                          AlongTensor(0),
                          false,
                          a.lora.adapts(),
                          ParameterGroup::kDense,
                          true});
  }
  const auto projection = [&] {
    linear(names.projection, a.heads * ValueSize(a), a.hidden, a.projection_bias, Pairing::kRows,
           adapted.projection);
  };
  if (a.latent.exists()) {
    AppendLatentAttention(a, names, parameters);
  } else if (HasFusedLayers(a.family)) {  // whose projection comes first
    projection();
    linear(names.query, a.hidden, query + 2 * key, a.attention_bias, Pairing::kColumns,
           adapted.linear_qkv);
  } else {
    linear(names.query, a.hidden, query, a.attention_bias, Pairing::kColumns, adapted.query);
    linear(names.key, a.hidden, key, a.attention_bias, Pairing::kColumns, adapted.key);
    linear(names.value, a.hidden, key, a.attention_bias, Pairing::kColumns, adapted.value);
    AppendAdapter(a, adapted.linear_qkv, names.linear_qkv, a.hidden, query + 2 * key,
                  Pairing::kColumns, parameters);
  }
  if (!HasFusedLayers(a.family)) projection();
  if (a.qk_norm) {
    AppendHeadNorm(a, names.query_norm, a.heads, parameters);
    AppendHeadNorm(a, names.key_norm, a.kv_heads, parameters);
  }
  if (encoder)
    AppendNorm(a, post_norm ? names.attention_norm : names.feed_forward_norm, parameters);
  feed_forward();
  if (post_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  if (encoder) return parameters;
  // Registered after the modules that they run before or behind.
  for (const std::string_view norm : {names.attention_norm, names.attention_post_norm,
                                      names.feed_forward_norm, names.feed_forward_post_norm}) {
    if (!norm.empty()) AppendNorm(a, norm, parameters);
  }
  return parameters;
}

namespace {

// DeepSeek-V3's layer 61 (deepseek-ai/DeepSeek-V3, README_WEIGHTS.md); as Megatron-Core divides it
// (megatron/core/transformer/multi_token_prediction.py).
void AppendFurtherTokens(const Architecture& a, Parameters& parameters) {
  const ModuleNames& names = NamesOf(a.family);
  const bool frozen = a.lora.adapts();
  parameters.push_back(
      {names.embedding, Of::kWeight, {a.vocabulary, a.hidden}, AlongTensor(0), false, frozen});
  const std::size_t first = parameters.size();
  AppendNorm(a, names.further_embedding_norm, parameters);
  AppendNorm(a, names.further_hidden_norm, parameters);
  AppendLinear(a, names.further_projection, 2 * a.hidden, a.hidden, false, Pairing::kColumns,
               parameters);
  const Parameters block = BlockParameters(a, HasExperts(a, a.layers));
  parameters.insert(parameters.end(), block.begin(), block.end());
  AppendNorm(a, names.further_norm, parameters);
  for (std::size_t i = first; i < parameters.size(); ++i) parameters[i].further = true;
}

}  // namespace

std::vector<ModuleParameter> HeadParameters(const Architecture& a) {
  const ModuleNames& names = NamesOf(a.family);
  Parameters parameters;
  if (a.further_tokens > 0) AppendFurtherTokens(a, parameters);
  if (!HasPostNorm(a.family)) AppendNorm(a, names.final_norm, parameters);
  if (IsEncoder(a.family)) {
    // Whole on each rank of a tensor-parallel group (megatron/core/models/bert/bert_lm_head.py,
    // pooler.py), but for the last product and its bias.
    const auto whole = [&](std::string_view module, std::int64_t in, std::int64_t out) {
      parameters.push_back({module, Of::kWeight, {out, in}});
      parameters.push_back({module, Of::kBias, {out}});
    };
    if (a.next_sentence) whole(names.pooler, a.hidden, a.hidden);
    parameters.push_back({names.predictions, Of::kBias, {a.vocabulary}, AlongTensor(0)});
    whole(names.head_dense, a.hidden, a.hidden);
    AppendNorm(a, names.head_norm, parameters);
    if (a.next_sentence) whole(names.next_sentence, a.hidden, kSentenceClasses);
  }
  // The head is an nn.Linear in every family.
  parameters.push_back({a.tie_embeddings ? names.embedding : names.head,
                        Of::kWeight,
                        {a.vocabulary, a.hidden},
                        AlongTensor(0),
                        false,
                        a.lora.adapts()});
  return parameters;
}

TransformerLayout LayOut(const Architecture& a) {
  const ModuleNames& names = NamesOf(a.family);
  TransformerLayout layout;
  const auto append = [&layout](Layer& layer, std::string_view prefix, ModuleParameter parameter) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : parameter.shape) elements *= extent;
    const bool of_block = layer.kind == LayerKind::kBlock || parameter.further;
    std::vector<int>& indices = parameter.frozen ? layer.frozen : layer.tensors;
    std::vector<Tensor>& tensors = parameter.frozen ? layout.frozen : layout.tensors;
    indices.push_back(static_cast<int>(tensors.size()));
    std::string name = TensorName(prefix, parameter);
    tensors.push_back({std::move(name), std::move(parameter.shape), elements,
                       std::move(parameter.splits), parameter.group, parameter.sequence_parallel,
                       of_block});
  };

  Layer embedding{
      .name = std::string(names.embedding), .kind = LayerKind::kEmbedding, .tensors = {}};
  for (ModuleParameter& parameter : EmbeddingParameters(a)) {
    append(embedding, "", std::move(parameter));
  }
  const bool frozen = a.lora.adapts();
  const int embedding_weight = (frozen ? embedding.frozen : embedding.tensors).front();
  layout.layers.push_back(std::move(embedding));

  const Parameters dense_parameters = BlockParameters(a);
  const Parameters mixture_parameters = a.experts.exist() ? BlockParameters(a, true) : Parameters();
  for (std::int64_t i = 0; i < a.layers; ++i) {
    Layer block{.name = fmt::format("{}.{}", names.blocks, i),
                .kind = LayerKind::kBlock,
                .tensors = {},
                .first_block = i == 0,
                .experts = HasExperts(a, i),
                .full_attention = AttendsInFull(a, i)};
    const std::string prefix = block.name + ".";
    for (const ModuleParameter& parameter : block.experts ? mixture_parameters : dense_parameters) {
      append(block, prefix, parameter);
    }
    layout.layers.push_back(std::move(block));
  }

  Layer head{.name = std::string(names.head), .kind = LayerKind::kHead, .tensors = {}};
  for (ModuleParameter& parameter : HeadParameters(a)) {
    if (parameter.module == names.embedding) {
      (frozen ? head.frozen : head.tensors).push_back(embedding_weight);
    } else {
      const bool further = parameter.further;
      append(head, further ? fmt::format("{}.{}.", names.blocks, a.layers) : "",
             std::move(parameter));
    }
  }
  layout.layers.push_back(std::move(head));
  return layout;
}

}  // namespace stepcast::model
