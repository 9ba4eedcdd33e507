#include "src/model/transformer_work.h"

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// Names of what the families' code writes without a module.
struct CoreNames {
  std::string_view core, query_rotary, key_rotary, key_repeat, value_repeat;
  std::string_view attention_dropout, attention_residual, product, dropout, residual;
  std::string_view query_key_value, gate_up;  // products of several modules
};

constexpr CoreNames kGpt2CoreNames = {.core = "attn.core",
                                      .query_rotary = "",
                                      .key_rotary = "",
                                      .key_repeat = "attn.repeat_key",
                                      .value_repeat = "attn.repeat_value",
                                      .attention_dropout = "attn.resid_dropout",
                                      .attention_residual = "attn.residual",
                                      .product = "",
                                      .dropout = "mlp.dropout",
                                      .residual = "mlp.residual",
                                      .query_key_value = "",
                                      .gate_up = ""};
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

const CoreNames& CoreNamesOf(Family family) {
  if (family == Family::kGpt2) return kGpt2CoreNames;
  if (family == Family::kMpt) return kMptCoreNames;
  return kLlamaCoreNames;
}

ModulePositions Find(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  ModulePositions positions;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].module != module) continue;
    (parameters[i].bias ? positions.bias : positions.weight) = static_cast<int>(i);
  }
  STEPCAST_CHECK(positions.weight >= 0, "a module without a weight");
  return positions;
}

class Block {
 public:
  Block(const Architecture& architecture, const WorkOptions& options)
      : a_(architecture),
        options_(options),
        names_(NamesOf(architecture.family)),
        core_names_(CoreNamesOf(architecture.family)),
        parameters_(BlockParameters(architecture)),
        tape_(ActivationType(options.compute), options.compiled),
        operators_(options, tape_) {}

  LayerWork Work(bool continues_checkpoint = false) {
    operators_.AddUpParts();
    const Operand x = operators_.Input(a_.hidden);
    const Operand between = Residual(x, Projection(AttentionOf(Norm(x, names_.attention_norm))),
                                     core_names_.attention_dropout, core_names_.attention_residual);
    const Operand y = Residual(between, FeedForward(Norm(between, names_.feed_forward_norm)),
                               core_names_.dropout, core_names_.residual);
    return tape_.Finish(y.value, {.checkpointing = options_.checkpointing,
                                  .stops_early = options_.recompute_stops_early,
                                  .modules = options_.recomputed_modules,
                                  .continues_checkpoint = continues_checkpoint,
                                  .splits_backward = options_.splits_backward});
  }

 private:
  Operand Norm(Operand x, std::string_view module) {
    tape_.BeginModule(Module::kNorm);
    const Operand y = operators_.Norm(x, module, a_.normalization, Find(parameters_, module));
    tape_.EndModule();
    return y;
  }

  // Of a rank: `out` is its part.
  Operand Linear(Operand x, std::string_view module, std::int64_t out) {
    return operators_.Linear(x, module, out, Find(parameters_, module));
  }

  // Those that share their input: one product, where the framework has it so.
  std::vector<Operand> Linears(
      const Operand& x, std::string_view name,
      std::initializer_list<std::pair<std::string_view, std::int64_t>> modules, Outputs outputs) {
    std::vector<Operand> ys;
    std::vector<LinearModule> together;
    for (const auto& [module, out] : modules) {
      if (options_.fuses_products) {
        together.push_back({module, out, Find(parameters_, module)});
      } else {
        ys.push_back(Linear(x, module, out));
      }
    }
    return options_.fuses_products ? operators_.Linears(x, name, together, outputs) : ys;
  }

  // The second of a pair of linear layers, whose result the ranks add up; its bias comes behind it.
  Operand Rows(Operand x, std::string_view module) {
    return operators_.LinearRows(x, module, a_.hidden, Find(parameters_, module));
  }

  // Key-value heads are fewer than the ranks: several have the same one.
  bool shares_key_heads() const { return a_.kv_heads < options_.tensor; }

