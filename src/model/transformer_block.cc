#include "src/model/transformer_block.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/model/adapter_operators.h"
#include "src/model/end_work.h"
#include "src/model/family.h"
#include "src/model/indexer_operators.h"
#include "src/model/latent_attention_operators.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/mixture_operators.h"
#include "src/model/module_positions.h"
#include "src/model/operator_name.h"
#include "src/model/recurrent_operators.h"
#include "src/model/shared_key_operators.h"
#include "src/model/stream_operators.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// First generation of FlashAttention that allows values narrower than queries and keys.
constexpr int kFirstWithNarrowValues = 3;

// Empty: the module has no adapter.
std::optional<AdapterModule> FindAdapter(const std::vector<ModuleParameter>& parameters,
                                         std::string_view module) {
  AdapterModule adapter{.name = module};
  ForEachOf(parameters, module, [&](ModuleParameter::Of of, int position) {
    if (of == ModuleParameter::Of::kLoraA) adapter.a = {.weight = position};
    if (of == ModuleParameter::Of::kLoraB) adapter.b = {.weight = position};
  });
  return adapter.a.weight >= 0 ? std::optional(adapter) : std::nullopt;
}

}  // namespace

class TransformerBlock::Parts {
 public:
  Parts(const Architecture& architecture, const WorkOptions& options, const LayerVariant& variant,
        const std::vector<ModuleParameter>& parameters, LayerTape& tape, LayerOperators& operators)
      : a_(architecture),
        variant_(variant),
        options_(options),
        names_(NamesOf(architecture)),
        parameters_(parameters),
        tape_(tape),
        operators_(operators),
        in_16_bits_(WithoutQuantization(options), tape_),
        adapters_(options, architecture.lora, tape_) {}

  Operand Run(const Operand& x) {
    if (a_.two_streams) return TwoStreams(x);
    if (a_.modulation.exists()) return Modulated(x);
    if (a_.parallel_residual_norms > 0) return SideBySide(x);
    return TraitsOf(a_).post_norm ? PostNorm(x) : PreNorm(x);
  }

 private:
  // Norms stand before the mixer and the feed-forward layer, after them within the residual, or
  // both. A block may have only one of the two layers.
  Operand PreNorm(const Operand& x) {
    const auto norm = [this](const Operand& of, std::string_view module) {
      return module.empty() ? of : Norm(of, module);
    };
    Operand y = x;
    if (a_.mixer != Mixer::kNone) {
      const auto mix = [&](const Operand& of) {
        return norm(Mix(norm(of, names_.attention_norm)), names_.attention_post_norm);
      };
      y = Branch(y, mix,
                 {names_.streams_attention, names_.bank_attention, names_.attention_dropout,
                  names_.attention_residual});
    }
    if (a_.cross.exists()) {
      const auto read = [&](const Operand& of) { return CrossOf(CrossNorm(of)); };
      y = Branch(y, read, {"", "", "cross_attn.dropout", "cross_attn.residual"});
    }
    if (HasFeedForward(a_)) {
      const auto feed = [&](const Operand& of) {
        const Operand made = variant_.experts && a_.experts.beside_dense
                                 ? DenseBesideExperts(of)
                                 : FeedForward(norm(of, FeedForwardNormOf(a_)));
        return norm(made, names_.feed_forward_post_norm);
      };
      y = Branch(
          y, feed,
          {names_.streams_feed_forward, names_.bank_feed_forward, names_.dropout, names_.residual});
    }
    return a_.layer_input > 0 ? AddLayerInput(y) : y;
  }

  // The vectors that the condition makes for a block: of its own product, or those of all blocks
  // with the block's table added.
  Operand Vectors(std::string_view module) {
    const std::int64_t samples = options_.micro_batch_size;
    const std::int64_t width = a_.modulation.vectors * a_.hidden;
    LayerOperators& operators = of_samples_.emplace_back(OfLength(options_, 1), tape_);
    if (!a_.modulation.by_product) {
      return operators.AddPositions(operators.Context("condition", width, samples), module, 1,
                                    Find(parameters_, module).weight);
    }
    const Operand condition = operators.Context("condition", a_.hidden, samples);
    return operators.Linear(operators.Silu(condition, "modulation.act_fn"), module, width,
                            Find(parameters_, module));
  }

  // A block whose norms and branches are scaled by vectors of the condition (DiT; Wan, with
  // cross-attention between; Flux's single blocks, with both branches on the same input).
  Operand Modulated(const Operand& x) {
    const Operand vectors = Vectors(names_.modulation);
    const Operand normalized =
        operators_.Modulate(Norm(x, names_.attention_norm), vectors, "attn.modulate");
    const Operand attention = Projection(AttentionOf(normalized));
    if (a_.parallel_residual_norms > 0) {
      const Operand both = operators_.Add(attention, FeedForward(normalized), "branches.add");
      return operators_.GatedAdd(x, both, vectors, names_.residual);
    }
    Operand y = operators_.GatedAdd(x, attention, vectors, names_.attention_residual);
    if (a_.cross.exists()) {
      y = operators_.Add(y, CrossOf(CrossNorm(y)), "cross_attn.residual");
    }
    const Operand fed = FeedForward(
        operators_.Modulate(Norm(y, names_.feed_forward_norm), vectors, "mlp.modulate"));
    return operators_.GatedAdd(y, fed, vectors, names_.residual);
  }

