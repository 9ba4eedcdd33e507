#include "src/model/transformer_tensors.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/model/end_tensors.h"
#include "src/model/parameter_list.h"

namespace stepcast::model {
namespace {

using Of = ModuleParameter::Of;

// Linear layers come in pairs: the first is divided by its outputs, the second by its inputs, so
// that the values between them stay on one rank (Shoeybi et al. 2019, arXiv 1909.08053).
enum class Pairing : std::uint8_t { kColumns, kRows };

// The parameters of a layer: of a block, of the embedding or of the head.
class LayerParameters : public ParameterList {
 public:
  explicit LayerParameters(const Architecture& a) : LayerParameters(a, NamesOf(a)) {}
  LayerParameters(const Architecture& a, const ModuleNames& names)
      : ParameterList(a), names_(names), adapted_(a.lora.targets) {}

  // nn.Linear stores its weight as [out, in], GPT-2's Conv1D as [in, out].
  void Linear(std::string_view module, std::int64_t in, std::int64_t out, bool bias,
              Pairing pairing) {
    Shape shape{out, in};
    const bool by_outputs = pairing == Pairing::kColumns;
    int divided = by_outputs ? 0 : 1;
    if (TraitsOf(a_).weights_by_input) {
      std::swap(shape[0], shape[1]);
      divided = 1 - divided;
    }
    AddDivided(module, std::move(shape), Of::kWeight, false, divided);
    if (!bias) return;
    // For a row-parallel layer the bias is added to the sum.
    by_outputs ? AddDivided(module, {out}, Of::kBias) : AddWhole(module, {out}, Of::kBias);
  }

  void Norm(std::string_view module) {
    AddWhole(module, {a_.hidden});
    if (a_.norm_bias) AddWhole(module, {a_.hidden}, Of::kBias);
  }

  // A token mixer's tensors.
  void Mixer(model::Mixer mixer) {
    switch (mixer) {
      case model::Mixer::kAttention:
        return Attention();
      case model::Mixer::kDelta:
        return DeltaRule();
      case model::Mixer::kStateSpace:
        return StateSpace();
      case model::Mixer::kShortConv:
        return ShortConvolution();
      case model::Mixer::kSelectiveScan:
        return SelectiveScan();
      case model::Mixer::kDecay:
        return DecayAttention();
      case model::Mixer::kNone:
        return;
    }
  }

  // Tensors of queries, keys and values with their sinks and norms, and of the projection.
  void Attention() {
    if (a_.sinks) AddDivided(names_.sinks, {a_.heads}, Of::kWeight, true);
    if (a_.shared_key.exists()) {
      SharedKey();
      Linear(names_.projection, a_.shared_key.output_groups * a_.shared_key.output_rank, a_.hidden,
             false, Pairing::kRows);
      return;
    }
    if (a_.latent.exists()) {
      LatentAttention();
      Indexer();
    } else if (HasFusedAttention(a_) || HasFusedProjections(a_)) {
      const bool projection_first = TraitsOf(a_).projection_first;
      if (projection_first) Projection();
      AdaptedColumns(names_.linear_qkv, ProductWidth(), a_.attention_bias, adapted_.linear_qkv);
      if (projection_first) return;
    } else {
      const std::int64_t gate = a_.gate_of_query ? a_.heads * ValueSize(a_) : 0;
      AdaptedColumns(names_.query, a_.heads * a_.head_size + gate, a_.attention_bias,
                     adapted_.query);
      if (!a_.borrows_keys) {
        AdaptedColumns(names_.key, a_.kv_heads * a_.head_size,
                       a_.attention_bias && !a_.key_without_bias, adapted_.key);
        if (!a_.key_is_value) {
          AdaptedColumns(names_.value, a_.kv_heads * ValueSize(a_), a_.attention_bias,
                         adapted_.value);
        }
      }
      Indexer();
      Adapter(adapted_.linear_qkv, names_.linear_qkv, a_.hidden, ProductWidth(), Pairing::kColumns);
    }
    if (a_.output_gate != OutputGate::kNone && !a_.gate_of_query) {
      const std::int64_t each = a_.output_gate == OutputGate::kHead ? 1 : ValueSize(a_);
      Columns(names_.attention_gate, a_.hidden, a_.heads * each);
    }
    Projection();
    if (!a_.qk_norm) return;
    HeadNorm(names_.query_norm, a_.heads);
    if (!a_.borrows_keys) HeadNorm(names_.key_norm, a_.kv_heads);
  }

