#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/model/architecture.h"
#include "src/model/family.h"

// Checks whether an architecture can be built.
namespace stepcast::model {
namespace {

class Faults {
 public:
  void Add(std::string field, std::string message, std::string hint = "") {
    faults_.push_back({std::move(field), std::move(message), std::move(hint)});
  }
  // Reports a fault if `wrong`. `message` and its arguments are as in fmt::format.
  template <typename... Args>
  void If(bool wrong, const char* field, const char* hint, fmt::format_string<Args...> message,
          Args&&... args) {
    if (wrong) Add(field, fmt::format(message, std::forward<Args>(args)...), hint);
  }
  // Reports a fault if `divisor` does not divide `value`. `name` and `of` are their names.
  void Divisor(const char* field, std::string_view name, std::int64_t divisor, std::string_view of,
               std::int64_t value) {
    if (value % divisor == 0) return;
    Add(field, fmt::format("{} must be a divisor of {}: {} and {}", name, of, divisor, value),
        fmt::format("set {} to a divisor of {}", name, of));
  }
  // Reports a fault and returns false if `value` is not within [1, most].
  bool Within(const char* field, std::int64_t value, std::int64_t most) {
    if (value >= 1 && value <= most) return true;
    Add(field, fmt::format("{} must be between 1 and {}: {}", field, most, value));
    return false;
  }
  void Matrix(const char* field, std::int64_t rows, std::int64_t columns) {
    if (rows <= kMostMatrix / columns) return;
    Add(field, fmt::format("a matrix of {} x {} elements is too large", rows, columns),
        fmt::format("at most {} elements", kMostMatrix));
  }
  std::vector<ArchitectureFault> Take() { return std::move(faults_); }