  // One of the two streams of a block, with weights of its own.
  struct Stream {
    const ModuleNames& names;
    Operand x, vectors;
  };
  // Two streams that attend to each other (Flux's double blocks, black-forest-labs/flux,
  // modules/layers.py): the joined rows first.
  Operand TwoStreams(const Operand& input) {
    const std::int64_t of_text = options_.micro_batch_size * a_.joined_rows;
    const std::array<Operand, 2> rows = operators_.DivideRows(input, "streams", of_text, false);
    const ModuleNames& text_names = NamesOfText(a_);
    const std::array<Stream, 2> streams = {
        Stream{text_names, rows[0], Vectors(text_names.modulation)},
        Stream{names_, rows[1], Vectors(names_.modulation)}};
    const std::array<std::array<Operand, 3>, 2> made = {OfStream(streams[0]), OfStream(streams[1])};
    const auto join = [&](std::size_t i, std::string_view name) {
      return operators_.JoinRows({made[0][i], made[1][i]}, name, true);
    };
    Operand query = join(0, "attn.join_query"), key = join(1, "attn.join_key");
    if (a_.position == Position::kRotary) {
      query = operators_.Rotary(query, names_.query_rotary, a_.head_size);
      key = operators_.Rotary(key, names_.key_rotary, a_.head_size);
    }
    const Operand attended = Core(std::array{query, key, join(2, "attn.join_value")});
    const std::array<Operand, 2> parts =
        operators_.DivideRows(attended, "attn.divide", of_text, true);
    return operators_.JoinRows({EndStream(streams[0], parts[0]), EndStream(streams[1], parts[1])},
                               "streams.join", false);
  }

  // A stream's queries, keys and values.
  std::array<Operand, 3> OfStream(const Stream& stream) {
    const ModuleNames& names = stream.names;
    const Operand normalized =
        operators_.Modulate(Norm(stream.x, names.attention_norm), stream.vectors, "attn.modulate");
    const auto module = [&](std::string_view name, std::int64_t out) {
      return LinearModule{name, out, Find(parameters_, name)};
    };
    const std::int64_t width = a_.heads * a_.head_size, keys = a_.kv_heads * a_.head_size;
    const std::vector<Operand> made = operators_.Linears(
        normalized, names_.joined_query_key_value,
        {module(names.query, width), module(names.key, keys), module(names.value, keys)},
        Outputs::kApart);
    if (!a_.qk_norm) return {made[0], made[1], made[2]};
    return {HeadNorm(made[0], names.query_norm), HeadNorm(made[1], names.key_norm), made[2]};
  }

  // A stream after attention: its projection and feed-forward layer.
  Operand EndStream(const Stream& stream, const Operand& attended) {
    const ModuleNames& names = stream.names;
    const Operand y = operators_.GatedAdd(stream.x, Rows(attended, names.projection),
                                          stream.vectors, names_.attention_residual);
    const Operand normalized =
        operators_.Modulate(Norm(y, names.feed_forward_norm), stream.vectors, "mlp.modulate");
    tape_.BeginModule(Module::kFeedForward);
    const Operand fed = Rows(Activated(Linear(normalized, names.up, a_.feed_forward)), names.down);
    tape_.EndModule();
    return operators_.GatedAdd(y, fed, stream.vectors, names_.residual);
  }

  // Module names of a branch, for whatever it has beside the plain residual.
  struct BranchNames {
    std::string_view streams, bank, dropout, residual;
  };
  // Adds the branch's output to x.
  Operand Branch(const Operand& x, const std::function<Operand(const Operand&)>& branch,
                 const BranchNames& names) {
    if (a_.streams > 0) {
      if (!streams_) streams_.emplace(operators_, a_.streams);
      const Operand taken = streams_->Take(x, names.streams, a_.streams * (a_.streams + 2),
                                           Find(parameters_, names.streams));
      return streams_->Give(x, branch(taken), names.streams);
    }
    Operand taken = x;
    if (a_.residual_bank > 0) {
      // On average, half as many outputs of earlier groups of blocks exist as there are groups.
      taken = operators_.MeanOfRows(x, names.bank, 2 + a_.layers / a_.residual_bank / 2,
                                    Find(parameters_, names.bank));
    }
    return Residual(x, branch(taken), names.dropout, names.residual);
  }

  BlockOperators::Find Finder() const {
    return [this](std::string_view module) { return FindIfAny(parameters_, module); };
  }