  // Of the one product of queries, keys and values.
  std::int64_t ColumnsOfRank() const {
    return (a_.heads + 2 * a_.kv_heads) * a_.head_size / options_.tensor;
  }

  // Of a family whose queries, keys and values have weights of their own.
  std::array<Operand, 3> QueryKeyValue(const Operand& x, std::int64_t query_width,
                                       std::int64_t key_width) {
    const std::int64_t key_columns = a_.kv_heads * a_.head_size / options_.tensor;
    // The core's backward writes three gradients, which lie apart.
    const std::vector<Operand> made = Linears(
        x, core_names_.query_key_value,
        {{names_.query, query_width}, {names_.key, key_columns}, {names_.value, key_columns}},
        shares_key_heads() ? Outputs::kOne : Outputs::kApart);
    if (!shares_key_heads()) return {made[0], made[1], made[2]};
    STEPCAST_CHECK(options_.fuses_products, "ranks share key-value heads of one product");
    return operators_.GatherHeads(made.front(), core_names_.query_key_value,
                                  {query_width, key_width, key_width});
  }

  Operand AttentionOf(Operand x) {
    const bool flash = FlashGeneration(options_.attention) > 0;
    const std::int64_t heads = a_.heads / options_.tensor;
    const std::int64_t kv_heads = std::max<std::int64_t>(a_.kv_heads / options_.tensor, 1);
    const std::int64_t query_width = heads * a_.head_size;
    const std::int64_t key_width = kv_heads * a_.head_size;
    const std::int64_t group = heads / kv_heads;
    const AttentionShape shape{.heads = heads,
                               .kv_heads = options_.repeat_kv ? heads : kv_heads,
                               .head_size = a_.head_size,
                               .window = a_.attention_window,
                               .dropout = a_.attention_dropout};
    const auto core = [&](auto... operands) {
      tape_.BeginModule(Module::kAttentionCore);
      const Operand y = flash ? operators_.FlashAttention(operands..., core_names_.core, shape)
                              : operators_.MathAttention(operands..., core_names_.core, shape);
      tape_.EndModule();
      return y;
    };
    x = operators_.EnterColumns(x, "qkv");
    if (HasFusedAttention(a_.family)) {
      // Without repeated heads, queries, keys and values are views of the one output.
      const Operand all = Linear(x, names_.query_key_value, ColumnsOfRank());
      if (!shares_key_heads() && (flash || group == 1)) return core(all);
      const std::array<std::int64_t, 3> widths = {query_width, key_width, key_width};
      const auto [query, key, value] =
          shares_key_heads() ? operators_.GatherHeads(all, names_.query_key_value, widths)
                             : operators_.Split(all, core_names_.core, widths);
      if (flash) return core(query, key, value);
      return core(query, operators_.RepeatHeads(key, core_names_.key_repeat, group),
                  operators_.RepeatHeads(value, core_names_.value_repeat, group));
    }
    auto [query, key, value] = QueryKeyValue(x, query_width, key_width);
    query = operators_.Rotary(query, core_names_.query_rotary, a_.head_size);
    key = operators_.Rotary(key, core_names_.key_rotary, a_.head_size);
    if (!flash || options_.repeat_kv) {
      key = operators_.RepeatHeads(key, core_names_.key_repeat, group);
      value = operators_.RepeatHeads(value, core_names_.value_repeat, group);
    }
    return core(query, key, value);
  }

  Operand Projection(Operand x) { return Rows(x, names_.projection); }

  Operand FeedForward(Operand x) {
    tape_.BeginModule(Module::kFeedForward);
    const Operand y = FeedForwardOf(x);
    tape_.EndModule();
    return y;
  }

