#include "src/model/transformer_tensors.h"

#include <string>
#include <utility>

#include "fmt/format.h"

namespace stepcast::model {
namespace {

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
  if (NormsAllHeads(a.family)) {  // over all heads, with a weight for each place
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
  if (!experts.shared_gate) return;
  parameters.push_back(
      {names.shared_expert_gate, Of::kWeight, {1, a.hidden}, {}, true, a.lora.adapts()});
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

namespace {

// The linear layers of a block, each with its adapter.
class BlockLayers {
 public:
  BlockLayers(const Architecture& a, Parameters& parameters)
      : a_(a), names_(NamesOf(a.family)), adapted_(a.lora.targets), parameters_(parameters) {}

  // Queries, keys and values, with their sinks and norms, and the projection.
  void Attention() {
    if (HasSinks(a_.family)) {
      parameters_.push_back({names_.sinks,
                             Of::kWeight,
                             {a_.heads},
                             AlongTensor(0),
                             false,
                             a_.lora.adapts(),
                             ParameterGroup::kDense,
                             true});
    }
    if (a_.latent.exists()) {
      AppendLatentAttention(a_, names_, parameters_);
    } else if (HasFusedAttention(a_) || HasFusedProjections(a_)) {
      // Phi-3 makes the projection first.
      if (a_.family == Family::kPhi3) Projection();
      OneProduct(names_.linear_qkv);
      if (a_.family == Family::kPhi3) return;
    } else {
      const std::int64_t key = a_.kv_heads * a_.head_size;
      Columns(names_.query, a_.heads * a_.head_size, a_.attention_bias, adapted_.query);
      Columns(names_.key, key, a_.attention_bias, adapted_.key);
      Columns(names_.value, key, a_.attention_bias, adapted_.value);
      AppendAdapter(a_, adapted_.linear_qkv, names_.linear_qkv, a_.hidden, ProductWidth(),
                    Pairing::kColumns, parameters_);
    }
    Projection();
    if (!a_.qk_norm) return;
    AppendHeadNorm(a_, names_.query_norm, a_.heads, parameters_);
    AppendHeadNorm(a_, names_.key_norm, a_.kv_heads, parameters_);
  }

  void FeedForward(bool experts) {
    if (experts) return AppendExperts(a_, names_, parameters_);
    const bool gated = IsGated(a_.activator), bias = a_.feed_forward_bias;
    if (HasFusedGate(a_)) {
      Columns(names_.linear_fc1, 2 * a_.feed_forward, bias, adapted_.linear_fc1);
    } else {
      if (gated) Columns(names_.gate, a_.feed_forward, bias, adapted_.gate);
      Columns(names_.up, a_.feed_forward, bias, adapted_.up || (!gated && adapted_.linear_fc1));
      AppendAdapter(a_, gated && adapted_.linear_fc1, names_.linear_fc1, a_.hidden,
                    2 * a_.feed_forward, Pairing::kColumns, parameters_);
    }
    Rows(names_.down, a_.feed_forward, bias, adapted_.down);
  }

 private:
  void Columns(std::string_view module, std::int64_t out, bool bias, bool adapted) {
    AppendLinear(a_, module, a_.hidden, out, bias, Pairing::kColumns, parameters_);
    AppendAdapter(a_, adapted, module, a_.hidden, out, Pairing::kColumns, parameters_);
  }
  void Rows(std::string_view module, std::int64_t in, bool bias, bool adapted) {
    AppendLinear(a_, module, in, a_.hidden, bias, Pairing::kRows, parameters_);
    AppendAdapter(a_, adapted, module, in, a_.hidden, Pairing::kRows, parameters_);
  }
  std::int64_t ProductWidth() const { return (a_.heads + 2 * a_.kv_heads) * a_.head_size; }
  void OneProduct(std::string_view module) {
    Columns(module, ProductWidth(), a_.attention_bias, adapted_.linear_qkv);
  }
  void Projection() {
    Rows(names_.projection, a_.heads * ValueSize(a_), a_.projection_bias, adapted_.projection);
  }

  const Architecture& a_;
  const ModuleNames& names_;
  const AdaptedLayers& adapted_;
  Parameters& parameters_;
};

}  // namespace

std::vector<ModuleParameter> BlockParameters(const Architecture& a, bool experts) {
  const ModuleNames& names = NamesOf(a.family);
  Parameters parameters;
  BlockLayers layers(a, parameters);
  const bool encoder = IsEncoder(a.family), post_norm = HasPostNorm(a.family);
  const bool shares_norm = a.parallel_residual_norms == 1;
  // BertLayer: attention.self, attention.output, intermediate, output; MegatronBertLayer, GPT-2,
  // MPT and GPT-J have each norm before what it is for, GPT-NeoX both before all else.
  const bool neox = a.family == Family::kGptNeox;
  const bool in_order = a.family == Family::kGpt2 || a.family == Family::kMpt ||
                        a.family == Family::kGptj || neox || (encoder && !post_norm);
  if (in_order) AppendNorm(a, names.attention_norm, parameters);
  if (neox && !shares_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  layers.Attention();
  if (in_order && !neox && !shares_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  if (post_norm) AppendNorm(a, names.attention_norm, parameters);
  layers.FeedForward(experts);
  if (post_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  if (in_order || post_norm) return parameters;
  // Registered after the modules that they run before or behind.
  for (const std::string_view norm : {names.attention_norm, names.attention_post_norm,
                                      names.feed_forward_norm, names.feed_forward_post_norm}) {
    const bool shared = shares_norm && norm == names.feed_forward_norm;
    if (!norm.empty() && !shared) AppendNorm(a, norm, parameters);
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
  if (a.head_bias) {
    parameters.push_back(
        {names.head, Of::kBias, {a.vocabulary}, AlongTensor(0), false, a.lora.adapts()});
  }
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
