#include "src/model/transformer_tensors.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/model/end_tensors.h"

namespace stepcast::model {
namespace {

using Parameters = std::vector<ModuleParameter>;
using Of = ModuleParameter::Of;

// Linear layers come in pairs: the first is divided by its outputs, the second by its inputs, so
// that the values between them stay on one rank (Shoeybi et al. 2019, arXiv 1909.08053).
enum class Pairing : std::uint8_t { kColumns, kRows };

std::vector<Split> AlongTensor(int dimension) {
  return {{.axis = parallel::Axis::kTensor, .dimension = dimension}};
}

// nn.Linear stores its weight as [out, in], GPT-2's Conv1D as [in, out].
void AppendLinear(const Architecture& a, std::string_view module, std::int64_t in, std::int64_t out,
                  bool bias, Pairing pairing, Parameters& parameters) {
  std::vector<std::int64_t> shape{out, in};
  const bool by_outputs = pairing == Pairing::kColumns;
  int divided = by_outputs ? 0 : 1;
  if (TraitsOf(a).weights_by_input) {
    std::swap(shape[0], shape[1]);
    divided = 1 - divided;
  }
  const bool frozen = a.lora.adapts();
  parameters.push_back(
      {module, Of::kWeight, std::move(shape), AlongTensor(divided), false, frozen});
  if (!bias) return;
  // For a row-parallel layer the bias is added to the sum.
  parameters.push_back({module,
                        Of::kBias,
                        {out},
                        by_outputs ? AlongTensor(0) : std::vector<Split>(),
                        !by_outputs,
                        frozen});
}

// The first matrix is divided like the linear layer, by outputs or by inputs; the second one by
// outputs (NVIDIA/NeMo, nemo/collections/llm/peft/utils.py, ParallelLinearAdapter).
void AppendAdapter(const Architecture& a, bool adapted, std::string_view module, std::int64_t in,
                   std::int64_t out, Pairing pairing, Parameters& parameters) {
  if (!a.lora.adapts() || !adapted) return;
  parameters.push_back(
      {module, Of::kLoraA, {a.lora.rank, in}, AlongTensor(pairing == Pairing::kColumns ? 0 : 1)});
  parameters.push_back({module, Of::kLoraB, {out, a.lora.rank}, AlongTensor(0)});
}

// One weight for each element of a head, shared by all heads. A rank has some of the heads, and its
// gradient covers only those, like the gradients of other norms cover a part of the tokens.
void AppendHeadNorm(const Architecture& a, std::string_view module, std::int64_t heads,
                    Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  if (a.norms_all_heads) {
    parameters.push_back(
        {module, Of::kWeight, {heads * a.head_size}, AlongTensor(0), false, frozen});
  } else if (!a.weightless_norms) {
    parameters.push_back({module, Of::kWeight, {a.head_size}, {}, true, frozen});
  }
}

// Down-projections are whole on every rank and applied to its part of the tokens; up-projections
// are divided by heads (Megatron-Core, megatron/core/transformer/multi_latent_attention.py).
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

// A parameter that is whole on every rank. It is applied to the rank's part of the tokens, or to
// all tokens before the divided layers.
void AppendWhole(const Architecture& a, std::string_view module, std::vector<std::int64_t> shape,
                 Parameters& parameters, bool direct = false) {
  parameters.push_back({module,
                        Of::kWeight,
                        std::move(shape),
                        {},
                        true,
                        a.lora.adapts(),
                        ParameterGroup::kDense,
                        direct});
}

// Parameters with one entry per head or channel; a rank has those of its heads.
void AppendOfHeads(const Architecture& a, std::string_view module, Of of,
                   std::vector<std::int64_t> shape, Parameters& parameters, bool direct = false) {
  parameters.push_back({module, of, std::move(shape), AlongTensor(0), false, a.lora.adapts(),
                        ParameterGroup::kDense, direct});
}

// The indexer is whole on every rank (Megatron-Core,
// megatron/core/transformer/experimental_attention_variant/dsa.py).
void AppendIndexer(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const Indexer& index = a.indexer;
  if (!index.exists() || index.shared) return;
  const std::int64_t in = index.from_query_rank ? a.latent.query_rank : a.hidden;
  AppendWhole(a, names.index_query, {index.heads * index.head, in}, parameters);
  AppendWhole(a, names.index_key, {index.head, a.hidden}, parameters);
  AppendWhole(a, names.index_key_norm, {index.head}, parameters);
  if (index.weighs_heads) {
    parameters.push_back(
        {names.index_key_norm, Of::kBias, {index.head}, {}, true, a.lora.adapts()});
    AppendWhole(a, names.index_weights, {index.heads, a.hidden}, parameters);
  } else {
    AppendWhole(a, names.index_query_norm, {index.head}, parameters);
  }
}

// A compressor: a product of values and a product of their weights, for each overlapping vector.
void AppendCompressor(const Architecture& a, std::string_view product, std::string_view positions,
                      std::string_view norm, std::int64_t width, Parameters& parameters) {
  const SharedKeyValue& shared = a.shared_key;
  const std::int64_t wide = shared.overlap * width;
  AppendWhole(a, product, {2 * wide, a.hidden}, parameters);
  AppendWhole(a, positions, {shared.compressed, wide}, parameters, true);
  AppendWhole(a, norm, {width}, parameters);
}

// The vectors are whole on every rank; heads and groups of heads are divided.
void AppendSharedKey(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const SharedKeyValue& shared = a.shared_key;
  const std::int64_t width = a.heads * a.head_size;
  AppendWhole(a, names.query_down, {shared.query_rank, a.hidden}, parameters);
  AppendWhole(a, names.query_latent_norm, {shared.query_rank}, parameters);
  AppendLinear(a, names.query_up, shared.query_rank, width, false, Pairing::kColumns, parameters);
  AppendWhole(a, names.shared_key, {a.head_size, a.hidden}, parameters);
  AppendWhole(a, names.shared_key_norm, {a.head_size}, parameters);
  AppendOfHeads(a, names.output_down, Of::kWeight,
                {shared.output_groups * shared.output_rank, width / shared.output_groups},
                parameters);
  if (shared.compressed == 0) return;
  AppendCompressor(a, names.compress, names.compress_positions, names.compress_norm, a.head_size,
                   parameters);
  if (!a.indexer.exists()) return;
  AppendCompressor(a, names.index_compress, names.index_compress_positions,
                   names.index_compress_norm, a.indexer.head, parameters);
  AppendWhole(a, names.index_query, {a.indexer.heads * a.indexer.head, shared.query_rank},
              parameters);
  AppendWhole(a, names.index_weights, {a.indexer.heads, a.hidden}, parameters);
}

// One site of hyper-connections: weights into and out of each stream and between streams, with
// addends and three factors.
void AppendStreams(const Architecture& a, std::string_view module, Parameters& parameters) {
  if (a.streams == 0) return;
  const std::int64_t numbers = a.streams * (a.streams + 2);
  AppendWhole(a, module, {numbers, a.streams * a.hidden}, parameters);
  parameters.push_back({module, Of::kBias, {numbers + 3}, {}, true, a.lora.adapts()});
}

// Divided by heads, as in Megatron-Core (megatron/core/ssm/gated_delta_net.py).
void AppendDeltaRule(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const DeltaRule& delta = a.delta;
  const std::int64_t keys = delta.keys(), values = delta.values();
  const auto columns = [&](std::string_view module, std::int64_t in, std::int64_t out) {
    AppendLinear(a, module, in, out, false, Pairing::kColumns, parameters);
  };
  const auto constants = [&](std::int64_t decays) {
    AppendOfHeads(a, names.delta_bias, Of::kWeight, {decays}, parameters, true);
    AppendOfHeads(a, names.delta_a, Of::kWeight, {delta.value_heads}, parameters, true);
  };
  const auto conv = [&](std::string_view module, std::int64_t channels) {
    AppendOfHeads(a, module, Of::kWeight, {channels, 1, delta.conv}, parameters);
  };
  if (!delta.by_channel) {
    constants(delta.value_heads);
    conv(names.delta_conv, 2 * keys + values);
    columns(names.delta_in, a.hidden, 2 * keys + 2 * values);
    columns(names.delta_decay_beta, a.hidden, 2 * delta.value_heads);
  } else {
    columns(names.delta_query, a.hidden, keys);
    columns(names.delta_key, a.hidden, keys);
    columns(names.delta_value, a.hidden, values);
    conv(names.delta_query_conv, keys);
    conv(names.delta_key_conv, keys);
    conv(names.delta_value_conv, values);
    constants(keys);
    AppendWhole(a, names.delta_decay_down, {delta.decay_rank, a.hidden}, parameters);
    columns(names.delta_decay_up, delta.decay_rank, keys);
    columns(names.delta_beta, a.hidden, delta.value_heads);
    if (delta.gate_rank > 0) {
      AppendWhole(a, names.delta_gate_down, {delta.gate_rank, a.hidden}, parameters);
    }
    columns(names.delta_gate_up, delta.gate_rank > 0 ? delta.gate_rank : a.hidden, values);
  }
  AppendWhole(a, names.delta_norm, {delta.value}, parameters);
  AppendLinear(a, names.delta_out, values, a.hidden, false, Pairing::kRows, parameters);
}

// Divided by heads and groups, as in Megatron-Core (megatron/core/ssm/mamba_mixer.py).
void AppendStateSpace(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const StateSpace& state = a.state_space;
  const auto of_heads = [&](std::string_view module) {
    AppendOfHeads(a, module, Of::kWeight, {state.heads}, parameters, true);
  };
  of_heads(names.state_bias);
  of_heads(names.state_a);
  of_heads(names.state_d);
  AppendOfHeads(a, names.state_conv, Of::kWeight, {state.convolved(), 1, state.conv}, parameters);
  if (state.conv_bias) {
    AppendOfHeads(a, names.state_conv, Of::kBias, {state.convolved()}, parameters);
  }
  AppendLinear(a, names.state_in, a.hidden, state.inner() + state.convolved() + state.heads,
               state.projection_bias, Pairing::kColumns, parameters);
  AppendOfHeads(a, names.state_norm, Of::kWeight, {state.inner()}, parameters);
  AppendLinear(a, names.state_out, state.inner(), a.hidden, state.projection_bias, Pairing::kRows,
               parameters);
}

void AppendNorm(const Architecture& a, std::string_view module, Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  parameters.push_back({module, Of::kWeight, {a.hidden}, {}, true, frozen});
  if (!a.norm_bias) return;
  parameters.push_back({module, Of::kBias, {a.hidden}, {}, true, frozen});
}

// Each rank routes its own tokens.
void AppendRouter(const Architecture& a, const ModuleNames& names, Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  const std::int64_t count = a.experts.count;
  parameters.push_back({names.router, Of::kWeight, {count, a.hidden}, {}, true, frozen});
  if (a.experts.router_bias) {
    parameters.push_back({names.router, Of::kBias, {count}, {}, true, frozen});
  }
  if (!a.experts.beside_dense) return;
  AppendWhole(a, names.router_scale, {a.hidden}, parameters, true);
  AppendWhole(a, names.expert_scale, {count}, parameters, true);
}

// The experts' matrices are one tensor each, [E, 2f, h] and [E, h, f], as in transformers 5
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
  const bool by_input = TraitsOf(a).experts_by_input;
  const auto append_matrix = [&](std::string_view module, std::int64_t in, std::int64_t out,
                                 bool by_outputs) {
    std::vector<std::int64_t> shape{experts.count, out, in};
    if (by_input) std::swap(shape[1], shape[2]);
    append(module, Of::kWeight, std::move(shape), by_outputs != by_input ? 1 : 2);
  };
  const bool router_first = TraitsOf(a).router_first;
  if (router_first) AppendRouter(a, names, parameters);
  const std::int64_t width_of_rows = experts.latent > 0 ? experts.latent : a.hidden;
  const std::int64_t first = (IsGated(a.activator) ? 2 : 1) * experts.feed_forward;
  append_matrix(names.experts_gate_up, width_of_rows, first, true);
  if (experts.bias) append(names.experts_gate_up, Of::kBias, {experts.count, first}, 1);
  append_matrix(names.experts_down, experts.feed_forward, width_of_rows, false);
  if (experts.bias) append(names.experts_down, Of::kBias, {experts.count, width_of_rows}, 0);
  if (!router_first) AppendRouter(a, names, parameters);
  if (experts.latent > 0) {
    AppendWhole(a, names.latent_down, {experts.latent, a.hidden}, parameters);
    if (experts.latent_norm) AppendWhole(a, names.latent_norm, {experts.latent}, parameters);
    AppendWhole(a, names.latent_up, {a.hidden, experts.latent}, parameters);
  }
  if (experts.shared_feed_forward == 0) return;
  const std::int64_t width = experts.shared_feed_forward;
  if (IsGated(a.activator))
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
  const ModuleNames& names = NamesOf(a);
  Parameters parameters;
  const bool frozen = a.lora.adapts();
  if (a.vocabulary > 0) {
    parameters.push_back(
        {names.embedding, Of::kWeight, {a.vocabulary, a.hidden}, AlongTensor(0), false, frozen});
  }
  AppendInput(a, a.input, InputNamesOf(names, false), parameters);
  AppendInput(a, a.encoder.input, InputNamesOf(names, true), parameters);
  AppendText(a, parameters);
  AppendCondition(a, parameters);
  for (const bool of_encoder : {true, false}) {
    const Architecture* const kind = BiasedByDistance(a, of_encoder);
    if (kind == nullptr) continue;
    parameters.push_back({of_encoder ? names.encoder_distances : names.distances,
                          Of::kWeight,
                          {kind->distance_buckets, kind->heads},
                          AlongTensor(1),
                          false,
                          frozen});
  }
  if (a.position == Position::kLearned) {
    parameters.push_back(
        {names.positions, Of::kWeight, {a.max_positions, a.hidden}, {}, false, frozen});
  }
  if (a.token_types > 0) {
    parameters.push_back({names.token_types, Of::kWeight, {a.token_types, a.hidden}});
  }
  if (!names.embedding_norm.empty()) AppendNorm(a, names.embedding_norm, parameters);
  if (a.layer_input > 0) {
    const std::int64_t rows = a.layers * a.layer_input;
    parameters.push_back(
        {names.layer_table, Of::kWeight, {a.vocabulary, rows}, AlongTensor(0), false, frozen});
    AppendWhole(a, names.layer_projection, {rows, a.hidden}, parameters);
    AppendWhole(a, names.layer_projection_norm, {a.layer_input}, parameters);
  }
  for (const Tower& tower : a.towers) AppendTower(a, tower, parameters);
  return parameters;
}

namespace {

// The linear layers of a block, each with its adapter.
class BlockLayers {
 public:
  BlockLayers(const Architecture& a, const ModuleNames& names, Parameters& parameters)
      : a_(a), names_(names), adapted_(a.lora.targets), parameters_(parameters) {}

