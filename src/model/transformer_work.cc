#include "src/model/transformer_work.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/model/adapter_operators.h"
#include "src/model/latent_attention_operators.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/mixture_operators.h"
#include "src/model/module_names.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// Generation of FlashAttention whose values may be narrower than its queries and keys.
constexpr int kFirstWithNarrowValues = 3;

// Names of what the families' code writes without a module.
struct CoreNames {
  std::string_view core, query_rotary, key_rotary, key_repeat, value_repeat;
  std::string_view attention_dropout, attention_residual, product, dropout, residual;
  std::string_view query_key_value, gate_up;  // products of several modules
};

constexpr CoreNames kGpt2CoreNames = {.core = "attn.core",
                                      .query_rotary = "attn.rotary_query",
                                      .key_rotary = "attn.rotary_key",
                                      .key_repeat = "attn.repeat_key",
                                      .value_repeat = "attn.repeat_value",
                                      .attention_dropout = "attn.resid_dropout",
                                      .attention_residual = "attn.residual",
                                      .product = "mlp.product",
                                      .dropout = "mlp.dropout",
                                      .residual = "mlp.residual",
                                      .query_key_value = "attn.qkv",
                                      .gate_up = "mlp.gate_up"};
constexpr CoreNames kMptCoreNames = {.core = "attn.core",
                                     .query_rotary = "",
                                     .key_rotary = "",
                                     .key_repeat = "attn.repeat_key",
                                     .value_repeat = "attn.repeat_value",
                                     .attention_dropout = "resid_attn_dropout",
                                     .attention_residual = "attn.residual",
                                     .product = "",
                                     .dropout = "resid_ffn_dropout",
                                     .residual = "ffn.residual",
                                     .query_key_value = "",
                                     .gate_up = ""};
constexpr CoreNames kLlamaCoreNames = {.core = "self_attn.core",
                                       .query_rotary = "self_attn.rotary_query",
                                       .key_rotary = "self_attn.rotary_key",
                                       .key_repeat = "self_attn.repeat_key",
                                       .value_repeat = "self_attn.repeat_value",
                                       .attention_dropout = "self_attn.dropout",
                                       .attention_residual = "self_attn.residual",
                                       .product = "mlp.product",
                                       .dropout = "mlp.dropout",
                                       .residual = "mlp.residual",
                                       .query_key_value = "self_attn.qkv_proj",
                                       .gate_up = "mlp.gate_up_proj"};

constexpr CoreNames kBertCoreNames = {.core = "attention.self.core",
                                      .query_rotary = "",
                                      .key_rotary = "",
                                      .key_repeat = "",
                                      .value_repeat = "",
                                      .attention_dropout = "attention.output.dropout",
                                      .attention_residual = "attention.output.residual",
                                      .product = "",
                                      .dropout = "output.dropout",
                                      .residual = "output.residual",
                                      .query_key_value = "attention.self.query_key_value",
                                      .gate_up = ""};

const CoreNames& CoreNamesOf(Family family) {
  if (family == Family::kGpt2 || family == Family::kGptj) return kGpt2CoreNames;
  if (family == Family::kMpt) return kMptCoreNames;
  if (IsEncoder(family)) return kBertCoreNames;
  return kLlamaCoreNames;
}

// Positions are those of parameters that are trained.
template <typename Visit>
void ForEachOf(const std::vector<ModuleParameter>& parameters, std::string_view module,
               const Visit& visit) {
  int position = 0;
  for (const ModuleParameter& parameter : parameters) {
    if (parameter.module == module) visit(parameter.of, parameter.frozen ? -1 : position);
    if (!parameter.frozen) ++position;
  }
}

ModulePositions Find(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  using Of = ModuleParameter::Of;
  ModulePositions positions;
  ForEachOf(parameters, module, [&](Of of, int position) {
    if (of == Of::kWeight) {
      positions.weight = position;
      positions.frozen = position < 0;
    } else if (of == Of::kBias) {
      positions.bias = position;
      positions.frozen_bias = position < 0;
    }
  });
  STEPCAST_CHECK(positions.weight >= 0 || positions.frozen, "a module without a weight");
  return positions;
}

// Of a name that is no module's, without a weight: what a module's product makes beside what bears
// its name, or a norm without weights.
ModulePositions FindIfAny(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  for (const ModuleParameter& parameter : parameters) {
    if (parameter.module == module) return Find(parameters, module);
  }
  return {.frozen = true};
}

// Nothing: the module has none.
std::optional<AdapterModule> FindAdapter(const std::vector<ModuleParameter>& parameters,
                                         std::string_view module) {
  AdapterModule adapter{.name = module};
  ForEachOf(parameters, module, [&](ModuleParameter::Of of, int position) {
    if (of == ModuleParameter::Of::kLoraA) adapter.a = {.weight = position};
    if (of == ModuleParameter::Of::kLoraB) adapter.b = {.weight = position};
  });
  return adapter.a.weight >= 0 ? std::optional(adapter) : std::nullopt;
}