 private:
  std::vector<ArchitectureFault> faults_;
};

// Whether the family can have the value, which is the typical one or one of `others`.
template <typename T>
bool Allows(const std::vector<T>& others, T typical, T value) {
  if (others.empty()) return value == typical;
  return std::find(others.begin(), others.end(), value) != others.end();
}

void CheckLatentAttention(const Architecture& a, Faults& faults) {
  const LatentAttention& latent = a.latent;
  if (!TraitsOf(a).latent) {
    if (latent == LatentAttention()) return;
    faults.Add("kv_lora_rank",
               fmt::format("the family {} has no latent attention, but kv_lora_rank is {}",
                           FamilyName(a), latent.kv_rank),
               "omit kv_lora_rank, or choose a family with latent attention");
    return;
  }
  bool counts = faults.Within("kv_lora_rank", latent.kv_rank, kMostWidth);
  if (latent.query_rank != 0) {
    counts &= faults.Within("q_lora_rank", latent.query_rank, kMostWidth);
  }
  counts &= faults.Within("qk_nope_head_dim", latent.plain_head, kMostWidth);
  counts &= faults.Within("qk_rope_head_dim", latent.rotary_head, kMostWidth);
  counts &= faults.Within("v_head_dim", latent.value_head, kMostWidth);
  if (!counts) return;
  faults.If(latent.rotary_head % 2 != 0, "qk_rope_head_dim", "",
            "qk_rope_head_dim must be even, because rotary positions rotate pairs: {}",
            latent.rotary_head);
  faults.If(
      a.kv_heads != a.heads, "num_key_value_heads", "omit num_key_value_heads",
      "with latent attention, num_attention_heads and num_key_value_heads must be equal: {} and {}",
      a.kv_heads, a.heads);
  faults.If(a.head_size != latent.plain_head + latent.rotary_head, "head_dim", "omit head_dim",
            "head_dim must equal qk_nope_head_dim + qk_rope_head_dim ({} + {}), but is {}",
            latent.plain_head, latent.rotary_head, a.head_size);
  if (a.qk_norm || a.attention_bias || a.projection_bias) {
    const char* const field = a.qk_norm          ? "use_qk_norm"
                              : a.attention_bias ? "attention_bias"
                                                 : "projection_bias";
    faults.Add(field, "stepcast does not model latent attention that has biases or norms of heads",
               fmt::format("omit {}", field));
  }
  if (latent.plain_head + latent.value_head > kMostWidth / a.heads) {
    faults.Add("v_head_dim",
               fmt::format("num_attention_heads x (qk_nope_head_dim + v_head_dim) must "
                           "be at most {}: {} x ({} + {})",
                           kMostWidth, a.heads, latent.plain_head, latent.value_head));
    return;
  }
  faults.Matrix("q_lora_rank", a.heads * a.head_size, std::max<std::int64_t>(latent.query_rank, 1));
  faults.Matrix("kv_lora_rank", a.heads * (latent.plain_head + latent.value_head), latent.kv_rank);
}

void CheckAttention(const Architecture& a, Faults& faults) {
  faults.Divisor("num_key_value_heads", "num_key_value_heads", a.kv_heads, "num_attention_heads",
                 a.heads);
  if (a.head_size > kMostWidth / a.heads) {
    faults.Add("head_dim", fmt::format("num_attention_heads x head_dim must be at most {}: {} x {}",
                                       kMostWidth, a.heads, a.head_size));
    return;
  }
  faults.Matrix("head_dim", a.hidden, a.heads * a.head_size);
  faults.If(a.qk_norm && NamesOf(a).query_norm.empty(), "use_qk_norm",
            "omit use_qk_norm, or choose a family with norms of queries and keys",
            "the family {} has no norms of queries and keys", FamilyName(a));
  // Rotary positions turn a part of a latent head.
  faults.If(a.position == Position::kRotary && a.head_size % 2 != 0 && !a.latent.exists(),
            "head_dim", "", "head_dim must be even, because rotary positions rotate pairs: {}",
            a.head_size);
}

void CheckEncoder(const Architecture& a, Faults& faults) {
  if (a.token_types != 0) faults.Within("type_vocab_size", a.token_types, kMostVocabulary);
  faults.If(
      a.heads * a.head_size != a.hidden, "head_dim", "omit head_dim",
      "in the family {}, num_attention_heads x head_dim must equal hidden_size: {} x {} and {}",
      FamilyName(a), a.heads, a.head_size, a.hidden);
  faults.If(a.kv_heads != a.heads, "num_key_value_heads", "omit num_key_value_heads",
            "in the family {}, num_key_value_heads must equal num_attention_heads: {} and {}",
            FamilyName(a), a.kv_heads, a.heads);
  faults.If(a.attention_window > 0, "sliding_window", "omit sliding_window",
            "the family {} has no attention window, but sliding_window is {}", FamilyName(a),
            a.attention_window);
}

// Reports fields that the family's code cannot express.
void CheckFamily(const Architecture& a, Faults& faults) {
  const auto refuse = [&](const char* field, const char* value) {
    faults.Add(field, fmt::format("the family {} has no {} '{}'", FamilyName(a), field, value),
               "choose a family that supports this value");
  };
  const Family& family = FamilyOf(a);
  if (family.traits.encoder) CheckEncoder(a, faults);
  if (!Allows(family.activators, family.typical.activator, a.activator)) {
    refuse("activation", Name(a.activator));
  }
  if (!Allows(family.positions, family.typical.position, a.position)) {
    refuse("position", Name(a.position));
  }
  if (!Allows(family.normalizations, family.typical.normalization, a.normalization)) {
    refuse("normalization", Name(a.normalization));
  }
  const bool whole_heads = HasFusedAttention(a) || TraitsOf(a).whole_heads;
  faults.If(
      whole_heads && a.heads * a.head_size != a.hidden, "head_dim", "omit head_dim",
      "in the family {}, num_attention_heads x head_dim must equal hidden_size: {} x {} and {}",
      FamilyName(a), a.heads, a.head_size, a.hidden);
  const bool no_gate = NamesOf(a).shared_expert_gate.empty();
  if (a.experts.shared_gate && (no_gate || a.experts.shared_feed_forward == 0)) {
    faults.Add("shared_expert_gate",
               no_gate
                   ? fmt::format("shared experts of the family {} have no gate", FamilyName(a))
                   : "shared_expert_gate needs shared experts, but the model has no shared experts",
               no_gate ? "omit shared_expert_gate, or choose a family with gated shared experts"
                       : "write shared_expert_intermediate_size");
  }
  if (TraitsOf(a).no_biases && (a.attention_bias || a.feed_forward_bias)) {
    const char* const field = a.attention_bias ? "attention_bias" : "mlp_bias";
    faults.Add(field, fmt::format("layers of the family {} have no biases", FamilyName(a)),
               fmt::format("omit {}", field));
  }
  faults.If(a.norm_bias && a.normalization == Normalization::kRmsNorm, "norm_bias",
            "write 'norm_bias: false'", "rmsnorm has no bias: norm_bias is true");
}

// Checks that a token's `per_token` experts can come from `groups_per_token` of `groups` equal
// groups.
void CheckExpertGroups(const Experts& experts, Faults& faults) {
  if (experts.groups == 0 && experts.groups_per_token == 0) return;
  if (experts.groups < 1 || experts.count % experts.groups != 0) {
    faults.Add("n_group",
               fmt::format("n_group must be a divisor of num_experts: {} and {}", experts.groups,
                           experts.count),
               "set n_group to a divisor of num_experts, or omit n_group and topk_group if a token "
               "can use any expert");
    return;
  }
  if (!faults.Within("topk_group", experts.groups_per_token, experts.groups)) return;
  const std::int64_t reachable = experts.count / experts.groups * experts.groups_per_token;
  faults.If(experts.per_token > reachable, "topk_group",
            "write a larger topk_group, or a smaller num_experts_per_tok",
            "with topk_group {} of {} groups, a token can use at most {} experts, but "
            "num_experts_per_tok is {}",
            experts.groups_per_token, experts.groups, reachable, experts.per_token);
}

void CheckSizeOfExperts(const char* field, const Architecture& a, Faults& faults) {
  const Experts& experts = a.experts;
  if (2 * experts.feed_forward <= kMostExpertElements / a.hidden / experts.count) return;
  faults.Add(field,
             fmt::format("{} experts of 2 x {} x {} elements are too large", experts.count,
                         experts.feed_forward, a.hidden),
             fmt::format("at most {} elements", kMostExpertElements));
}

void CheckExperts(const Architecture& a, Faults& faults) {
  const Experts& experts = a.experts;
  if (!experts.exist()) {
    if (experts.count < 0) {
      faults.Within("num_experts", experts.count, kMostExperts);
    } else if (TraitsOf(a).needs_experts) {
      const std::string& other = FamilyOf(a).without_experts;
      faults.Add("num_experts",
                 fmt::format("layers of the family {} need experts, but num_experts is {}",
                             FamilyName(a), experts.count),
                 "write num_experts and num_experts_per_tok" +
                     (other.empty() ? "" : fmt::format(", or 'family: {}'", other)));
    }
    return;
  }
  if (!IsGated(a.activator) || TraitsOf(a).encoder) {
    faults.Add(
        "num_experts",
        fmt::format(
            "experts are modelled only in decoders with gated activations: the family is {}, and "
            "the activation is {}",
            FamilyName(a), Name(a.activator)),
        "omit num_experts");
    return;
  }
  bool counts = faults.Within("num_experts", experts.count, kMostExperts);
  counts &= faults.Within("num_experts_per_tok", experts.per_token, experts.count);
  counts &= faults.Within("moe_intermediate_size", experts.feed_forward, kMostWidth);
  if (experts.shared_feed_forward != 0) {
    counts &=
        faults.Within("shared_expert_intermediate_size", experts.shared_feed_forward, kMostWidth);
  }
  if (experts.leading_dense < 0 || experts.leading_dense > a.layers) {
    faults.Add(
        "first_k_dense_replace",
        fmt::format("first_k_dense_replace must be between 0 and num_hidden_layers, {}, but is {}",
                    a.layers, experts.leading_dense));
    counts = false;
  }
  counts &= faults.Within("decoder_sparse_step", experts.every, kMostLayers);
  if (!counts) return;
  CheckExpertGroups(experts, faults);
  faults.Matrix("shared_expert_intermediate_size", a.hidden,
                std::max<std::int64_t>(experts.shared_feed_forward, 1));
  CheckSizeOfExperts("num_experts", a, faults);
  for (std::int64_t block = 0; block < a.layers; ++block) {
    if (HasExperts(a, block)) return;
  }
  faults.Add("num_experts",
             fmt::format("no block has experts: the first {} of {} blocks are dense "
                         "(first_k_dense_replace), and decoder_sparse_step is {}",
                         experts.leading_dense, a.layers, experts.every),
             "write a smaller first_k_dense_replace or decoder_sparse_step, or omit num_experts");
}

void CheckFurtherTokens(const Architecture& a, Faults& faults) {
  constexpr const char* kField = "num_nextn_predict_layers";
  if (a.further_tokens == 0) return;
  if (a.further_tokens < 0 || a.further_tokens > kMostFurtherTokens) {
    faults.Add(kField, fmt::format("a model can have at most {} modules for multi-token "
                                   "prediction, not {}",
                                   kMostFurtherTokens, a.further_tokens));
  } else if (a.position != Position::kRotary || TraitsOf(a).encoder || a.tie_embeddings) {
    faults.Add(kField,
               "multi-token prediction is modelled only in decoders with rotary positions and "
               "without tied word embeddings",
               "omit num_nextn_predict_layers");
  }
}

void CheckHeadBias(const Architecture& a, Faults& faults) {
  faults.If(a.head_bias && a.tie_embeddings, "lm_head_bias",
            "omit lm_head_bias, or write 'tie_word_embeddings: false'",
            "a head with tied word embeddings has no bias");
}

// Checks of features that only some families have.
void CheckParallelResidual(const Architecture& a, Faults& faults) {
  const std::int64_t norms = a.parallel_residual_norms;
  const bool side_by_side = FamilyOf(a).typical.parallel_residual_norms > 0;
  if (norms < 0 || norms > 2 || (norms > 0 && !side_by_side)) {
    faults.Add("parallel_residual_norms",
               side_by_side
                   ? fmt::format("a block with parallel attention and feed-forward has 1 or 2 "
                                 "norms: parallel_residual_norms is {}",
                                 norms)
                   : fmt::format("in the family {}, feed-forward runs after attention, but "
                                 "parallel_residual_norms is {}",
                                 FamilyName(a), norms),
               side_by_side ? "write 1 or 2; 0 means that feed-forward runs after attention"
                            : "omit parallel_residual_norms, or choose a family in which "
                              "feed-forward and attention run in parallel");
  } else if (norms != 1 && TraitsOf(a).shares_norm) {
    faults.Add(
        "parallel_residual_norms",
        fmt::format("a block of the family {} has one norm, but parallel_residual_norms is {}",
                    FamilyName(a), norms),
        "omit parallel_residual_norms, or write 'family: gpt_neox'");
  }
  CheckHeadBias(a, faults);
  faults.If(a.head_bias && TraitsOf(a).encoder, "lm_head_bias", "omit lm_head_bias",
            "heads of encoders always have a bias");
}

// Checks attention of a described block by its dimensions.
void CheckDescribedAttention(const Architecture& a, Faults& faults) {
  faults.Divisor("mixers", "kv_heads", a.kv_heads, "heads", a.heads);
  if (a.head_size > kMostWidth / a.heads || ValueSize(a) > kMostWidth / a.heads) {
    faults.Add("mixers", fmt::format("heads x head must be at most {}: {} x {}", kMostWidth,
                                     a.heads, std::max(a.head_size, ValueSize(a))));
    return;
  }
  faults.Matrix("mixers", a.hidden, 2 * a.heads * std::max(a.head_size, ValueSize(a)));
  if (a.latent.exists()) {
    faults.Matrix("mixers", a.heads * (a.latent.plain_head + a.latent.value_head),
                  a.latent.kv_rank);
  }
  faults.If(a.attention_window > 0 && a.attention_chunk > 0, "mixers", "omit chunk or window",
            "attention can use chunks or a window, but not both: chunk is {} and window is {}",
            a.attention_chunk, a.attention_window);
  faults.If(a.indexer.exists() && a.indexer.from_query_rank && a.latent.query_rank == 0, "mixers",
            "write q_rank", "an indexer needs the compressed query vector: q_rank is 0");
}

void CheckCross(const Architecture& a, Faults& faults) {
  const CrossAttention& cross = a.cross;
  if (!cross.exists()) return;
  faults.Divisor("mixers", "kv_heads", cross.kv_heads, "heads", cross.heads);
  if (cross.head > kMostWidth / cross.heads) {
    faults.Add("mixers", fmt::format("heads x head must be at most {}: {} x {}", kMostWidth,
                                     cross.heads, cross.head));
    return;
  }
  faults.Matrix("mixers", std::max(a.hidden, cross.width), cross.heads * cross.head);
}

// The condition, and the text's rows.
void CheckDiffusion(const Architecture& a, Faults& faults) {
  const auto any = [&a](const auto& has) {
    return std::any_of(a.kinds.begin(), a.kinds.end(), has);
  };
  if (!a.condition.exists()) {
    faults.If(a.text.exists() || any([](const Architecture& kind) {
                return kind.two_streams || kind.parallel_residual_norms > 0;
              }),
              "condition", "write 'condition: {time: 256}', or omit the keys of diffusion models",
              "only diffusion models can have the keys text, two_streams and beside_mixer");
    return;
  }
  faults.If(!a.input.exists() || a.prediction.target != Target::kValues || a.prediction.count == 0,
            "condition", "write 'input: {values: 64}' and 'output: {kind: values, count: 64}'",
            "the input and the output of a model with a condition must be numbers");
  faults.If(any([](const Architecture& kind) {
              return kind.mixer != Mixer::kAttention || kind.beside != Mixer::kNone ||
                     kind.latent.exists() || kind.shared_key.exists() || kind.feed_forward == 0 ||
                     kind.experts.exist();
            }),
            "blocks", "write 'blocks: {A: [attention, mlp]}'",
            "a block of a diffusion model must have attention and a dense feed-forward layer");
  faults.If(any([&a](const Architecture& kind) {
              return kind.two_streams &&
                     (!a.text.joined || kind.cross.exists() || IsGated(kind.activator) ||
                      kind.output_gate != OutputGate::kNone || kind.parallel_residual_norms > 0);
            }),
            "blocks", "write 'text: {values: 4096, tokens: 512, joined: true}'",
            "two_streams needs joined text, and blocks of self-attention followed by a "
            "feed-forward layer, both without gates");
  faults.If(any([&a](const Architecture& kind) {
              return kind.cross.exists() && (!a.text.exists() || a.text.joined);
            }),
            "blocks", "write 'text: {values: 4096, tokens: 512}'",
            "cross-attention needs a text input");
}

// Inputs and predictions other than words, and the encoder before a decoder.
void CheckEnds(const Architecture& a, Faults& faults) {
  for (const ValueInput& input : {a.input, a.encoder.input}) {
    if (!input.exists()) continue;
    faults.Matrix("input", input.values, input.taps);
    faults.Matrix("input", a.hidden, std::max(input.values, a.hidden) * input.taps);
    if (input.positions > 0) faults.Matrix("input", input.positions, a.hidden);
  }
  faults.If(a.encoder.input.positions > 0 && a.encoder.tokens > a.encoder.input.positions,
            "encoder", "write fewer tokens",
            "the encoder has {} position embeddings, but its sequences have {} tokens",
            a.encoder.input.positions, a.encoder.tokens);
  faults.If(a.encoder.exists() && a.input.exists(), "encoder", "move 'input' into 'encoder'",
            "a decoder with an encoder must read words, but the decoder has the key 'input'");
  CheckDiffusion(a, faults);
  const bool words = !a.input.exists() && a.prediction.target == Target::kWords;
  const bool plain = a.streams == 0 && a.residual_bank == 0 && a.layer_input == 0;
  faults.If(
      !plain && (!words || a.encoder.exists()), "output",
      "omit streams, residual_bank and layer_input",
      "streams, residual_bank and layer_input are modelled only in decoders that predict words");
  faults.If(a.further_tokens > 0 && (!words || a.encoder.exists()), "mtp", "omit mtp",
            "multi-token prediction is modelled only in decoders that predict words");
  faults.If(!a.towers.empty() && (!words || a.encoder.exists()), "towers", "omit towers",
            "a tower is modelled only before a decoder that predicts words and has no encoder");
  if (words) return;
  faults.If(a.tie_embeddings || a.head_bias || a.logit_cap > 0, "output",
            "omit the keys for tied embeddings, lm_head_bias and final_logit_softcapping",
            "only a head that predicts words can have tied embeddings, lm_head_bias and "
            "final_logit_softcapping");
  if (a.prediction.count > 0) faults.Matrix("output", a.prediction.count, a.hidden);
}

void CheckRecurrent(const Architecture& a, Faults& faults) {
  if (Has(a, Mixer::kShortConv)) {
    faults.Matrix("mixers", a.hidden, 3 * a.hidden);
    faults.Matrix("mixers", a.hidden, a.short_conv.conv);
  }
  if (Has(a, Mixer::kSelectiveScan)) {
    const SelectiveScan& scan = a.selective_scan;
    faults.Matrix("mixers", a.hidden, 2 * scan.inner);
    faults.Matrix("mixers", scan.inner, scan.rank + 2 * scan.state);
  }
  if (Has(a, Mixer::kDecay)) {
    if (a.decay.head > kMostWidth / a.decay.heads) {
      faults.Add("mixers", fmt::format("heads x head must be at most {}: {} x {}", kMostWidth,
                                       a.decay.heads, a.decay.head));
      return;
    }
    faults.Matrix("mixers", a.hidden, 3 * a.decay.inner());
  }
  if (Has(a, Mixer::kDelta)) {
    const DeltaRule& delta = a.delta;
    faults.Divisor("mixers", "key_heads", delta.key_heads, "value_heads", delta.value_heads);
    faults.If(delta.by_channel && delta.key_heads != delta.value_heads, "mixers", "omit key_heads",
              "with a decay per channel, key_heads must equal value_heads: {} and {}",
              delta.key_heads, delta.value_heads);
    const std::int64_t widest = std::max(delta.key, delta.value);
    if (widest > kMostWidth / delta.value_heads) {
      faults.Add("mixers", fmt::format("heads x head must be at most {}: {} x {}", kMostWidth,
                                       delta.value_heads, widest));
      return;
    }
    faults.Matrix("mixers", a.hidden, 2 * delta.keys() + 2 * delta.values());
  }
  if (!Has(a, Mixer::kStateSpace)) return;
  const StateSpace& state = a.state_space;
  faults.Divisor("mixers", "groups", state.groups, "heads", state.heads);
  if (state.head > kMostWidth / state.heads || state.state > kMostWidth / state.groups) {
    faults.Add("mixers",
               fmt::format("heads x head and groups x state must each be at most {}: they are {} "
                           "x {} and {} x {}",
                           kMostWidth, state.heads, state.head, state.groups, state.state));
    return;
  }
  faults.Matrix("mixers", a.hidden, state.inner() + state.convolved() + state.heads);
}

void CheckDescribedFeedForward(const Architecture& a, Faults& faults) {
  if (a.feed_forward > 0) faults.Matrix("feed_forwards", a.hidden, 2 * a.feed_forward);
  const Experts& experts = a.experts;
  if (!experts.exist()) return;
  faults.If(experts.per_token > experts.count, "feed_forwards", "write a smaller 'top'",
            "the router sends each token to {} experts, but the layer has only {} experts",
            experts.per_token, experts.count);
  if (experts.groups > 0 && experts.count % experts.groups != 0) {
    faults.Add("feed_forwards",
               fmt::format("groups must be a divisor of the number of experts: {} and {}",
                           experts.groups, experts.count),
               "set groups to a divisor of the number of experts, or omit groups and "
               "groups_per_token if a token can use any expert");
  } else if (experts.groups_per_token > experts.groups ||
             (experts.groups > 0 && experts.groups_per_token == 0)) {
    faults.Add("feed_forwards",
               fmt::format("groups_per_token must be between 1 and groups, {}, but is {}",
                           experts.groups, experts.groups_per_token),
               "omit groups and groups_per_token if a token can use any expert");
  }
  if (experts.shared_feed_forward > 0) {
    faults.Matrix("feed_forwards", a.hidden, experts.shared_feed_forward);
  }
  CheckSizeOfExperts("feed_forwards", a, faults);
}

// Errors in blocks of several kinds. The file readers have checked each number.
std::vector<ArchitectureFault> CheckDescribed(const Architecture& a) {
  Faults faults;
  bool counts = faults.Within("pattern", a.layers, kMostLayers);
  counts &= faults.Within("hidden_size", a.hidden, kMostWidth);
  if (!a.input.exists()) counts &= faults.Within("vocab_size", a.vocabulary, kMostVocabulary);
  if (!counts) return faults.Take();
  CheckEnds(a, faults);
  for (const Architecture& kind : a.kinds) {
    if (kind.mixer == Mixer::kAttention) CheckDescribedAttention(kind, faults);
    CheckCross(kind, faults);
    CheckRecurrent(kind, faults);
    CheckDescribedFeedForward(kind, faults);
  }
  faults.If(a.further_tokens > 0 && (a.residual_bank > 0 || a.layer_input > 0), "mtp", "omit mtp",
            "multi-token prediction is not modelled with residual_bank and layer_input");
  faults.If(a.further_tokens > 0 && a.tie_embeddings, "mtp", "omit mtp",
            "multi-token prediction is modelled only in decoders without tied word embeddings");
  CheckHeadBias(a, faults);
  if (a.vocabulary > 0) faults.Matrix("vocab_size", a.vocabulary, a.hidden);
  return faults.Take();
}

}  // namespace

std::vector<ArchitectureFault> Check(const Architecture& a) {
  if (!a.kinds.empty()) return CheckDescribed(a);
  Faults faults;
  bool counts = faults.Within("num_hidden_layers", a.layers, kMostLayers);
  counts &= faults.Within("hidden_size", a.hidden, kMostWidth);
  counts &= faults.Within("num_attention_heads", a.heads, kMostWidth);
  counts &= faults.Within("num_key_value_heads", a.kv_heads, kMostWidth);
  counts &= faults.Within("head_dim", a.head_size, kMostWidth);
  counts &= faults.Within("intermediate_size", a.feed_forward, kMostWidth);
  counts &= faults.Within("vocab_size", a.vocabulary, kMostVocabulary);
  // Only learned positions have a maximum length.
  if (a.position == Position::kLearned || a.max_positions != 0) {
    counts &= faults.Within("max_position_embeddings", a.max_positions, kMostPositions);
  }
  faults.If(a.attention_window < 0, "sliding_window", "", "sliding_window must not be negative: {}",
            a.attention_window);
  CheckFurtherTokens(a, faults);
  if (a.full_attention_every != 0) {
    if (a.attention_window == 0 && a.attention_chunk == 0) {
      faults.Add("sliding_window_pattern",
                 fmt::format("sliding_window_pattern is set, but sliding_window is not set: "
                             "sliding_window_pattern is {}",
                             a.full_attention_every),
                 "write sliding_window, or omit sliding_window_pattern");
    } else if (a.full_attention_every < 2) {
      faults.Add(
          "sliding_window_pattern",
          fmt::format("sliding_window_pattern must be at least 2: {}", a.full_attention_every),
          "write 2 if every second block attends to all tokens. If all blocks attend to all "
          "tokens, omit sliding_window");
    }
  }
  faults.If(a.attention_chunk < 0 || (a.attention_chunk > 0 && a.attention_window > 0),
            "attention_chunk_size", "omit attention_chunk_size or sliding_window",
            "attention can use chunks or a window, but not both: attention_chunk_size is {} and "
            "sliding_window is {}",
            a.attention_chunk, a.attention_window);
  if ((a.attention_chunk > 0 || a.score_cap > 0 || a.logit_cap > 0) && TraitsOf(a).encoder) {
    const char* const field = a.attention_chunk > 0 ? "attention_chunk_size"
                              : a.score_cap > 0     ? "attn_logit_softcapping"
                                                    : "final_logit_softcapping";
    faults.Add(
        field,
        fmt::format("the family {} supports neither attention chunks nor caps on scores and logits",
                    FamilyName(a)),
        fmt::format("omit {}", field));
  }
  faults.If(!TraitsOf(a).encoder && a.token_types != 0, "type_vocab_size", "omit type_vocab_size",
            "the family {} has no token types, but type_vocab_size is {}", FamilyName(a),
            a.token_types);
  faults.If(!TraitsOf(a).encoder && a.next_sentence, "next_sentence", "omit next_sentence",
            "the family {} has no head for next-sentence prediction", FamilyName(a));
  if (!counts) return faults.Take();

  CheckAttention(a, faults);
  CheckLatentAttention(a, faults);
  CheckFamily(a, faults);
  CheckParallelResidual(a, faults);
  CheckExperts(a, faults);
  faults.Matrix("intermediate_size", a.hidden, a.feed_forward);
  faults.Matrix("vocab_size", a.vocabulary, a.hidden);
  if (a.position == Position::kLearned) {
    faults.Matrix("max_position_embeddings", a.max_positions, a.hidden);
  }
  return faults.Take();
}

std::vector<ArchitectureFault> CheckLora(const Architecture& a) {
  Faults faults;
  if (a.encoder.exists() || a.input.exists() || a.prediction.target != Target::kWords) {
    faults.Add("targets",
               "adapters are modelled only in decoders that predict words and have no "
               "encoder",
               "omit lora to train all parameters");
    return faults.Take();
  }
  if (TraitsOf(a).encoder) {
    faults.Add(
        "targets",
        fmt::format("adapters of encoders are not modelled: the family is {}", FamilyName(a)),
        "omit lora to train all parameters, or use a decoder model");
    return faults.Take();
  }
  const AdaptedLayers& targets = a.lora.targets;
  const auto refuse = [&](std::string message, std::string hint) {
    faults.Add("targets", std::move(message), std::move(hint));
  };
  faults.If(
      targets == AdaptedLayers(), "targets",
      "list linear layers in targets, for example 'linear_qkv linear_proj' or 'q_proj v_proj'",
      "no linear layer has an adapter, so there is nothing to train");
  const bool parts = targets.query || targets.key || targets.value;
  faults.If(a.latent.exists() && (parts || targets.linear_qkv), "targets", "write linear_proj",
            "adapters of latent attention's queries, keys and values are not modelled");
  if (parts && (HasFusedAttention(a) || HasFusedProjections(a))) {
    refuse(fmt::format("one linear layer of the family {} computes queries, keys and values",
                       FamilyName(a)),
           "write linear_qkv");
  } else if (parts && targets.linear_qkv) {
    refuse("linear_qkv already contains the adapter of queries, keys and values",
           "write either linear_qkv, or q_proj, k_proj and v_proj");
  }
  if (targets.gate && !IsGated(a.activator)) {
    refuse(
        fmt::format("this model's feed-forward has no gate: activation is {}", Name(a.activator)),
        "write linear_fc1");
  } else if ((targets.gate || targets.up) && HasFusedGate(a)) {
    refuse(fmt::format("one linear layer of the family {} computes gate and up", FamilyName(a)),
           "write linear_fc1");
  } else if ((targets.gate || targets.up) && targets.linear_fc1) {
    refuse("linear_fc1 already contains the adapter of gate and up",
           "write either linear_fc1, or gate_proj and up_proj");
  }
  faults.If(a.experts.exist() && (targets.gate || targets.up || targets.linear_fc1 || targets.down),
            "targets",
            "list only linear layers of attention in targets: 'linear_qkv linear_proj' or 'q_proj "
            "v_proj'",
            "adapters of experts are not modelled: the model has {} experts", a.experts.count);
  std::int64_t narrowest = a.hidden;
  for (const std::int64_t width :
       {a.heads * a.head_size, a.kv_heads * a.head_size, a.feed_forward}) {
    if (width > 0) narrowest = std::min(narrowest, width);
  }
  faults.If(a.lora.rank > narrowest, "rank", "write a smaller rank, usually 8 to 64",
            "rank must be at most {}, the width of the narrowest linear layer, but is {}",
            narrowest, a.lora.rank);
  return faults.Take();
}

}  // namespace stepcast::model