  // Tensors of queries, keys and values with their sinks and norms, and of the projection.
  void Attention() {
    if (a_.sinks) {
      parameters_.push_back({names_.sinks,
                             Of::kWeight,
                             {a_.heads},
                             AlongTensor(0),
                             false,
                             a_.lora.adapts(),
                             ParameterGroup::kDense,
                             true});
    }
    if (a_.shared_key.exists()) {
      AppendSharedKey(a_, names_, parameters_);
      AppendLinear(a_, names_.projection, a_.shared_key.output_groups * a_.shared_key.output_rank,
                   a_.hidden, false, Pairing::kRows, parameters_);
      return;
    }
    if (a_.latent.exists()) {
      AppendLatentAttention(a_, names_, parameters_);
      AppendIndexer(a_, names_, parameters_);
    } else if (HasFusedAttention(a_) || HasFusedProjections(a_)) {
      const bool projection_first = TraitsOf(a_).projection_first;
      if (projection_first) Projection();
      OneProduct(names_.linear_qkv);
      if (projection_first) return;
    } else {
      const std::int64_t gate = a_.gate_of_query ? a_.heads * ValueSize(a_) : 0;
      Columns(names_.query, a_.heads * a_.head_size + gate, a_.attention_bias, adapted_.query);
      if (!a_.borrows_keys) {
        Columns(names_.key, a_.kv_heads * a_.head_size, a_.attention_bias && !a_.key_without_bias,
                adapted_.key);
        if (!a_.key_is_value) {
          Columns(names_.value, a_.kv_heads * ValueSize(a_), a_.attention_bias, adapted_.value);
        }
      }
      AppendIndexer(a_, names_, parameters_);
      AppendAdapter(a_, adapted_.linear_qkv, names_.linear_qkv, a_.hidden, ProductWidth(),
                    Pairing::kColumns, parameters_);
    }
    if (a_.output_gate != OutputGate::kNone && !a_.gate_of_query) {
      const std::int64_t each = a_.output_gate == OutputGate::kHead ? 1 : ValueSize(a_);
      Columns(names_.attention_gate, a_.heads * each, false, false);
    }
    Projection();
    if (!a_.qk_norm) return;
    AppendHeadNorm(a_, names_.query_norm, a_.heads, parameters_);
    if (!a_.borrows_keys) AppendHeadNorm(a_, names_.key_norm, a_.kv_heads, parameters_);
  }