WorkOptions WithoutQuantization(WorkOptions options) {
  if (IsQuantized(options.compute)) options.compute = ActivationType(options.compute);
  return options;
}

class Block {
 public:
  // `parameters`: of the layer that the block is, or is in. All that is given must outlive the
  // tape's Finish, as the block must.
  Block(const Architecture& architecture, const WorkOptions& options, const LayerVariant& variant,
        const std::vector<ModuleParameter>& parameters, LayerTape& tape, LayerOperators& operators)
      : a_(architecture),
        variant_(variant),
        options_(options),
        names_(NamesOf(architecture.family)),
        core_names_(CoreNamesOf(architecture.family)),
        parameters_(parameters),
        tape_(tape),
        operators_(operators),
        in_16_bits_(WithoutQuantization(options), tape_),
        adapters_(options, architecture.lora, tape_) {}

  Operand Run(const Operand& x) {
    if (a_.parallel_residual_norms > 0) return SideBySide(x);
    return HasPostNorm(a_.family) ? PostNorm(x) : PreNorm(x);
  }

 private:
  // Where norms stand before attention and feed-forward, behind them within the residual, or both.
  Operand PreNorm(const Operand& x) {
    const auto norm = [this](const Operand& of, std::string_view module) {
      return module.empty() ? of : Norm(of, module);
    };
    const Operand attention = Projection(AttentionOf(norm(x, names_.attention_norm)));
    const Operand between = Residual(x, norm(attention, names_.attention_post_norm),
                                     core_names_.attention_dropout, core_names_.attention_residual);
    const Operand feed_forward = FeedForward(norm(between, names_.feed_forward_norm));
    return Residual(between, norm(feed_forward, names_.feed_forward_post_norm), core_names_.dropout,
                    core_names_.residual);
  }

  // Feed-forward takes what attention does, and both are added to it (transformers,
  // models/gptj/modeling_gptj.py, GPTJBlock; models/gpt_neox, GPTNeoXLayer, with two norms).
  Operand SideBySide(const Operand& x) {
    const Operand normalized = Norm(x, names_.attention_norm);
    const Operand of_feed_forward =
        a_.parallel_residual_norms == 1 ? normalized : Norm(x, names_.feed_forward_norm);
    const Operand attention = Projection(AttentionOf(normalized));
    const Operand feed_forward = FeedForward(of_feed_forward);
    const Operand with_attention =
        Residual(x, attention, core_names_.attention_dropout, core_names_.attention_residual);
    return Residual(with_attention, feed_forward, core_names_.dropout, core_names_.residual);
  }

  Operand PostNorm(const Operand& x) {
    const Operand between =
        Norm(Residual(x, Projection(AttentionOf(x)), core_names_.attention_dropout,
                      core_names_.attention_residual),
             names_.attention_norm);
    return Norm(Residual(between, FeedForward(between), core_names_.dropout, core_names_.residual),
                names_.feed_forward_norm);
  }

  Operand Norm(Operand x, std::string_view module) {
    tape_.BeginModule(Module::kNorm);
    const Operand y = operators_.Norm(x, module, a_.normalization, Find(parameters_, module));
    tape_.EndModule();
    return y;
  }

  // Over each head of queries or keys, or over all of a rank's heads.
  Operand HeadNorm(const Operand& x, std::string_view module) {
    const ModulePositions positions = FindIfAny(parameters_, module);
    if (NormsAllHeads(a_.family)) {
      return operators_.Norm(x, module, Normalization::kRmsNorm, positions);
    }
    return operators_.NormOfHeads(x, module, a_.head_size, positions);
  }

  // What the first of a pair of linear layers takes: as it came, and as a whole.
  struct Entered {
    Operand before, whole;
  };

  // Of a rank: `out` is its part.
  Operand Linear(const Operand& x, std::string_view module, std::int64_t out) {
    return operators_.Linear(x, module, out, Find(parameters_, module));
  }
  Operand AdaptedLinear(const Entered& x, std::string_view module, std::int64_t out) {
    const std::pair<std::string_view, std::int64_t> modules[] = {{module, out}};
    return WithAdapters(x, module, modules, {Linear(x.whole, module, out)}).front();
  }

  Entered Enter(const Operand& x, std::string_view name, bool adapted) {
    return {.before = x, .whole = operators_.EnterColumns(x, name, adapted)};
  }