  // The mixers on their normalised input; the output is summed over the ranks.
  Operand Mix(const Operand& normalized) {
    const Operand y = Mix(a_.mixer, normalized);
    return a_.beside == Mixer::kNone ? y
                                     : operators_.Add(y, Mix(a_.beside, normalized), "mixers.add");
  }
  Operand Mix(Mixer mixer, const Operand& normalized) {
    if (a_.shared_key.exists()) return Projection(SharedKeyOf(normalized));
    if (mixer == Mixer::kAttention) return Projection(AttentionOf(normalized));
    recurrent_.emplace(operators_, a_, names_, Finder());
    return recurrent_->Mix(mixer, normalized);
  }

  // Both layers read attention's output, each with norms of its own (transformers, models/gemma4).
  Operand DenseBesideExperts(const Operand& x) {
    tape_.BeginModule(Module::kFeedForward);
    const Operand dense = DenseOf(Norm(x, names_.feed_forward_norm));
    tape_.EndModule();
    const Operand normalised_dense = Norm(dense, names_.dense_post_norm);
    const Operand routed = operators_.Norm(x, names_.router_scale, Normalization::kRmsNorm,
                                           Find(parameters_, names_.router_scale));
    const Operand rows = Norm(x, names_.experts_norm);
    const ModulePositions scale = Find(parameters_, names_.expert_scale);
    if (scale.weight >= 0) {
      tape_.OnBackward([this, scale] {
        tape_.RunBackward({.name = "mlp.expert_scale.grad", .kind = KernelKind::kMemoryBound}, {},
                          {}, {scale.weight}, {scale.weight});
      });
    }
    tape_.BeginModule(Module::kMixture);
    const Operand experts = MixtureOf(routed, rows);
    tape_.EndModule();
    return operators_.Add(normalised_dense, Norm(experts, names_.experts_post_norm),
                          "mlp.experts.add");
  }

  // Adds the layer's own input: the gate on the block's row, a product back, and a norm.
  Operand AddLayerInput(const Operand& x) {
    const auto module = [this](std::string_view name, std::int64_t out) {
      ModulePositions positions = Find(parameters_, name);
      positions.of_part = options_.sequence_parallel;
      return LinearModule{name, out, positions};
    };
    const LinearModule gate = module(names_.layer_gate, a_.layer_input);
    const LinearModule up = module(names_.layer_up, a_.hidden);
    const Operand gated = operators_.Gelu(
        operators_.Linear(x, gate.name, gate.out, gate.parameters), "per_layer_input.act_fn");
    const Operand product = operators_.Multiply(gated, gated, "per_layer_input.product");
    const Operand y = operators_.Linear(product, up.name, up.out, up.parameters);
    return operators_.Add(x, Norm(y, names_.layer_norm), "per_layer_input.residual");
  }

  // The feed-forward layer has the same input as attention, and both outputs are added to it
  // (transformers, models/gptj/modeling_gptj.py, GPTJBlock; models/gpt_neox, GPTNeoXLayer, with two
  // norms).
  Operand SideBySide(const Operand& x) {
    const Operand normalized = Norm(x, names_.attention_norm);
    const Operand of_feed_forward =
        a_.parallel_residual_norms == 1 ? normalized : Norm(x, names_.feed_forward_norm);
    const Operand attention = Projection(AttentionOf(normalized));
    const Operand feed_forward = FeedForward(of_feed_forward);
    const Operand with_attention =
        Residual(x, attention, names_.attention_dropout, names_.attention_residual);
    return Residual(with_attention, feed_forward, names_.dropout, names_.residual);
  }

  Operand PostNorm(const Operand& x) {
    const Operand between = Norm(Residual(x, Projection(AttentionOf(x)), names_.attention_dropout,
                                          names_.attention_residual),
                                 names_.attention_norm);
    return Norm(Residual(between, FeedForward(between), names_.dropout, names_.residual),
                names_.feed_forward_norm);
  }

  Operand Norm(Operand x, std::string_view module) {
    return Norm(
        x, module,
        a_.norms_without_weights ? ModulePositions{.frozen = true} : Find(parameters_, module));
  }
  Operand Norm(Operand x, std::string_view module, const ModulePositions& positions) {
    tape_.BeginModule(Module::kNorm);
    const Operand y = operators_.Norm(x, module, a_.normalization, positions);
    tape_.EndModule();
    return y;
  }
  Operand CrossNorm(const Operand& x) {
    return Norm(x, names_.cross_norm, Find(parameters_, names_.cross_norm));
  }

  // A norm over each head of queries or keys, or over all heads of a rank.
  Operand HeadNorm(const Operand& x, std::string_view module) {
    const ModulePositions positions = FindIfAny(parameters_, module);
    if (a_.norms_all_heads) {
      return operators_.Norm(x, module, Normalization::kRmsNorm, positions);
    }
    return operators_.NormOfHeads(x, module, a_.head_size, positions);
  }