  // Tensors of cross-attention and its norm.
  void Cross() {
    const CrossAttention& cross = a_.cross;
    if (!cross.exists()) return;
    const std::int64_t queries = cross.heads * cross.head, keys = cross.kv_heads * cross.head;
    const auto columns = [this](std::string_view module, std::int64_t in, std::int64_t out,
                                bool bias) {
      AppendLinear(a_, module, in, out, bias, Pairing::kColumns, parameters_);
    };
    columns(names_.cross_query, a_.hidden, queries, cross.bias);
    columns(names_.cross_key, cross.width, keys, cross.key_bias);
    columns(names_.cross_value, cross.width, keys, cross.bias);
    AppendLinear(a_, names_.cross_projection, queries, a_.hidden, cross.output_bias, Pairing::kRows,
                 parameters_);
    if (cross.norms) {
      AppendOfHeads(a_, names_.cross_query_norm, Of::kWeight, {queries}, parameters_);
      AppendOfHeads(a_, names_.cross_key_norm, Of::kWeight, {keys}, parameters_);
    }
    AppendNorm(a_, names_.cross_norm, parameters_);
  }

  void Mixer() {
    switch (a_.mixer) {
      case model::Mixer::kAttention:
        return Attention();
      case model::Mixer::kDelta:
        return AppendDeltaRule(a_, names_, parameters_);
      case model::Mixer::kStateSpace:
        return AppendStateSpace(a_, names_, parameters_);
      case model::Mixer::kNone:
        return;
    }
  }