  // What the linear layers make, with what their adapters make.
  std::vector<Operand> WithAdapters(
      const Entered& x, std::string_view together,
      std::span<const std::pair<std::string_view, std::int64_t>> modules, std::vector<Operand> ys) {
    if (!a_.lora.adapts()) return ys;
    if (const auto adapter = FindAdapter(parameters_, together)) {
      return adapters_.AddColumns(x.before, x.whole, *adapter, std::move(ys));
    }
    for (std::size_t i = 0; i < ys.size(); ++i) {
      if (const auto adapter = FindAdapter(parameters_, modules[i].first)) {
        ys[i] = adapters_.AddColumns(x.before, x.whole, *adapter, {ys[i]}).front();
      }
    }
    return ys;
  }

  // How linear layers that share their input are computed: each by a product of its own, by one
  // product of their tensors, as some frameworks have it, or by one product of the one tensor that
  // the family has for them, which is the first module's.
  enum class Product : std::uint8_t { kEach, kOne, kOneTensor };

  // `together`: what their common adapter is called.
  std::vector<Operand> Linears(
      const Entered& x, std::string_view name, std::string_view together,
      std::initializer_list<std::pair<std::string_view, std::int64_t>> modules, Product product,
      Outputs outputs) {
    return WithAdapters(x, together, std::span(modules.begin(), modules.size()),
                        BaseLinears(x.whole, name, modules, product, outputs));
  }
  std::vector<Operand> BaseLinears(
      const Operand& x, std::string_view name,
      std::initializer_list<std::pair<std::string_view, std::int64_t>> modules, Product product,
      Outputs outputs) {
    const bool fused = product != Product::kEach;
    std::vector<Operand> ys;
    std::vector<LinearModule> together;
    for (const auto& [module, out] : modules) {
      if (fused) {
        const bool part = product == Product::kOneTensor && !together.empty();
        together.push_back({module, out,
                            part ? ModulePositions{.frozen = true} : FindIfAny(parameters_, module),
                            part});
      } else {
        ys.push_back(Linear(x, module, out));
      }
    }
    return fused ? operators_.Linears(x, name, together, outputs) : ys;
  }

  // The second of a pair of linear layers, whose result the ranks add up; its bias comes behind it.
  Operand Rows(Operand x, std::string_view module) {
    const Operand y = operators_.LinearRows(x, module, a_.hidden, Find(parameters_, module));
    const auto adapter = FindAdapter(parameters_, module);
    return adapter ? adapters_.AddRows(x, *adapter, y) : y;
  }

  // In place: a kernel for what each of the products has made.
  void AddAttentionBiases(const std::vector<Operand>& made,
                          std::initializer_list<std::string_view> modules) {
    if (!options_.adds_attention_biases || !Find(parameters_, *modules.begin()).biased()) return;
    if (modules.size() > 1 && options_.fuses_products) {
      operators_.AddBias(made, core_names_.query_key_value);
      return;
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      operators_.AddBias({made[i]}, modules.begin()[i]);
    }
  }

  // `one_tensor`: the family has one tensor for the layers.
  Product ProductOf(bool one_tensor) const {
    if (one_tensor) return Product::kOneTensor;
    return options_.fuses_products ? Product::kOne : Product::kEach;
  }

  // Key-value heads are fewer than the ranks: several have the same one.
  bool shares_key_heads() const { return a_.kv_heads < options_.tensor; }

  // Of the one product of queries, keys and values.
  std::int64_t ColumnsOfRank() const {
    return (a_.heads + 2 * a_.kv_heads) * a_.head_size / options_.tensor;
  }

  // Of a family whose queries, keys and values have weights of their own.
  std::array<Operand, 3> QueryKeyValue(const Entered& x, std::int64_t query_width,
                                       std::int64_t key_width) {
    const std::int64_t key_columns = a_.kv_heads * a_.head_size / options_.tensor;
    // The core's backward writes three gradients, which lie apart.
    const std::vector<Operand> made = Linears(
        x, core_names_.query_key_value, names_.linear_qkv,
        {{names_.query, query_width}, {names_.key, key_columns}, {names_.value, key_columns}},
        ProductOf(HasFusedProjections(a_)), shares_key_heads() ? Outputs::kOne : Outputs::kApart);
    if (HasFusedProjections(a_) && !options_.fuses_products) {
      // Values are a part of the one tensor, which stays with them.
      for (const Operand& part : made) tape_.Keep(part.value);
    }
    AddAttentionBiases(made, {names_.query, names_.key, names_.value});
    if (!shares_key_heads()) return {made[0], made[1], made[2]};
    STEPCAST_CHECK(options_.fuses_products, "ranks share key-value heads of one product");
    return operators_.GatherHeads(made.front(), core_names_.query_key_value,
                                  {query_width, key_width, key_width});
  }