  // The input of the first of a pair of linear layers: as it came, and gathered.
  struct Entered {
    Operand before, whole;
  };

  // A linear layer; `out`: this rank's columns.
  Operand Linear(const Operand& x, std::string_view module, std::int64_t out) {
    return operators_.Linear(x, module, out, Find(parameters_, module));
  }
  // A linear layer's columns. `of_former`: whether they are part of the former layer's tensor.
  struct LayerColumns {
    std::string_view name;
    std::int64_t out = 0;
    bool of_former = false;
  };
  Operand AdaptedLinear(const Entered& x, std::string_view module, std::int64_t out) {
    const LayerColumns modules[] = {{module, out}};
    return WithAdapters(x, module, modules, {Linear(x.whole, module, out)}).front();
  }

  Entered Enter(const Operand& x, std::string_view name, bool adapted) {
    return {.before = x, .whole = operators_.EnterColumns(x, name, adapted)};
  }

  // The outputs of linear layers, with the outputs of their adapters added.
  std::vector<Operand> WithAdapters(const Entered& x, std::string_view together,
                                    std::span<const LayerColumns> modules,
                                    std::vector<Operand> ys) {
    if (!a_.lora.adapts()) return ys;
    if (const auto adapter = FindAdapter(parameters_, together)) {
      return adapters_.AddColumns(x.before, x.whole, *adapter, std::move(ys));
    }
    for (std::size_t i = 0; i < ys.size(); ++i) {
      if (const auto adapter = FindAdapter(parameters_, modules[i].name)) {
        ys[i] = adapters_.AddColumns(x.before, x.whole, *adapter, {ys[i]}).front();
      }
    }
    return ys;
  }

  // How linear layers that share an input are computed: each by its own product, by one product
  // over their tensors (as some frameworks do), or by one product of the single tensor that the
  // family has for them, which is the first module's.
  enum class Product : std::uint8_t { kEach, kOne, kOneTensor };