  void FeedForward(bool experts) {
    if (experts && a_.experts.beside_dense) FeedForward(false);
    if (experts) return AppendExperts(a_, names_, parameters_);
    if (a_.feed_forward == 0) return;
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
  std::int64_t ProductWidth() const {
    return (a_.heads + a_.kv_heads) * a_.head_size + a_.kv_heads * ValueSize(a_);
  }
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
  const ModuleNames& names = NamesOf(a);
  Parameters parameters;
  BlockLayers layers(a, names, parameters);
  AppendModulation(a, a.modulation, names.modulation, parameters);
  const bool post_norm = TraitsOf(a).post_norm;
  const bool shares_norm = a.parallel_residual_norms == 1;
  // BertLayer registers attention.self, attention.output, intermediate, output. MegatronBertLayer,
  // GPT-2, MPT and GPT-J have each norm before its layer, GPT-NeoX both norms before all else.
  const bool both_first = TraitsOf(a).norms_first;
  const bool in_order = TraitsOf(a).norms_in_order || both_first;
  if (in_order) AppendNorm(a, names.attention_norm, parameters);
  if (both_first && !shares_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  layers.Mixer();
  layers.Cross();
  if (in_order && !both_first && !shares_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  if (post_norm) AppendNorm(a, names.attention_norm, parameters);
  layers.FeedForward(experts);
  if (post_norm) AppendNorm(a, names.feed_forward_norm, parameters);
  if (in_order || post_norm) return parameters;
  if (a.two_streams) {
    const ModuleNames& of_text = NamesOfText(a);
    BlockLayers second(a, of_text, parameters);
    AppendModulation(a, a.modulation, of_text.modulation, parameters);
    second.Attention();
    second.FeedForward(false);
  }
  // Norms registered after the modules that they run before or after.
  const auto append = [&](std::string_view norm) {
    if (!norm.empty() && !a.norms_without_weights) AppendNorm(a, norm, parameters);
  };
  if (a.mixer != Mixer::kNone) AppendStreams(a, names.streams_attention, parameters);
  if (HasFeedForward(a)) AppendStreams(a, names.streams_feed_forward, parameters);
  // A vector and the weight of a norm.
  const bool banked = a.residual_bank > 0;
  if (banked && a.mixer != Mixer::kNone)
    AppendWhole(a, names.bank_attention, {2, a.hidden}, parameters);
  if (banked && HasFeedForward(a))
    AppendWhole(a, names.bank_feed_forward, {2, a.hidden}, parameters);
  if (a.mixer != Mixer::kNone) {
    append(names.attention_norm);
    append(names.attention_post_norm);
  }
  if (!HasFeedForward(a)) return parameters;
  if (!shares_norm) append(FeedForwardNormOf(a));
  append(names.feed_forward_post_norm);
  if (experts && a.experts.beside_dense) {
    append(names.dense_post_norm);
    append(names.experts_norm);
    append(names.experts_post_norm);
  }
  if (a.layer_input == 0) return parameters;
  AppendWhole(a, names.layer_gate, {a.layer_input, a.hidden}, parameters);
  AppendWhole(a, names.layer_up, {a.hidden, a.layer_input}, parameters);
  append(names.layer_norm);
  return parameters;
}

namespace {

// The weights with which the streams become one before a head.
void AppendStreamsHead(const Architecture& a, std::string_view module, Parameters& parameters) {
  if (a.streams == 0) return;
  AppendWhole(a, module, {a.streams, a.streams * a.hidden}, parameters);
  parameters.push_back({module, Of::kBias, {a.streams + 1}, {}, true, a.lora.adapts()});
}

// Appends the parameters of a module of multi-token prediction, from 1: DeepSeek-V3's layer 61
// (deepseek-ai/DeepSeek-V3, README_WEIGHTS.md), divided as in Megatron-Core
// (megatron/core/transformer/multi_token_prediction.py). DeepSeek-V4's has two smaller products
// instead of one (deepseek-ai/DeepSeek-V4-Flash, inference/model.py, MTPBlock).
void AppendFurtherTokens(const Architecture& a, int number, Parameters& parameters) {
  const ModuleNames& names = NamesOf(a);
  const std::size_t first = parameters.size();
  AppendNorm(a, names.further_embedding_norm, parameters);
  AppendNorm(a, names.further_hidden_norm, parameters);
  if (a.streams > 0) {
    AppendWhole(a, names.further_words, {a.hidden, a.hidden}, parameters);
    AppendWhole(a, names.further_streams, {a.hidden, a.hidden}, parameters);
  } else {
    AppendLinear(a, names.further_projection, 2 * a.hidden, a.hidden, false, Pairing::kColumns,
                 parameters);
  }
  const Parameters block =
      BlockParameters(OfKind(a, KindOfBlock(a, a.layers)), HasExperts(a, a.layers));
  parameters.insert(parameters.end(), block.begin(), block.end());
  AppendStreamsHead(a, names.further_streams_head, parameters);
  AppendNorm(a, names.further_norm, parameters);
  for (std::size_t i = first; i < parameters.size(); ++i) parameters[i].further = number;
}

}  // namespace

std::vector<ModuleParameter> EncoderNorm(const Architecture& a) {
  Parameters parameters;
  AppendNorm(a, NamesOf(a).encoder_norm, parameters);
  return parameters;
}

std::vector<ModuleParameter> HeadParameters(const Architecture& a) {
  const ModuleNames& names = NamesOf(a);
  Parameters parameters;
  if (a.further_tokens > 0) {
    parameters.push_back({names.embedding,
                          Of::kWeight,
                          {a.vocabulary, a.hidden},
                          AlongTensor(0),
                          false,
                          a.lora.adapts()});
    const auto modules = a.further_repeated ? 1 : static_cast<int>(a.further_tokens);
    for (int i = 1; i <= modules; ++i) AppendFurtherTokens(a, i, parameters);
  }
  AppendStreamsHead(a, names.streams_head, parameters);
  if (a.residual_bank > 0) AppendWhole(a, names.bank_head, {2, a.hidden}, parameters);
  if (!TraitsOf(a).post_norm && !a.norms_without_weights) {
    AppendNorm(a, names.final_norm, parameters);
  }
  AppendModulation(a, a.modulation, names.head_modulation, parameters);
  if (TraitsOf(a).encoder) {
    // Each rank of a tensor-parallel group holds these whole
    // (megatron/core/models/bert/bert_lm_head.py, pooler.py), except for the last product and its
    // bias.
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
  if (a.prediction.target != Target::kWords) {
    if (a.prediction.count == 0) return parameters;
    const bool frozen = a.lora.adapts();
    parameters.push_back(
        {names.head, Of::kWeight, {a.prediction.count, a.hidden}, {}, false, frozen});
    if (a.prediction.bias) {
      parameters.push_back({names.head, Of::kBias, {a.prediction.count}, {}, false, frozen});
    }
    return parameters;
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
  const ModuleNames& names = NamesOf(a);
  TransformerLayout layout;
  const auto append = [&layout](Layer& layer, std::string_view prefix, ModuleParameter parameter) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : parameter.shape) elements *= extent;
    const bool of_block = layer.kind == LayerKind::kBlock || parameter.further > 0;
    std::vector<int>& indices = parameter.frozen ? layer.frozen : layer.tensors;
    std::vector<Tensor>& tensors = parameter.frozen ? layout.frozen : layout.tensors;
    indices.push_back(static_cast<int>(tensors.size()));
    std::string name = TensorName(prefix, parameter);
    tensors.push_back({std::move(name), std::move(parameter.shape), elements,
                       std::move(parameter.splits), parameter.group, parameter.sequence_parallel,
                       of_block});
  };

  Layer embedding{.name = std::string(a.vocabulary > 0 ? names.embedding : names.input),
                  .kind = LayerKind::kEmbedding,
                  .tensors = {}};
  for (ModuleParameter& parameter : EmbeddingParameters(a)) {
    append(embedding, "", std::move(parameter));
  }
  const bool frozen = a.lora.adapts();
  const int embedding_weight = (frozen ? embedding.frozen : embedding.tensors).front();
  layout.layers.push_back(std::move(embedding));

  // [kind] or, without kinds, parameters of dense blocks and of blocks with experts.
  std::vector<Parameters> by_kind;
  for (std::size_t k = 0; k < a.kinds.size(); ++k) {
    by_kind.push_back(BlockParameters(OfKind(a, static_cast<int>(k)), a.kinds[k].experts.exist()));
  }
  if (a.kinds.empty()) {
    by_kind.push_back(BlockParameters(a));
    if (a.experts.exist()) by_kind.push_back(BlockParameters(a, true));
  }
  for (std::int64_t i = 0; i < a.layers; ++i) {
    const bool encodes = i < a.encoder.layers;
    Layer block{.name = fmt::format("{}.{}", encodes ? names.encoder_blocks : names.blocks,
                                    encodes ? i : i - a.encoder.layers),
                .kind = LayerKind::kBlock,
                .tensors = {},
                .first_block = i == 0,
                .experts = HasExperts(a, i),
                .full_attention = AttendsInFull(a, i),
                .block_kind = KindOfBlock(a, i),
                .ends_encoder = i + 1 == a.encoder.layers};
    const std::string prefix = block.name + ".";
    const std::size_t kind = block.block_kind >= 0 ? static_cast<std::size_t>(block.block_kind)
                             : block.experts       ? 1
                                                   : 0;
    for (const ModuleParameter& parameter : by_kind[kind]) {
      append(block, prefix, parameter);
    }
    if (block.ends_encoder) {
      for (const ModuleParameter& parameter : EncoderNorm(a)) append(block, "", parameter);
    }
    layout.layers.push_back(std::move(block));
  }

  Layer head{.name = std::string(names.head), .kind = LayerKind::kHead, .tensors = {}};
  for (ModuleParameter& parameter : HeadParameters(a)) {
    if (parameter.module == names.embedding) {
      (frozen ? head.frozen : head.tensors).push_back(embedding_weight);
    } else {
      const int further = parameter.further;
      append(head, further > 0 ? fmt::format("{}.{}.", names.blocks, a.layers + further - 1) : "",
             std::move(parameter));
    }
  }
  layout.layers.push_back(std::move(head));
  return layout;
}

}  // namespace stepcast::model