  std::array<Operand, 3> LatentQueryKeyValue(const Operand& normalized) {
    const auto module = [this](std::string_view name, std::int64_t out) {
      return LinearModule{name, out, Find(parameters_, name)};
    };
    const LatentAttention& latent = a_.latent;
    LatentAttentionOperators::Modules modules{
        .query_up = module(latent.query_rank > 0 ? names_.query_up : names_.query, 0),
        .kv_down = module(names_.kv_down, 0),
        .kv_norm = module(names_.kv_latent_norm, 0),
        .kv_up = module(names_.kv_up, 0)};
    if (latent.query_rank > 0) {
      modules.query_down = module(names_.query_down, latent.query_rank);
      modules.query_norm = module(names_.query_latent_norm, 0);
    }
    latent_.emplace(operators_, a_, modules, core_names_.core);
    return latent_->QueryKeyValue(normalized);
  }

  bool flash() const { return FlashGeneration(options_.attention) > 0; }
  // Of a rank.
  std::int64_t heads() const { return a_.heads / options_.tensor; }
  std::int64_t kv_heads() const { return std::max<std::int64_t>(a_.kv_heads / options_.tensor, 1); }
  // The second generation takes values that are as wide as queries: they are filled up, and the
  // filling is left out of what it makes (transformers, models/deepseek_v3).
  bool fills_values() const {
    return ValueSize(a_) != a_.head_size && flash() &&
           FlashGeneration(options_.attention) < kFirstWithNarrowValues;
  }
  AttentionShape Shape() const {
    return {.heads = heads(),
            .kv_heads = options_.repeat_kv ? heads() : kv_heads(),
            .head_size = a_.head_size,
            .value_size = fills_values() ? a_.head_size : ValueSize(a_),
            .value_filling = fills_values() ? a_.head_size - ValueSize(a_) : 0,
            .window = variant_.full_attention ? 0 : a_.attention_window,
            .dropout = a_.attention_dropout,
            .causal = !IsEncoder(a_.family),
            .sinks = HasSinks(a_.family),
            .sink_positions = FindIfAny(parameters_, names_.sinks),
            .capped = a_.score_cap > 0};
  }

  // Of queries, keys and values, or of all of them in one.
  template <std::size_t kCount>
  Operand Core(std::array<Operand, kCount> operands) {
    tape_.BeginModule(Module::kAttentionCore);
    const std::string_view core = core_names_.core;
    const bool transposes = options_.transposes_attention && options_.micro_batch_size > 1;
    constexpr std::string_view kNames[] = {".transpose_query", ".transpose_key",
                                           ".transpose_value"};
    for (std::size_t i = 0; transposes && i < kCount; ++i) {
      operands[i] = operators_.Transposed(operands[i], core, kNames[i]);
    }
    if (fills_values()) {
      operands.back() =
          operators_.ResizeHeads(operands.back(), core, ".fill_value", heads(), a_.head_size);
    }
    const AttentionShape shape = Shape();
    if (shape.sinks) operators_.SinkGradients(shape, names_.sinks);
    const auto attend = [&](const auto&... each) {
      return flash() ? operators_.FlashAttention(each..., core, shape)
                     : operators_.MathAttention(each..., core, shape);
    };
    Operand y = std::apply(attend, operands);
    if (shape.sinks && RescalesForSinks(options_.attention)) {
      y = operators_.RescaleForSinks(y, core, shape);
    }
    if (fills_values()) {
      y = operators_.ResizeHeads(y, core, ".cut_output", heads(), ValueSize(a_));
    }
    if (transposes) y = operators_.Transposed(y, core, ".transpose_output");
    tape_.EndModule();
    return y;
  }

  Operand CoreOfRepeatedHeads(const std::array<Operand, 3>& made) {
    const std::int64_t group = heads() / kv_heads();
    return Core(std::array{made[0], operators_.RepeatHeads(made[1], core_names_.key_repeat, group),
                           operators_.RepeatHeads(made[2], core_names_.value_repeat, group)});
  }

  Operand AttentionOf(const Operand& normalized) {
    if (a_.latent.exists()) return Core(LatentQueryKeyValue(normalized));
    const AdaptedLayers& targets = a_.lora.targets;
    const Entered x = Enter(normalized, "qkv",
                            targets.linear_qkv || targets.query || targets.key || targets.value);
    const std::int64_t query_width = heads() * a_.head_size, key_width = kv_heads() * a_.head_size;
    if (HasFusedAttention(a_)) {
      // Without repeated heads, queries, keys and values are views of the one output.
      const Operand all = AdaptedLinear(x, names_.query_key_value, ColumnsOfRank());
      AddAttentionBiases({all}, {names_.query_key_value});
      if (!shares_key_heads() && (flash() || heads() == kv_heads())) return Core(std::array{all});
      const std::array<std::int64_t, 3> widths = {query_width, key_width, key_width};
      const std::array<Operand, 3> made =
          shares_key_heads() ? operators_.GatherHeads(all, names_.query_key_value, widths)
                             : operators_.Split(all, core_names_.core, widths);
      return flash() ? Core(made) : CoreOfRepeatedHeads(made);
    }
    std::array<Operand, 3> made = QueryKeyValue(x, query_width, key_width);
    TurnAndNormalise(made[0], made[1]);
    return flash() && !options_.repeat_kv ? Core(made) : CoreOfRepeatedHeads(made);
  }