  // Tensors of cross-attention and its norm.
  void Cross() {
    const CrossAttention& cross = a_.cross;
    if (!cross.exists()) return;
    const std::int64_t queries = cross.heads * cross.head, keys = cross.kv_heads * cross.head;
    Linear(names_.cross_query, a_.hidden, queries, cross.bias, Pairing::kColumns);
    Linear(names_.cross_key, cross.width, keys, cross.key_bias, Pairing::kColumns);
    Linear(names_.cross_value, cross.width, keys, cross.bias, Pairing::kColumns);
    Linear(names_.cross_projection, queries, a_.hidden, cross.output_bias, Pairing::kRows);
    if (cross.norms) {
      AddDivided(names_.cross_query_norm, {queries});
      AddDivided(names_.cross_key_norm, {keys});
    }
    Norm(names_.cross_norm);
  }

  void FeedForward(bool experts) {
    if (experts && a_.experts.beside_dense) FeedForward(false);
    if (experts) return MixtureOfExperts();
    if (a_.feed_forward == 0) return;
    const bool gated = IsGated(a_.activator), bias = a_.feed_forward_bias;
    if (HasFusedGate(a_)) {
      AdaptedColumns(names_.linear_fc1, 2 * a_.feed_forward, bias, adapted_.linear_fc1);
    } else {
      if (gated) AdaptedColumns(names_.gate, a_.feed_forward, bias, adapted_.gate);
      AdaptedColumns(names_.up, a_.feed_forward, bias,
                     adapted_.up || (!gated && adapted_.linear_fc1));
      Adapter(gated && adapted_.linear_fc1, names_.linear_fc1, a_.hidden, 2 * a_.feed_forward,
              Pairing::kColumns);
    }
    AdaptedRows(names_.down, a_.feed_forward, bias, adapted_.down);
    if (a_.activator == Activator::kXielu) AddCopied(names_.activator, {2});
  }

  // One site of hyper-connections: weights into and out of each stream and between streams, with
  // addends and three factors.
  void Streams(std::string_view module) {
    if (a_.streams == 0) return;
    const std::int64_t numbers = a_.streams * (a_.streams + 2);
    AddWhole(module, {numbers, a_.streams * a_.hidden});
    AddWhole(module, {numbers + 3}, Of::kBias);
  }
  // The weights with which the streams become one before a head.
  void StreamsHead(std::string_view module) {
    if (a_.streams == 0) return;
    AddWhole(module, {a_.streams, a_.streams * a_.hidden});
    AddWhole(module, {a_.streams + 1}, Of::kBias);
  }

  // A module of multi-token prediction, from 1: DeepSeek-V3's layer 61 (deepseek-ai/DeepSeek-V3,
  // README_WEIGHTS.md), divided as in Megatron-Core
  // (megatron/core/transformer/multi_token_prediction.py). DeepSeek-V4's has two smaller products
  // instead of one (deepseek-ai/DeepSeek-V4-Flash, inference/model.py, MTPBlock).
  void FurtherTokens(int number) {
    const std::size_t first = list().size();
    Norm(names_.further_embedding_norm);
    Norm(names_.further_hidden_norm);
    if (a_.streams > 0) {
      AddWhole(names_.further_words, {a_.hidden, a_.hidden});
      AddWhole(names_.further_streams, {a_.hidden, a_.hidden});
    } else {
      Columns(names_.further_projection, 2 * a_.hidden, a_.hidden);
    }
    Append(BlockParameters(OfKind(a_, KindOfBlock(a_, a_.layers)), HasExperts(a_, a_.layers)));
    StreamsHead(names_.further_streams_head);
    Norm(names_.further_norm);
    for (std::size_t i = first; i < list().size(); ++i) list()[i].further = number;
  }