  // `together`: the name of their common adapter.
  std::vector<Operand> Linears(const Entered& x, std::string_view name, std::string_view together,
                               const std::vector<LayerColumns>& modules, Product product,
                               Outputs outputs) {
    return WithAdapters(x, together, modules,
                        BaseLinears(x.whole, name, modules, product, outputs));
  }
  std::vector<Operand> BaseLinears(const Operand& x, std::string_view name,
                                   const std::vector<LayerColumns>& modules, Product product,
                                   Outputs outputs) {
    std::vector<Operand> ys;
    std::vector<LinearModule> together;
    // Runs the collected modules as one product of this name.
    const auto run = [&](std::string_view product_name) {
      const std::vector<Operand> made = operators_.Linears(
          x, product_name, together, together.size() > 1 ? outputs : Outputs::kApart);
      ys.insert(ys.end(), made.begin(), made.end());
      together.clear();
    };
    if (product != Product::kEach) {
      for (const LayerColumns& module : modules) {
        const bool part = module.of_former || (product == Product::kOneTensor && !together.empty());
        together.push_back(ModuleOf(module, part));
      }
      return operators_.Linears(x, name, together, outputs);
    }
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (i + 1 < modules.size() && modules[i + 1].of_former) {
        together = {ModuleOf(modules[i], false), ModuleOf(modules[i + 1], true)};
        run(modules[i].name);
        ++i;
      } else {
        ys.push_back(Linear(x, modules[i].name, modules[i].out));
      }
    }
    return ys;
  }
  LinearModule ModuleOf(const LayerColumns& module, bool part) const {
    return {module.name, module.out,
            part ? ModulePositions{.frozen = true} : FindIfAny(parameters_, module.name), part};
  }

  // The second of a pair of linear layers. The ranks add up the results, and the bias is added
  // after that.
  Operand Rows(Operand x, std::string_view module) {
    const Operand y = operators_.LinearRows(x, module, a_.hidden, Find(parameters_, module));
    const auto adapter = FindAdapter(parameters_, module);
    return adapter ? adapters_.AddRows(x, *adapter, y) : y;
  }

  // In place: one kernel for the output of each product.
  void AddAttentionBiases(const std::vector<Operand>& made,
                          std::initializer_list<std::string_view> modules) {
    if (!options_.adds_attention_biases || !Find(parameters_, *modules.begin()).biased()) return;
    if (modules.size() > 1 && options_.fuses_products) {
      operators_.AddBias(made, names_.joined_query_key_value);
      return;
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      operators_.AddBias({made[i]}, modules.begin()[i]);
    }
  }

  // `one_tensor`: whether the family has one tensor for the layers.
  Product ProductOf(bool one_tensor) const {
    if (one_tensor) return Product::kOneTensor;
    return options_.fuses_products ? Product::kOne : Product::kEach;
  }

  // Whether there are fewer key-value heads than ranks, so that several ranks hold the same one.
  bool shares_key_heads() const { return a_.kv_heads < options_.tensor; }

  // Columns that a rank has of the combined product of queries, keys and values.
  std::int64_t ColumnsOfRank() const {
    return (a_.heads + 2 * a_.kv_heads) * a_.head_size / options_.tensor;
  }

  // For a family with separate weights for queries, keys and values. The product of queries may
  // also make the gate of the output.
  std::array<Operand, 3> QueryKeyValue(const Entered& x, std::int64_t query_width) {
    const std::int64_t key_columns = a_.kv_heads * a_.head_size / options_.tensor;
    const std::int64_t value_columns = a_.kv_heads * ValueSize(a_) / options_.tensor;
    std::vector<LayerColumns> modules = {{names_.query, query_width}};
    const bool gates = a_.gate_of_query;
    if (gates) modules.push_back({"self_attn.gate", heads() * ValueSize(a_), true});
    if (!a_.borrows_keys) modules.push_back({names_.key, key_columns});
    if (!a_.borrows_keys && !a_.key_is_value) modules.push_back({names_.value, value_columns});
    // The core's backward writes three separate gradients.
    std::vector<Operand> made = Linears(x, names_.joined_query_key_value, names_.linear_qkv,
                                        modules, ProductOf(HasFusedProjections(a_)),
                                        shares_key_heads() ? Outputs::kOne : Outputs::kApart);
    if (HasFusedProjections(a_) && !options_.fuses_products) {
      // Values are a part of the one tensor, which is kept with them.
      for (const Operand& part : made) tape_.Keep(part.value);
    }
    if (gates) {
      gate_ = made[1];
      made.erase(made.begin() + 1);
    }
    if (a_.borrows_keys) return {made[0], Borrowed(x.whole), Borrowed(x.whole)};
    if (a_.key_is_value) made.push_back(made[1]);
    AddAttentionBiases(made, {names_.query, names_.key, names_.value});
    if (!shares_key_heads()) return {made[0], made[1], made[2]};
    STEPCAST_CHECK(
        options_.fuses_products,
        "ranks that share key-value heads must compute these heads in one matrix multiplication");
    return operators_.GatherHeads(made.front(), names_.joined_query_key_value,
                                  {query_width, key_columns, value_columns});
  }

  // Keys or values kept by an earlier block, to whose gradient this block's is added.
  Operand Borrowed(const Operand& x) {
    return {.value = tape_.Alias(x.value),
            .width = kv_heads() * a_.head_size,
            .tokens = x.tokens,
            .fp32 = false};
  }

  // Attention's output times the sigmoid of its gate.
  Operand GateOutput(const Entered& x, const Operand& y) {
    if (a_.output_gate == OutputGate::kNone) return y;
    const std::int64_t each = ValueSize(a_);
    const bool of_heads = a_.output_gate == OutputGate::kHead;
    if (!a_.gate_of_query) {
      gate_ = Linear(x.whole, names_.attention_gate, heads() * (of_heads ? 1 : each));
    }
    const Operand score = operators_.Sigmoid(gate_, "self_attn.gate.sigmoid");
    if (!of_heads) return operators_.Multiply(y, score, "self_attn.gate.product");
    const Operand rows{.value = y.value, .width = each, .tokens = y.tokens * heads()};
    const Operand numbers{.value = score.value, .width = 1, .tokens = y.tokens * heads()};
    const Operand scaled = operators_.ScaleRows(rows, numbers, "self_attn.gate.product");
    return {.value = scaled.value, .width = y.width, .tokens = y.tokens};
  }

  void MakeLatent() {
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
    latent_.emplace(operators_, a_, modules, names_.core);
  }

  // Whether an indexer selects keys: it does only if documents are longer than its selection.
  bool ReadsChosenKeys() const {
    return a_.indexer.chooses() && operators_.DocumentLength() > a_.indexer.top;
  }

  void RunIndexer(const Operand& normalized, const Operand& query_source) {
    const Indexer& index = a_.indexer;
    if (!index.exists() || index.shared) return;
    indexer_.emplace(operators_, a_, names_, Finder());
    if (index.runs) {
      indexer_->Choose(normalized, query_source, Shape());
    } else {
      indexer_->Idle();
    }
  }

  bool flash() const { return FlashGeneration(options_.attention) > 0; }
  // Heads of one rank.
  std::int64_t heads() const { return a_.heads / options_.tensor; }
  std::int64_t kv_heads() const { return std::max<std::int64_t>(a_.kv_heads / options_.tensor, 1); }
  // FlashAttention before kFirstWithNarrowValues takes values as wide as queries: values are
  // padded, and the padding is dropped from the output (transformers, models/deepseek_v3).
  bool fills_values() const {
    if (ReadsChosenKeys() && a_.latent.exists()) return false;
    return ValueSize(a_) != a_.head_size && flash() &&
           FlashGeneration(options_.attention) < kFirstWithNarrowValues;
  }
  AttentionShape Shape() const {
    if (shared_key_) return shared_key_->Shape(operators_.DocumentLength());
    if (ReadsChosenKeys() && a_.latent.exists()) {
      return {.heads = heads(),
              .kv_heads = 1,
              .head_size = a_.latent.kv_rank + a_.latent.rotary_head,
              .value_size = a_.latent.kv_rank,
              .window = a_.indexer.top,
              .chosen = true};
    }
    return {.heads = heads(),
            .kv_heads = options_.repeat_kv ? heads() : kv_heads(),
            .head_size = a_.head_size,
            .value_size = fills_values() ? a_.head_size : ValueSize(a_),
            .value_filling = fills_values() ? a_.head_size - ValueSize(a_) : 0,
            .window = ReadsChosenKeys()         ? a_.indexer.top
                      : variant_.full_attention ? 0
                                                : a_.attention_window,
            .chosen = ReadsChosenKeys(),
            .dropout = a_.attention_dropout,
            .causal = !TraitsOf(a_).encoder && !a_.attends_both_ways,
            .sinks = a_.sinks,
            .sink_positions = FindIfAny(parameters_, names_.sinks),
            .capped = a_.score_cap > 0,
            .biased = a_.distance_buckets > 0,
            .scaled = a_.distance_buckets == 0};
  }

  // The attention core on queries, keys and values, or on one tensor with all of them.
  template <std::size_t kCount>
  Operand Core(std::array<Operand, kCount> operands) {
    return Core(std::move(operands), Shape(), names_.core);
  }
  template <std::size_t kCount>
  Operand Core(std::array<Operand, kCount> operands, const AttentionShape& shape,
               std::string_view core) {
    tape_.BeginModule(Module::kAttentionCore);
    const bool transposes = options_.transposes_attention && options_.micro_batch_size > 1;
    constexpr std::string_view kNames[] = {".transpose_query", ".transpose_key",
                                           ".transpose_value"};
    for (std::size_t i = 0; transposes && i < kCount; ++i) {
      operands[i] = operators_.Transposed(operands[i], core, kNames[i]);
    }
    const bool fills = shape.value_filling != 0;
    if (fills) {
      operands.back() =
          operators_.ResizeHeads(operands.back(), core, ".fill_value", heads(), a_.head_size);
    }
    if (shape.sinks) operators_.SinkGradients(shape, names_.sinks);
    const auto attend = [&](const auto&... each) {
      return flash() ? operators_.FlashAttention(each..., core, shape)
                     : operators_.MathAttention(each..., core, shape);
    };
    Operand y = std::apply(attend, operands);
    if (shape.sinks && RescalesForSinks(options_.attention)) {
      y = operators_.RescaleForSinks(y, core, shape);
    }
    if (fills) y = operators_.ResizeHeads(y, core, ".cut_output", heads(), ValueSize(a_));
    if (transposes) y = operators_.Transposed(y, core, ".transpose_output");
    tape_.EndModule();
    return y;
  }

  Operand CoreOfRepeatedHeads(const std::array<Operand, 3>& made) {
    const std::int64_t group = heads() / kv_heads();
    return Core(std::array{made[0], operators_.RepeatHeads(made[1], names_.key_repeat, group),
                           operators_.RepeatHeads(made[2], names_.value_repeat, group)});
  }

  Operand AttentionOf(const Operand& normalized) {
    if (a_.latent.exists()) {
      MakeLatent();
      const bool sparse = ReadsChosenKeys();
      Operand y = Core(sparse ? latent_->AbsorbedQueryKeyValue(normalized)
                              : latent_->QueryKeyValue(normalized));
      if (sparse) y = latent_->ValuesOf(y);
      RunIndexer(normalized, a_.indexer.from_query_rank ? latent_->query_vector() : normalized);
      if (a_.output_gate == OutputGate::kNone) return y;
      return GateOutput(Enter(normalized, "gate", false), y);
    }
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
                             : operators_.Split(all, names_.core, widths);
      return flash() ? Core(made) : CoreOfRepeatedHeads(made);
    }
    RunIndexer(normalized, normalized);
    std::array<Operand, 3> made = QueryKeyValue(x, query_width);
    TurnAndNormalise(made[0], made[1]);
    if (a_.norms_values && !a_.borrows_keys) {
      made[2] =
          operators_.NormOfHeads(made[2], "self_attn.v_norm", ValueSize(a_), {.frozen = true});
    }
    return GateOutput(x, flash() && !options_.repeat_kv ? Core(made) : CoreOfRepeatedHeads(made));
  }

  // Attention to the context. Rotary positions are not applied.
  Operand CrossOf(const Operand& normalized) {
    const CrossAttention& cross = a_.cross;
    const std::int64_t heads = cross.heads / options_.tensor;
    const std::int64_t kv_heads = cross.kv_heads / options_.tensor;
    const Operand context = operators_.Context("cross_attn.context", cross.width,
                                               options_.micro_batch_size * cross.tokens);
    Operand query = Linear(operators_.EnterColumns(normalized, "cross_attn"), names_.cross_query,
                           heads * cross.head);
    Operand key = Linear(context, names_.cross_key, kv_heads * cross.head);
    Operand value = Linear(context, names_.cross_value, kv_heads * cross.head);
    if (cross.norms) {
      const auto norm = [this](const Operand& of, std::string_view module) {
        return operators_.Norm(of, module, Normalization::kRmsNorm, Find(parameters_, module));
      };
      query = norm(query, names_.cross_query_norm);
      key = norm(key, names_.cross_key_norm);
    }
    if (!flash() || options_.repeat_kv) {
      key = operators_.RepeatHeads(key, "cross_attn.repeat_key", heads / kv_heads);
      value = operators_.RepeatHeads(value, "cross_attn.repeat_value", heads / kv_heads);
    }
    const AttentionShape shape{.heads = heads,
                               .kv_heads = flash() && !options_.repeat_kv ? kv_heads : heads,
                               .head_size = cross.head,
                               .dropout = a_.attention_dropout,
                               .causal = false,
                               .context = cross.tokens,
                               .scaled = a_.distance_buckets == 0};
    return Rows(Core(std::array{query, key, value}, shape, "cross_attn.core"),
                names_.cross_projection);
  }

  // Rotates and normalises queries and keys, in the family's order.
  void TurnAndNormalise(Operand& query, Operand& key) {
    const FamilyTraits& traits = TraitsOf(a_);
    const auto normalise = [&] {
      query = HeadNorm(query, names_.query_norm);
      if (!a_.borrows_keys) key = HeadNorm(key, names_.key_norm);
    };
    if (a_.qk_norm && !traits.norms_after_positions) normalise();
    const bool without = traits.full_without_positions && variant_.full_attention;
    if (a_.position != Position::kRotary || without) return;
    query = operators_.Rotary(query, names_.query_rotary, a_.head_size);
    if (!a_.borrows_keys) key = operators_.Rotary(key, names_.key_rotary, a_.head_size);
    if (a_.qk_norm && traits.norms_after_positions) normalise();
  }

  Operand SharedKeyOf(const Operand& normalized) {
    shared_key_.emplace(operators_, a_, names_, Finder());
    const SharedKeyOperators::Vectors vectors = shared_key_->Make(normalized);
    return shared_key_->Output(Core(std::array{vectors.query, vectors.key, vectors.key}));
  }

  Operand Projection(Operand x) { return Rows(x, names_.projection); }

  Operand FeedForward(Operand x) {
    tape_.BeginModule(variant_.experts ? Module::kMixture : Module::kFeedForward);
    const Operand y = FeedForwardOf(x);
    tape_.EndModule();
    return y;
  }

  Operand FeedForwardOf(const Operand& normalized) {
    return variant_.experts ? MixtureOf(normalized, normalized) : DenseOf(normalized);
  }

  Operand DenseOf(const Operand& normalized) {
    const std::int64_t width = a_.feed_forward / options_.tensor;
    const AdaptedLayers& targets = a_.lora.targets;
    const Entered x = Enter(normalized, "fc1", targets.linear_fc1 || targets.gate || targets.up);
    if (!IsGated(a_.activator)) {
      return Rows(Activated(AdaptedLinear(x, names_.up, width)), names_.down);
    }
    const bool unfused = IsUnfused(options_.activation_function);
    const Product product = ProductOf(HasFusedGate(a_));
    if (unfused && product == Product::kEach && !targets.linear_fc1) {
      const Operand gate = operators_.Silu(AdaptedLinear(x, names_.gate, width), names_.activator);
      const Operand up = AdaptedLinear(x, names_.up, width);
      return Rows(operators_.Multiply(gate, up, names_.product), names_.down);
    }
    const std::vector<Operand> both =
        Linears(x, names_.joined_gate_up, names_.linear_fc1,
                {{HasFusedGate(a_) ? names_.linear_fc1 : names_.gate, width}, {names_.up, width}},
                product, unfused ? Outputs::kApart : Outputs::kSideBySide);
    return Rows(Gated(both[0], both[1]), names_.down);
  }

  // Shared experts run before the router, as in Megatron-Core without overlap, or beside the
  // exchanges (transformer/moe/moe_layer.py, shared_experts.py). The router reads `routed_by`.
  Operand MixtureOf(const Operand& routed_by, const Operand& normalized) {
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
    const std::int64_t first = (IsGated(a_.activator) ? 2 : 1) * a_.experts.feed_forward;
    mixture_.emplace(operators_, a_.experts,
                     MixtureOperators::Modules{.router = module(names_.router, a_.experts.count),
                                               .gate_up = module(names_.experts_gate_up, first),
                                               .down = module(names_.experts_down, a_.hidden)});
    MixtureOperators::Beside lane;
    if (beside) lane = {.dispatch = begin, .combine = end};
    const Operand routed = Routed(routed_by, normalized, std::move(lane));
    if (shared && a_.experts.shared_gate && !beside) shared = GatedShared(normalized, *shared);
    return shared ? operators_.Add(routed, *shared, "mlp.shared_experts.add") : routed;
  }

  // Experts on a latent vector: each rank computes it for its own tokens with the whole matrices,
  // and rows of its width go to the experts.
  Operand Routed(const Operand& routed_by, const Operand& normalized,
                 MixtureOperators::Beside lane) {
    if (a_.experts.latent == 0) return mixture_->Run(routed_by, normalized, std::move(lane));
    const auto whole = [this](std::string_view name) {
      ModulePositions positions = Find(parameters_, name);
      positions.of_part = options_.sequence_parallel;
      return positions;
    };
    Operand rows = in_16_bits_.Linear(normalized, names_.latent_down, a_.experts.latent,
                                      whole(names_.latent_down));
    if (a_.experts.latent_norm) {
      rows = operators_.Norm(rows, names_.latent_norm, Normalization::kRmsNorm,
                             Find(parameters_, names_.latent_norm));
    }
    const Operand made = mixture_->Run(routed_by, rows, std::move(lane));
    return in_16_bits_.Linear(made, names_.latent_up, a_.hidden, whole(names_.latent_up));
  }

  Operand SharedActivation(const Operand& normalized) {
    const std::int64_t width = a_.experts.shared_feed_forward / options_.tensor;
    const Entered x = Enter(normalized, "shared_fc1", false);
    if (!IsGated(a_.activator)) {
      return Activated(Linear(x.whole, names_.shared_up, width));
    }
    const std::vector<Operand> both =
        Linears(x, "mlp.shared_experts.gate_up_proj", "",
                {{names_.shared_gate, width}, {names_.shared_up, width}}, ProductOf(false),
                IsUnfused(options_.activation_function) ? Outputs::kApart : Outputs::kSideBySide);
    return Gated(both[0], both[1]);
  }

  // The shared experts' output, each token's times the sigmoid of one product of the token
  // (transformers, models/qwen2_moe/modeling_qwen2_moe.py, Qwen2MoeSparseMoeBlock).
  Operand GatedShared(const Operand& normalized, const Operand& shared) {
    const Operand score =
        in_16_bits_.Sigmoid(in_16_bits_.Linear(normalized, names_.shared_expert_gate, 1,
                                               Find(parameters_, names_.shared_expert_gate)),
                            "mlp.shared_expert_gate.sigmoid");
    return operators_.ScaleRows(shared, score, "mlp.shared_experts.scale");
  }

  // The activation function of a layer without a gate.
  Operand Activated(const Operand& up) {
    if (a_.activator == Activator::kGelu) return operators_.Gelu(up, names_.activator);
    if (a_.activator == Activator::kRelu) return operators_.Relu(up, names_.activator);
    if (a_.activator == Activator::kXielu) {
      return operators_.Xielu(up, names_.activator, Find(parameters_, names_.activator));
    }
    return operators_.SquaredRelu(up, names_.activator);
  }

  // SwiGLU of the outputs of two products.
  Operand Gated(Operand gate, Operand up) {
    if (!IsUnfused(options_.activation_function)) {
      return operators_.GatedSilu(gate, up, names_.activator);
    }
    return operators_.Multiply(operators_.Silu(gate, names_.activator), up, names_.product);
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
  const std::vector<ModuleParameter>& parameters_;
  LayerTape& tape_;
  LayerOperators& operators_;
  LayerOperators in_16_bits_;  // of products that stay so where others are in 8 or 4 bits
  AdapterOperators adapters_;
  // Kept because backward refers to them.
  std::optional<LatentAttentionOperators> latent_;
  std::optional<MixtureOperators> mixture_;
  std::optional<RecurrentOperators> recurrent_;
  std::optional<IndexerOperators> indexer_;
  std::optional<SharedKeyOperators> shared_key_;
  std::optional<StreamOperators> streams_;
  std::deque<LayerOperators> of_samples_;  // on one row for each sample
  Operand gate_;                           // of attention's output
};

TransformerBlock::TransformerBlock(const Architecture& architecture, const WorkOptions& options,
                                   const LayerVariant& variant,
                                   const std::vector<ModuleParameter>& parameters, LayerTape& tape,
                                   LayerOperators& operators)
    : parts_(std::make_unique<Parts>(architecture, options, variant, parameters, tape, operators)) {
}
TransformerBlock::~TransformerBlock() = default;

Operand TransformerBlock::Run(const Operand& x) { return parts_->Run(x); }

}  // namespace stepcast::model