  // Queries and keys. Blocks of Llama 4 that attend to all tokens neither turn nor normalise them;
  // others of its blocks do both the other way round.
  void TurnAndNormalise(Operand& query, Operand& key) {
    const bool llama4 = a_.family == Family::kLlama4;
    const auto normalise = [&] {
      query = HeadNorm(query, names_.query_norm);
      key = HeadNorm(key, names_.key_norm);
    };
    if (a_.qk_norm && !llama4) normalise();
    if (a_.position != Position::kRotary || (llama4 && variant_.full_attention)) return;
    query = operators_.Rotary(query, core_names_.query_rotary, a_.head_size);
    key = operators_.Rotary(key, core_names_.key_rotary, a_.head_size);
    if (a_.qk_norm && llama4) normalise();
  }

  Operand Projection(Operand x) { return Rows(x, names_.projection); }

  Operand FeedForward(Operand x) {
    tape_.BeginModule(variant_.experts ? Module::kMixture : Module::kFeedForward);
    const Operand y = FeedForwardOf(x);
    tape_.EndModule();
    return y;
  }

  Operand FeedForwardOf(const Operand& normalized) {
    if (variant_.experts) return MixtureOf(normalized);
    const std::int64_t width = a_.feed_forward / options_.tensor;
    const AdaptedLayers& targets = a_.lora.targets;
    const Entered x = Enter(normalized, "fc1", targets.linear_fc1 || targets.gate || targets.up);
    if (!IsGated(a_.activator)) {
      const Operand up = AdaptedLinear(x, names_.up, width);
      return Rows(a_.activator == Activator::kGelu ? operators_.Gelu(up, names_.activator)
                                                   : operators_.SquaredRelu(up, names_.activator),
                  names_.down);
    }
    const bool unfused = IsUnfused(options_.activation_function);
    const Product product = ProductOf(HasFusedGate(a_));
    if (unfused && product == Product::kEach && !targets.linear_fc1) {
      const Operand gate = operators_.Silu(AdaptedLinear(x, names_.gate, width), names_.activator);
      const Operand up = AdaptedLinear(x, names_.up, width);
      return Rows(operators_.Multiply(gate, up, core_names_.product), names_.down);
    }
    const std::vector<Operand> both =
        Linears(x, core_names_.gate_up, names_.linear_fc1,
                {{HasFusedGate(a_) ? names_.linear_fc1 : names_.gate, width}, {names_.up, width}},
                product, unfused ? Outputs::kApart : Outputs::kSideBySide);
    return Rows(Gated(both[0], both[1]), names_.down);
  }

  // Shared experts run before the router, as Megatron-Core has it where they do not overlap, or
  // beside the exchanges (transformer/moe/moe_layer.py, shared_experts.py).
  Operand MixtureOf(const Operand& normalized) {
    const bool shares = a_.experts.shared_feed_forward > 0;
    const bool beside = shares && options_.experts.shared_beside;
    std::optional<Operand> inside, shared;
    const auto begin = [&] { inside = SharedActivation(normalized); };
    const auto end = [&] {
      shared = Rows(*inside, names_.shared_down);
      if (beside && a_.experts.shared_gate) shared = GatedShared(normalized, *shared);
    };
    if (shares && !beside) {
      begin();
      end();
    }
    const auto module = [this](std::string_view name, std::int64_t out) {
      return LinearModule{name, out, Find(parameters_, name)};
    };
    mixture_.emplace(operators_, a_.experts,
                     MixtureOperators::Modules{
                         .router = module(names_.router, a_.experts.count),
                         .gate_up = module(names_.experts_gate_up, 2 * a_.experts.feed_forward),
                         .down = module(names_.experts_down, a_.hidden)});
    MixtureOperators::Beside lane;
    if (beside) lane = {.dispatch = begin, .combine = end};
    const Operand routed = mixture_->Run(normalized, std::move(lane));
    if (shared && a_.experts.shared_gate && !beside) shared = GatedShared(normalized, *shared);
    return shared ? operators_.Add(routed, *shared, "mlp.shared_experts.add") : routed;
  }

  Operand SharedActivation(const Operand& normalized) {
    const std::int64_t width = a_.experts.shared_feed_forward / options_.tensor;
    const Entered x = Enter(normalized, "shared_fc1", false);
    const std::vector<Operand> both =
        Linears(x, "mlp.shared_experts.gate_up_proj", "",
                {{names_.shared_gate, width}, {names_.shared_up, width}}, ProductOf(false),
                IsUnfused(options_.activation_function) ? Outputs::kApart : Outputs::kSideBySide);
    return Gated(both[0], both[1]);
  }