 private:
  // The first matrix is divided like the linear layer, by outputs or by inputs; the second one by
  // outputs (NVIDIA/NeMo, nemo/collections/llm/peft/utils.py, ParallelLinearAdapter).
  void Adapter(bool adapted, std::string_view module, std::int64_t in, std::int64_t out,
               Pairing pairing) {
    if (!a_.lora.adapts() || !adapted) return;
    AddDivided(module, {a_.lora.rank, in}, Of::kLoraA, false, pairing == Pairing::kColumns ? 0 : 1);
    AddDivided(module, {out, a_.lora.rank}, Of::kLoraB);
    for (std::size_t i = list().size() - 2; i < list().size(); ++i) list()[i].frozen = false;
  }
  void Columns(std::string_view module, std::int64_t in, std::int64_t out) {
    Linear(module, in, out, false, Pairing::kColumns);
  }
  void AdaptedColumns(std::string_view module, std::int64_t out, bool bias, bool adapted) {
    Linear(module, a_.hidden, out, bias, Pairing::kColumns);
    Adapter(adapted, module, a_.hidden, out, Pairing::kColumns);
  }
  void AdaptedRows(std::string_view module, std::int64_t in, bool bias, bool adapted) {
    Linear(module, in, a_.hidden, bias, Pairing::kRows);
    Adapter(adapted, module, in, a_.hidden, Pairing::kRows);
  }
  std::int64_t ProductWidth() const {
    return (a_.heads + a_.kv_heads) * a_.head_size + a_.kv_heads * ValueSize(a_);
  }
  void Projection() {
    AdaptedRows(names_.projection, a_.heads * ValueSize(a_), a_.projection_bias,
                adapted_.projection);
  }

  // One weight for each element of a head, shared by all heads. A rank has some of the heads, and
  // its gradient covers only those, like the gradients of other norms cover a part of the tokens.
  void HeadNorm(std::string_view module, std::int64_t heads) {
    if (a_.norms_all_heads) {
      AddDivided(module, {heads * a_.head_size});
    } else if (!a_.weightless_norms) {
      AddWhole(module, {a_.head_size});
    }
  }

  // Down-projections are whole on every rank and applied to its part of the tokens; up-projections
  // are divided by heads (Megatron-Core, megatron/core/transformer/multi_latent_attention.py).
  void LatentAttention() {
    const model::LatentAttention& latent = a_.latent;
    const auto down = [&](std::string_view module, std::string_view norm, std::int64_t width,
                          std::int64_t rank) {
      AddWhole(module, {width, a_.hidden});
      AddWhole(norm, {rank});
    };
    const std::int64_t query = a_.heads * a_.head_size;
    if (latent.query_rank > 0) {
      down(names_.query_down, names_.query_latent_norm, latent.query_rank, latent.query_rank);
      Columns(names_.query_up, latent.query_rank, query);
    } else {
      Columns(names_.query, a_.hidden, query);
    }
    down(names_.kv_down, names_.kv_latent_norm, latent.kv_rank + latent.rotary_head,
         latent.kv_rank);
    Columns(names_.kv_up, latent.kv_rank, a_.heads * (latent.plain_head + latent.value_head));
  }

  // The indexer is whole on every rank (Megatron-Core,
  // megatron/core/transformer/experimental_attention_variant/dsa.py).
  void Indexer() {
    const model::Indexer& index = a_.indexer;
    if (!index.exists() || index.shared) return;
    const std::int64_t in = index.from_query_rank ? a_.latent.query_rank : a_.hidden;
    AddWhole(names_.index_query, {index.heads * index.head, in});
    AddWhole(names_.index_key, {index.head, a_.hidden});
    AddWhole(names_.index_key_norm, {index.head});
    if (index.weighs_heads) {
      AddWhole(names_.index_key_norm, {index.head}, Of::kBias);
      AddWhole(names_.index_weights, {index.heads, a_.hidden});
    } else {
      AddWhole(names_.index_query_norm, {index.head});
    }
  }