  Operand FeedForwardOf(Operand x) {
    const std::int64_t width = a_.feed_forward / options_.tensor;
    x = operators_.EnterColumns(x, "fc1");
    if (a_.activator != Activator::kSwiGlu) {
      const Operand up = Linear(x, names_.up, width);
      return Rows(a_.activator == Activator::kGelu ? operators_.Gelu(up, names_.activator)
                                                   : operators_.SquaredRelu(up, names_.activator),
                  names_.down);
    }
    if (!IsUnfused(options_.activation_function)) {
      const std::vector<Operand> both = Linears(
          x, core_names_.gate_up, {{names_.gate, width}, {names_.up, width}}, Outputs::kSideBySide);
      return Rows(operators_.GatedSilu(both[0], both[1], names_.activator), names_.down);
    }
    if (!options_.fuses_products) {
      const Operand gate = operators_.Silu(Linear(x, names_.gate, width), names_.activator);
      const Operand up = Linear(x, names_.up, width);
      return Rows(operators_.Multiply(gate, up, core_names_.product), names_.down);
    }
    const std::vector<Operand> both = Linears(
        x, core_names_.gate_up, {{names_.gate, width}, {names_.up, width}}, Outputs::kApart);
    const Operand gate = operators_.Silu(both[0], names_.activator);
    return Rows(operators_.Multiply(gate, both[1], core_names_.product), names_.down);
  }

  Operand Residual(Operand x, Operand branch, std::string_view dropout, std::string_view name) {
    if (a_.dropout && options_.fuses_dropout_add) return operators_.DropoutAdd(x, branch, name);
    if (a_.dropout) branch = operators_.Dropout(branch, dropout);
    return operators_.Add(x, branch, name);
  }

  const Architecture& a_;
  const WorkOptions& options_;
  const ModuleNames& names_;
  const CoreNames& core_names_;
  std::vector<ModuleParameter> parameters_;
  LayerTape tape_;
  LayerOperators operators_;
};

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
                               Find(parameters, names.embedding).weight, a.tie_embeddings);
  if (a.position == Position::kLearned) {
    x = operators.AddUp(x);
    x = operators.AddPositions(x, names.positions, a.max_positions,
                               Find(parameters, names.positions).weight);
    x = operators.PartOfTokens(x, names.positions);
  } else {
    x = operators.LeaveRows(x, names.embedding, {});
  }
  if (a.dropout) x = operators.Dropout(x, "embedding_dropout");
  return tape.Finish(x.value, {.splits_backward = options.splits_backward});
}

// FP8 is for the blocks: Transformer Engine's layers and torchao's filter leave the head in 16
// bits.
LayerWork HeadWork(const Architecture& a, WorkOptions options) {
  if (options.compute == DataType::kFp8) options.compute = ActivationType(options.compute);
  options.tensor_overlap = TensorOverlap::kNone;  // of blocks, too
  const ModuleNames& names = NamesOf(a.family);
  const std::vector<ModuleParameter> parameters = HeadParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  operators.AddUpParts();
  const Operand x = operators.Input(a.hidden);
  const Operand normalized =
      operators.Norm(x, names.final_norm, a.normalization, Find(parameters, names.final_norm));
  const std::string_view weight = a.tie_embeddings ? names.embedding : names.head;
  const Operand logits =
      operators.Linear(operators.EnterColumns(normalized, names.head), names.head,
                       VocabularyOfRank(a, options), Find(parameters, weight));
  operators.CrossEntropy(logits, "loss");
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
}

}  // namespace

std::vector<LayerWork> TransformerWork(const Architecture& architecture,
                                       const WorkOptions& options) {
  std::vector<LayerWork> works;
  works.push_back(EmbeddingWork(architecture, options));
  works.push_back(Block(architecture, options).Work());
  works.push_back(HeadWork(architecture, options));
  if (options.checkpointing != Checkpointing::kNone && !options.checkpointed_blocks.all()) {
    WorkOptions plain = options;
    plain.checkpointing = Checkpointing::kNone;
    works.push_back(Block(architecture, plain).Work());
  } else if (options.blocks_per_checkpoint > 1) {
    works.push_back(Block(architecture, options).Work(true));
  }
  return works;
}

}  // namespace stepcast::model