  // What the shared experts make, each token's times the sigmoid of one product of it
  // (transformers, models/qwen2_moe/modeling_qwen2_moe.py, Qwen2MoeSparseMoeBlock).
  Operand GatedShared(const Operand& normalized, const Operand& shared) {
    const Operand score =
        in_16_bits_.Sigmoid(in_16_bits_.Linear(normalized, names_.shared_expert_gate, 1,
                                               Find(parameters_, names_.shared_expert_gate)),
                            "mlp.shared_expert_gate.sigmoid");
    return operators_.ScaleRows(shared, score, "mlp.shared_experts.scale");
  }

  // SwiGLU of what its two products make.
  Operand Gated(Operand gate, Operand up) {
    if (!IsUnfused(options_.activation_function)) {
      return operators_.GatedSilu(gate, up, names_.activator);
    }
    return operators_.Multiply(operators_.Silu(gate, names_.activator), up, core_names_.product);
  }

  Operand Residual(Operand x, Operand branch, std::string_view dropout, std::string_view name) {
    if (a_.dropout && (options_.fuses_dropout_add || options_.compiled))
      return operators_.DropoutAdd(x, branch, name);
    if (a_.dropout) branch = operators_.Dropout(branch, dropout);
    return operators_.Add(x, branch, name);
  }

  const Architecture& a_;
  const LayerVariant variant_;
  const WorkOptions& options_;
  const ModuleNames& names_;
  const CoreNames& core_names_;
  const std::vector<ModuleParameter>& parameters_;
  LayerTape& tape_;
  LayerOperators& operators_;
  LayerOperators in_16_bits_;  // of products that stay so where others are in 8 or 4 bits
  AdapterOperators adapters_;
  // Backward refers to them.
  std::optional<LatentAttentionOperators> latent_;
  std::optional<MixtureOperators> mixture_;
};

// Chunks are documents to an attention core, where they divide the document.
WorkOptions WithinChunks(const Architecture& a, WorkOptions options, const LayerVariant& variant) {
  const std::int64_t chunk = a.attention_chunk;
  if (chunk <= 0 || variant.full_attention) return options;
  SampleLengths of_chunks;
  double chunks = 0;
  const auto add = [&](const SampleLength& document) {
    if (document.tokens >= chunk && document.tokens % chunk == 0) {
      chunks += document.weight * static_cast<double>(document.tokens / chunk);
    } else {
      of_chunks.push_back(document);
    }
  };
  for (const SampleLength& document : options.documents) add(document);
  if (options.documents.empty()) add({options.sequence_length, 1});
  if (chunks == 0) return options;
  const auto longer =
      std::find_if(of_chunks.begin(), of_chunks.end(),
                   [chunk](const SampleLength& document) { return document.tokens > chunk; });
  of_chunks.insert(longer, {chunk, chunks});
  options.documents = std::move(of_chunks);
  return options;
}

LayerWork BlockWork(const Architecture& a, const WorkOptions& of_all, const LayerVariant& variant) {
  const WorkOptions options = WithinChunks(a, of_all, variant);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  const std::vector<ModuleParameter> parameters = BlockParameters(a, variant.experts);
  Block block(a, options, variant, parameters, tape, operators);
  operators.AddUpParts();
  const Operand y = block.Run(operators.Input(a.hidden));
  return tape.Finish(y.value, {.checkpointing = options.checkpointing,
                               .stops_early = options.recompute_stops_early,
                               .modules = options.recomputed_modules,
                               .continues_checkpoint = variant.continues_checkpoint,
                               .splits_backward = options.splits_backward,
                               .delays_weight_gradients = options.experts.delays_weight_gradients,
                               .input_has_gradient = !variant.ends_backward});
}

std::int64_t VocabularyOfRank(const Architecture& a, const WorkOptions& options) {
  const std::int64_t words = (a.vocabulary + options.tensor - 1) / options.tensor;
  const std::int64_t multiple = options.vocabulary_multiple;
  return (words + multiple - 1) / multiple * multiple;
}