  // A compressor: a product of values and a product of their weights, for each overlapping vector.
  void Compressor(std::string_view product, std::string_view positions, std::string_view norm,
                  std::int64_t width) {
    const SharedKeyValue& shared = a_.shared_key;
    const std::int64_t wide = shared.overlap * width;
    AddWhole(product, {2 * wide, a_.hidden});
    AddWhole(positions, {shared.compressed, wide}, Of::kWeight, true);
    AddWhole(norm, {width});
  }

  // The vectors are whole on every rank; heads and groups of heads are divided.
  void SharedKey() {
    const SharedKeyValue& shared = a_.shared_key;
    const std::int64_t width = a_.heads * a_.head_size;
    AddWhole(names_.query_down, {shared.query_rank, a_.hidden});
    AddWhole(names_.query_latent_norm, {shared.query_rank});
    Columns(names_.query_up, shared.query_rank, width);
    AddWhole(names_.shared_key, {a_.head_size, a_.hidden});
    AddWhole(names_.shared_key_norm, {a_.head_size});
    AddDivided(names_.output_down,
               {shared.output_groups * shared.output_rank, width / shared.output_groups});
    if (shared.compressed == 0) return;
    Compressor(names_.compress, names_.compress_positions, names_.compress_norm, a_.head_size);
    if (!a_.indexer.exists()) return;
    Compressor(names_.index_compress, names_.index_compress_positions, names_.index_compress_norm,
               a_.indexer.head);
    AddWhole(names_.index_query, {a_.indexer.heads * a_.indexer.head, shared.query_rank});
    AddWhole(names_.index_weights, {a_.indexer.heads, a_.hidden});
  }

  // Divided by heads, as in Megatron-Core (megatron/core/ssm/gated_delta_net.py).
  void DeltaRule() {
    const model::DeltaRule& delta = a_.delta;
    const std::int64_t keys = delta.keys(), values = delta.values();
    const auto constants = [&](std::int64_t decays) {
      AddDivided(names_.delta_bias, {decays}, Of::kWeight, true);
      AddDivided(names_.delta_a, {delta.value_heads}, Of::kWeight, true);
    };
    const auto conv = [&](std::string_view module, std::int64_t channels) {
      Convolution(module, channels, delta.conv, false);
    };
    if (!delta.by_channel) {
      constants(delta.value_heads);
      conv(names_.delta_conv, 2 * keys + values);
      Columns(names_.delta_in, a_.hidden, 2 * keys + 2 * values);
      Columns(names_.delta_decay_beta, a_.hidden, 2 * delta.value_heads);
    } else {
      Columns(names_.delta_query, a_.hidden, keys);
      Columns(names_.delta_key, a_.hidden, keys);
      Columns(names_.delta_value, a_.hidden, values);
      conv(names_.delta_query_conv, keys);
      conv(names_.delta_key_conv, keys);
      conv(names_.delta_value_conv, values);
      constants(keys);
      AddWhole(names_.delta_decay_down, {delta.decay_rank, a_.hidden});
      Columns(names_.delta_decay_up, delta.decay_rank, keys);
      Columns(names_.delta_beta, a_.hidden, delta.value_heads);
      if (delta.gate_rank > 0) AddWhole(names_.delta_gate_down, {delta.gate_rank, a_.hidden});
      Columns(names_.delta_gate_up, delta.gate_rank > 0 ? delta.gate_rank : a_.hidden, values);
    }
    AddWhole(names_.delta_norm, {delta.value});
    Linear(names_.delta_out, values, a_.hidden, false, Pairing::kRows);
  }

  void Convolution(std::string_view module, std::int64_t channels, std::int64_t width, bool bias) {
    AddDivided(module, {channels, 1, width});
    if (bias) AddDivided(module, {channels}, Of::kBias);
  }

  // Divided by channels.
  void ShortConvolution() {
    const model::ShortConvolution& conv = a_.short_conv;
    Convolution(names_.short_conv, a_.hidden, conv.conv, conv.bias);
    Linear(names_.short_in, a_.hidden, 3 * a_.hidden, conv.bias, Pairing::kColumns);
    Linear(names_.short_out, a_.hidden, a_.hidden, conv.bias, Pairing::kRows);
  }

  // Not divided: no framework has tensor parallelism for these two mixers.
  void SelectiveScan() {
    const model::SelectiveScan& scan = a_.selective_scan;
    AddCopied(names_.state_a, {scan.inner, scan.state}, Of::kWeight, true);
    AddCopied(names_.state_d, {scan.inner}, Of::kWeight, true);
    Convolution(names_.state_conv, scan.inner, scan.conv, scan.conv_bias);
    Linear(names_.state_in, a_.hidden, 2 * scan.inner, scan.projection_bias, Pairing::kColumns);
    Columns(names_.scan_inputs, scan.inner, scan.rank + 2 * scan.state);
    Linear(names_.scan_time, scan.rank, scan.inner, true, Pairing::kColumns);
    Linear(names_.state_out, scan.inner, a_.hidden, scan.projection_bias, Pairing::kRows);
    if (!scan.norms) return;
    AddCopied(names_.scan_time_norm, {scan.rank});
    AddCopied(names_.scan_b_norm, {scan.state});
    AddCopied(names_.scan_c_norm, {scan.state});
  }
  void DecayAttention() {
    const std::int64_t width = a_.decay.inner();
    AddCopied(names_.decay_norm, {width});
    Columns(names_.decay_in, a_.hidden, 3 * width);
    Linear(names_.decay_out, width, a_.hidden, false, Pairing::kRows);
    Columns(names_.decay_gate, a_.hidden, width);
  }

  // Divided by heads and groups, as in Megatron-Core (megatron/core/ssm/mamba_mixer.py).
  void StateSpace() {
    const model::StateSpace& state = a_.state_space;
    for (const std::string_view module : {names_.state_bias, names_.state_a, names_.state_d}) {
      AddDivided(module, {state.heads}, Of::kWeight, true);
    }
    Convolution(names_.state_conv, state.convolved(), state.conv, state.conv_bias);
    Linear(names_.state_in, a_.hidden, state.inner() + state.convolved() + state.heads,
           state.projection_bias, Pairing::kColumns);
    if (state.norm) AddDivided(names_.state_norm, {state.inner()});
    Linear(names_.state_out, state.inner(), a_.hidden, state.projection_bias, Pairing::kRows);
  }

  // Each rank routes its own tokens.
  void Router() {
    const std::int64_t count = a_.experts.count;
    AddWhole(names_.router, {count, a_.hidden});
    if (a_.experts.router_bias) AddWhole(names_.router, {count}, Of::kBias);
    if (!a_.experts.beside_dense) return;
    AddWhole(names_.router_scale, {a_.hidden}, Of::kWeight, true);
    AddWhole(names_.expert_scale, {count}, Of::kWeight, true);
  }