LayerWork EmbeddingWork(const Architecture& a, const WorkOptions& options) {
  const ModuleNames& names = NamesOf(a.family);
  const std::vector<ModuleParameter> parameters = EmbeddingParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  Operand x = operators.Lookup(names.embedding, VocabularyOfRank(a, options), a.hidden,
                               Find(parameters, names.embedding).weight,
                               a.tie_embeddings || a.further_tokens > 0);
  if (a.position == Position::kLearned) {
    x = operators.AddUp(x);
    x = operators.AddPositions(x, names.positions, a.max_positions,
                               Find(parameters, names.positions).weight);
    if (a.token_types > 0) {
      x = operators.AddTokenTypes(x, names.token_types, a.token_types,
                                  Find(parameters, names.token_types).weight);
    }
    x = operators.PartOfTokens(x, names.positions);
  } else {
    x = operators.LeaveRows(x, names.embedding, {});
  }
  if (ScalesEmbeddings(a.family)) x = operators.Scale(x, "embed_scale");
  if (HasPostNorm(a.family)) {
    x = operators.Norm(x, names.embedding_norm, a.normalization,
                       Find(parameters, names.embedding_norm));
  }
  if (a.dropout) x = operators.Dropout(x, "embedding_dropout");
  return tape.Finish(x.value, {.splits_backward = options.splits_backward,
                               .input_has_gradient = !a.lora.adapts()});
}

int FindBias(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  int bias = -1;
  ForEachOf(parameters, module, [&](ModuleParameter::Of of, int position) {
    if (of == ModuleParameter::Of::kBias) bias = position;
  });
  STEPCAST_CHECK(bias >= 0, "a module without a bias");
  return bias;
}

// Two losses: masked tokens, and whether the second segment follows the first, which the first
// token of each sequence says (transformers/models/bert/modeling_bert.py, BertPreTrainingHeads;
// megatron/core/models/bert/bert_model.py). Every rank of a tensor-parallel group has the whole of
// what comes before the vocabulary. Finishes the tape while there are the operators that backward
// refers to.
LayerWork EncoderHead(const Architecture& a, const WorkOptions& options,
                      const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                      Operand x, LayerTape& tape) {
  const ModuleNames& names = NamesOf(a.family);
  const auto find = [&](std::string_view module) { return Find(parameters, module); };
  if (!HasPostNorm(a.family)) {
    x = operators.Norm(x, names.final_norm, a.normalization, find(names.final_norm));
  }
  WorkOptions of_sequences = options;
  of_sequences.sequence_length = 1;
  of_sequences.tensor = 1;
  LayerOperators pooled_operators(of_sequences, tape);
  std::optional<Operand> pooled;
  if (a.next_sentence) {
    const Operand first = pooled_operators.TakeTokens(x, "first_token", options.micro_batch_size);
    pooled = pooled_operators.Tanh(
        pooled_operators.Linear(first, names.pooler, a.hidden, find(names.pooler)),
        "bert.pooler.activation");
  }
  WorkOptions of_masked = options;
  if (options.masked_tokens > 0) of_masked.sequence_length = options.masked_tokens;
  LayerOperators masked(of_masked, tape);
  if (options.masked_tokens > 0) {
    x = masked.TakeTokens(x, "masked_tokens", options.micro_batch_size * options.masked_tokens);
  }
  const Operand transformed =
      masked.Norm(masked.Gelu(masked.Linear(x, names.head_dense, a.hidden, find(names.head_dense)),
                              "cls.predictions.transform.transform_act_fn"),
                  names.head_norm, a.normalization, find(names.head_norm));
  ModulePositions decoder = find(a.tie_embeddings ? names.embedding : names.head);
  decoder.bias = FindBias(parameters, names.predictions);
  const Operand logits = masked.Linear(masked.EnterColumns(transformed, names.head), names.head,
                                       VocabularyOfRank(a, options), decoder);
  std::optional<Operand> follows;
  if (pooled) {
    follows = pooled_operators.Linear(*pooled, names.next_sentence, kSentenceClasses,
                                      find(names.next_sentence));
  }
  masked.CrossEntropy(logits, "masked_lm_loss");
  if (follows) pooled_operators.CrossEntropy(*follows, "next_sentence_loss");
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
}

// The module that predicts one token more, and its loss, as Megatron-Core runs them before the head
// (megatron/core/transformer/multi_token_prediction.py @ d98e8a64ddf3): the next tokens' embeddings
// and what the blocks have made, each normalised, are projected to one input of a block; a norm and
// the head's product are behind it.
class FurtherTokens {
 public:
  FurtherTokens(const Architecture& a, const WorkOptions& options,
                const std::vector<ModuleParameter>& parameters, LayerTape& tape,
                LayerOperators& head_operators)
      : a_(a),
        options_(options),
        names_(NamesOf(a.family)),
        parameters_(parameters),
        tape_(tape),
        head_operators_(head_operators),
        operators_(options, tape),
        block_(a, options_,
               {.experts = HasExperts(a, a.layers), .full_attention = AttendsInFull(a, a.layers)},
               parameters, tape, operators_) {
    operators_.AddUpParts();
  }