  // The experts' matrices are one tensor each, [E, 2f, h] and [E, h, f], as in transformers 5
  // (integrations/moe.py). Ranks have different experts, and perhaps a part of each.
  void MixtureOfExperts() {
    const Experts& experts = a_.experts;
    const auto append = [&](std::string_view module, Of of, Shape shape, int divided) {
      std::vector<Split> splits{{.axis = parallel::Axis::kExpertOuter, .dimension = 0},
                                {.axis = parallel::Axis::kExpertInner, .dimension = 0}};
      if (divided > 0)
        splits.push_back({.axis = parallel::Axis::kExpertTensor, .dimension = divided});
      Add(module, of, std::move(shape), std::move(splits), false, true, ParameterGroup::kExperts);
    };
    const bool by_input = TraitsOf(a_).experts_by_input;
    const auto append_matrix = [&](std::string_view module, std::int64_t in, std::int64_t out,
                                   bool by_outputs) {
      Shape shape{experts.count, out, in};
      if (by_input) std::swap(shape[1], shape[2]);
      append(module, Of::kWeight, std::move(shape), by_outputs != by_input ? 1 : 2);
    };
    const bool router_first = TraitsOf(a_).router_first;
    if (router_first) Router();
    const std::int64_t width_of_rows = experts.latent > 0 ? experts.latent : a_.hidden;
    const std::int64_t first = (IsGated(a_.activator) ? 2 : 1) * experts.feed_forward;
    append_matrix(names_.experts_gate_up, width_of_rows, first, true);
    if (experts.bias) append(names_.experts_gate_up, Of::kBias, {experts.count, first}, 1);
    append_matrix(names_.experts_down, experts.feed_forward, width_of_rows, false);
    if (experts.bias) append(names_.experts_down, Of::kBias, {experts.count, width_of_rows}, 0);
    if (!router_first) Router();
    if (experts.latent > 0) {
      AddWhole(names_.latent_down, {experts.latent, a_.hidden});
      if (experts.latent_norm) AddWhole(names_.latent_norm, {experts.latent});
      AddWhole(names_.latent_up, {a_.hidden, experts.latent});
    }
    if (experts.shared_feed_forward == 0) return;
    const std::int64_t width = experts.shared_feed_forward;
    if (IsGated(a_.activator)) Columns(names_.shared_gate, a_.hidden, width);
    Columns(names_.shared_up, a_.hidden, width);
    Linear(names_.shared_down, width, a_.hidden, false, Pairing::kRows);
    if (experts.shared_gate) AddWhole(names_.shared_expert_gate, {1, a_.hidden});
  }