  // `hidden`: what the blocks have made, normalised.
  void Run(const Operand& hidden) {
    Operand words = head_operators_.LeaveRows(
        head_operators_.Lookup(names_.embedding, VocabularyOfRank(a_, options_), a_.hidden,
                               Of(names_.embedding).weight, false),
        names_.embedding, {});
    words = Norm(words, names_.further_embedding_norm);
    const Operand both =
        operators_.Join(words, Norm(hidden, names_.further_hidden_norm), "eh_join");
    Operand x = operators_.Linear(operators_.EnterColumns(both, names_.further_projection),
                                  names_.further_projection, a_.hidden / options_.tensor,
                                  Of(names_.further_projection));
    x = operators_.PartOfTokens(operators_.GatherFeatures(x, names_.further_projection),
                                names_.further_projection);
    const bool whole = options_.checkpointing == Checkpointing::kFull;
    if (whole) tape_.BeginWhole(Module::kFurtherBlock);
    x = block_.Run(x);
    if (whole) tape_.EndWhole();
    x = Norm(x, names_.further_norm);
    ModulePositions head = Of(names_.head);
    head.gradient_later = !options_.main_gradients.has_value();
    if (head.gradient_later) {
      head_operators_.AddUpWeightGradients(names_.head, VocabularyOfRank(a_, options_) * a_.hidden,
                                           head);
    }
    head_operators_.LossOfProduct(head_operators_.EnterColumns(x, names_.further_norm),
                                  {.module = "shared_head.head",
                                   .words = VocabularyOfRank(a_, options_),
                                   .parameters = head,
                                   .loss = "further_loss"});
  }

  // What of it is recomputed, if blocks are.
  LayerTape::Keeping Keeping() const {
    if (options_.checkpointing == Checkpointing::kSelective) {
      return {.checkpointing = Checkpointing::kSelective, .modules = options_.recomputed_modules};
    }
    if (options_.checkpointing != Checkpointing::kFull) return {};
    return {.checkpointing = Checkpointing::kSelective,
            .modules = {.core_attn = false, .further_block = true}};
  }

 private:
  ModulePositions Of(std::string_view module) const { return Find(parameters_, module); }
  Operand Norm(const Operand& x, std::string_view module) {
    return operators_.Norm(x, module, a_.normalization, Of(module));
  }

  const Architecture& a_;
  const WorkOptions options_;
  const ModuleNames& names_;
  const std::vector<ModuleParameter>& parameters_;
  LayerTape& tape_;
  LayerOperators& head_operators_;
  LayerOperators operators_;
  Block block_;
};

// 8 and 4 bits are for the blocks: Transformer Engine's layers and torchao's filter leave the head
// in 16 bits.
LayerWork HeadWork(const Architecture& a, const WorkOptions& block_options) {
  WorkOptions options = WithoutQuantization(block_options);
  options.tensor_overlap = TensorOverlap::kNone;  // of blocks, too
  const ModuleNames& names = NamesOf(a.family);
  const std::vector<ModuleParameter> parameters = HeadParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  operators.AddUpParts();
  const Operand x = operators.Input(a.hidden);
  if (IsEncoder(a.family)) {
    return EncoderHead(a, options, parameters, operators, x, tape);
  }
  const Operand normalized =
      operators.Norm(x, names.final_norm, a.normalization, Find(parameters, names.final_norm));
  ModulePositions head = Find(parameters, a.tie_embeddings ? names.embedding : names.head);
  LayerTape::Keeping keeping;
  std::optional<FurtherTokens> further;  // backward refers to it
  if (a.further_tokens > 0) {
    further.emplace(a, block_options, parameters, tape, operators);
    further->Run(normalized);
    keeping = further->Keeping();
    head.gradient_later = true;
  }
  operators.LossOfProduct(operators.EnterColumns(normalized, names.head),
                          {.module = names.head,
                           .words = VocabularyOfRank(a, options),
                           .parameters = head,
                           .capped = a.logit_cap > 0,
                           .loss = "loss"});
  keeping.splits_backward = options.splits_backward;
  return tape.Finish(std::nullopt, keeping);
}

}  // namespace

std::vector<LayerWork> TransformerWork(const Architecture& architecture, WorkOptions options) {
  // Kept in FP8, weights are not cast.
  if (architecture.lora.frozen_dtype == DataType::kFp8) options.casts_weights = false;
  WorkOptions unchecked = options;
  unchecked.checkpointing = Checkpointing::kNone;
  std::vector<LayerWork> works;
  for (const LayerVariant& variant : VariantsOf(architecture, options)) {
    switch (variant.kind) {
      case LayerKind::kEmbedding:
        works.push_back(EmbeddingWork(architecture, options));
        break;
      case LayerKind::kBlock:
        works.push_back(
            BlockWork(architecture, variant.uncheckpointed ? unchecked : options, variant));
        break;
      case LayerKind::kHead:
        works.push_back(HeadWork(architecture, options));
        break;
    }
  }
  return works;
}

}  // namespace stepcast::model