  const ModuleNames& names_;
  const AdaptedLayers& adapted_;
};

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
  LayerParameters parameters(a);
  if (a.vocabulary > 0) parameters.AddDivided(names.embedding, {a.vocabulary, a.hidden});
  AppendInput(a.input, InputNamesOf(names, false), parameters);
  AppendInput(a.encoder.input, InputNamesOf(names, true), parameters);
  AppendText(parameters);
  AppendCondition(parameters);
  for (const bool of_encoder : {true, false}) {
    const Architecture* const kind = BiasedByDistance(a, of_encoder);
    if (kind == nullptr) continue;
    parameters.AddDivided(of_encoder ? names.encoder_distances : names.distances,
                          {kind->distance_buckets, kind->heads}, Of::kWeight, false, 1);
  }
  if (a.position == Position::kLearned) {
    parameters.AddCopied(names.positions, {a.max_positions, a.hidden});
  }
  if (a.token_types > 0) parameters.AddCopied(names.token_types, {a.token_types, a.hidden});
  if (!names.embedding_norm.empty()) parameters.Norm(names.embedding_norm);
  if (a.layer_input > 0) {
    const std::int64_t rows = a.layers * a.layer_input;
    parameters.AddDivided(names.layer_table, {a.vocabulary, rows});
    parameters.AddWhole(names.layer_projection, {rows, a.hidden});
    parameters.AddWhole(names.layer_projection_norm, {a.layer_input});
  }
  for (const Tower& tower : a.towers) AppendTower(tower, parameters);
  return parameters.Take();
}

std::vector<ModuleParameter> BlockParameters(const Architecture& a, bool experts) {
  const ModuleNames& names = NamesOf(a);
  LayerParameters parameters(a);
  AppendModulation(names.modulation, parameters);
  const bool post_norm = TraitsOf(a).post_norm;
  const bool shares_norm = a.parallel_residual_norms == 1;
  // BertLayer registers attention.self, attention.output, intermediate, output. MegatronBertLayer,
  // GPT-2, MPT and GPT-J have each norm before its layer, GPT-NeoX both norms before all else.
  const bool both_first = TraitsOf(a).norms_first;
  const bool in_order = TraitsOf(a).norms_in_order || both_first;
  if (in_order) parameters.Norm(names.attention_norm);
  if (both_first && !shares_norm) parameters.Norm(names.feed_forward_norm);
  parameters.Mixer(a.mixer);
  parameters.Mixer(a.beside);
  parameters.Cross();
  if (in_order && !both_first && !shares_norm) parameters.Norm(names.feed_forward_norm);
  if (post_norm) parameters.Norm(names.attention_norm);
  parameters.FeedForward(experts);
  if (post_norm) parameters.Norm(names.feed_forward_norm);
  if (in_order || post_norm) return parameters.Take();
  if (a.two_streams) {
    LayerParameters second(a, NamesOfText(a));
    AppendModulation(NamesOfText(a).modulation, second);
    second.Attention();
    second.FeedForward(false);
    parameters.Append(second.Take());
  }
  // Norms registered after the modules that they run before or after.
  const auto append = [&](std::string_view norm) {
    if (!norm.empty() && !a.norms_without_weights) parameters.Norm(norm);
  };
  if (a.mixer != Mixer::kNone) parameters.Streams(names.streams_attention);
  if (HasFeedForward(a)) parameters.Streams(names.streams_feed_forward);
  // A vector and the weight of a norm.
  const bool banked = a.residual_bank > 0;
  if (banked && a.mixer != Mixer::kNone) parameters.AddWhole(names.bank_attention, {2, a.hidden});
  if (banked && HasFeedForward(a)) parameters.AddWhole(names.bank_feed_forward, {2, a.hidden});
  if (a.mixer != Mixer::kNone) {
    append(names.attention_norm);
    append(names.attention_post_norm);
  }
  if (!HasFeedForward(a)) return parameters.Take();
  if (!shares_norm) append(FeedForwardNormOf(a));
  append(names.feed_forward_post_norm);
  if (experts && a.experts.beside_dense) {
    append(names.dense_post_norm);
    append(names.experts_norm);
    append(names.experts_post_norm);
  }
  if (a.layer_input == 0) return parameters.Take();
  parameters.AddWhole(names.layer_gate, {a.layer_input, a.hidden});
  parameters.AddWhole(names.layer_up, {a.hidden, a.layer_input});
  append(names.layer_norm);
  return parameters.Take();
}

std::vector<ModuleParameter> EncoderNorm(const Architecture& a) {
  LayerParameters parameters(a);
  parameters.Norm(NamesOf(a).encoder_norm);
  return parameters.Take();
}

std::vector<ModuleParameter> HeadParameters(const Architecture& a) {
  const ModuleNames& names = NamesOf(a);
  LayerParameters parameters(a);
  if (a.further_tokens > 0) {
    parameters.AddDivided(names.embedding, {a.vocabulary, a.hidden});
    const auto modules = a.further_repeated ? 1 : static_cast<int>(a.further_tokens);
    for (int i = 1; i <= modules; ++i) parameters.FurtherTokens(i);
  }
  parameters.StreamsHead(names.streams_head);
  if (a.residual_bank > 0) parameters.AddWhole(names.bank_head, {2, a.hidden});
  if (!TraitsOf(a).post_norm && !a.norms_without_weights) parameters.Norm(names.final_norm);
  AppendModulation(names.head_modulation, parameters);
  if (TraitsOf(a).encoder) {
    // Each rank of a tensor-parallel group holds these whole
    // (megatron/core/models/bert/bert_lm_head.py, pooler.py), except for the last product and its
    // bias.
    if (a.next_sentence) parameters.AddCopiedLinear(names.pooler, a.hidden, a.hidden);
    parameters.AddDivided(names.predictions, {a.vocabulary}, Of::kBias);
    parameters.AddCopiedLinear(names.head_dense, a.hidden, a.hidden);
    parameters.Norm(names.head_norm);
    if (a.next_sentence) {
      parameters.AddCopiedLinear(names.next_sentence, a.hidden, kSentenceClasses);
    }
  }
  if (a.prediction.target != Target::kWords) {
    if (a.prediction.count == 0) return parameters.Take();
    parameters.AddCopied(names.head, {a.prediction.count, a.hidden});
    if (a.prediction.bias) parameters.AddCopied(names.head, {a.prediction.count}, Of::kBias);
    return parameters.Take();
  }
  // The head is an nn.Linear in every family.
  parameters.AddDivided(a.tie_embeddings ? names.embedding : names.head, {a.vocabulary, a.hidden});
  if (a.head_bias) parameters.AddDivided(names.head, {a.vocabulary}, Of::kBias);
  return parameters.Take();
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
  std::vector<std::vector<ModuleParameter>> by_kind;
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
