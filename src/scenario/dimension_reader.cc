#include "src/scenario/dimension_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/scenario/family_file.h"

namespace stepcast::scenario {
namespace {

using model::Activator;
using model::Architecture;
using model::Normalization;

constexpr IntegerRange kDimension = {1, model::kMostMatrix};
constexpr IntegerRange kDimensionOrNone = {0, model::kMostMatrix};
constexpr DecimalRange kNormEpsilon = {1e-12, 1};
constexpr DecimalRange kRotaryBase = {1, 1e12};
constexpr DecimalRange kRotaryFactor = {1, 1e6};

// Keys that require experts.
constexpr std::string_view kKeysOfExperts[] = {"num_experts_per_tok",
                                               "moe_intermediate_size",
                                               "shared_expert_intermediate_size",
                                               "first_k_dense_replace",
                                               "decoder_sparse_step",
                                               "scoring_func",
                                               "norm_topk_prob",
                                               "n_group",
                                               "topk_group",
                                               "balancing_bias",
                                               "shared_expert_gate",
                                               "router_bias",
                                               "experts_bias"};

// Reports keys of experts in a model without experts.
void RefuseWithoutExperts(MappingReader& reader) {
  for (const std::string_view key : kKeysOfExperts) {
    if (!reader.ReadNode(key, Need::kOptional, "a value")) continue;
    reader.Report(
        key, "model.impossible",
        fmt::format("the key '{}' applies only to models with experts, but num_experts is "
                    "missing",
                    key),
        "write num_experts, or remove the key");
  }
}

// How tokens choose experts, and the biases of experts.
void ReadRouting(MappingReader& reader, model::Experts& experts) {
  reader.Optional("scoring_func", experts.scores,
                  {{"softmax_of_chosen", model::RouterScores::kSoftmaxOfChosen},
                   {"softmax", model::RouterScores::kSoftmax},
                   {"sigmoid", model::RouterScores::kSigmoid}});
  reader.Optional("norm_topk_prob", experts.normalized_weights);
  reader.Optional("n_group", experts.groups, kDimension);
  reader.Optional("topk_group", experts.groups_per_token, kDimension);
  reader.Optional("balancing_bias", experts.balancing_bias);
  reader.Optional("shared_expert_gate", experts.shared_gate);
  reader.Optional("router_bias", experts.router_bias);
  reader.Optional("experts_bias", experts.bias);
}

// The keys of a model file that describe a mixture of experts, with Hugging Face's names:
// `num_experts` and the keys that require it. `a` has the dimensions read before and the family's
// defaults.
void ReadExperts(MappingReader& reader, model::Architecture& a) {
  const auto count = reader.ReadInteger("num_experts", Need::kOptional, {1, model::kMostExperts});
  if (!reader.Has("num_experts")) return RefuseWithoutExperts(reader);
  model::Experts& experts = a.experts;
  experts.count = count.value_or(1);
  experts.feed_forward = a.feed_forward;
  reader.Required("num_experts_per_tok", experts.per_token, {1, model::kMostExperts});
  reader.Optional("moe_intermediate_size", experts.feed_forward, kDimension);
  reader.Optional("shared_expert_intermediate_size", experts.shared_feed_forward, kDimensionOrNone);
  reader.Optional("first_k_dense_replace", experts.leading_dense, kDimensionOrNone);
  reader.Optional("decoder_sparse_step", experts.every, kDimension);
  ReadRouting(reader, experts);
}

model::RotaryScaling ReadRotaryScaling(MappingReader& fields) {
  using enum model::RotaryRule;
  model::RotaryScaling scaling;
  fields.Required("rope_type", scaling.rule, {kLlama3, kLinear, kDynamic, kYarn, kLongRope});
  fields.Optional("factor", scaling.factor, kRotaryFactor);
  fields.Optional("low_freq_factor", scaling.low_frequency_factor, kRotaryFactor);
  fields.Optional("high_freq_factor", scaling.high_frequency_factor, kRotaryFactor);
  fields.Optional("original_max_position_embeddings", scaling.original_positions,
                  {1, model::kMostPositions});
  return scaling;
}

// Null after a mistake.
std::shared_ptr<const model::Family> FamilyOf(MappingReader& reader) {
  std::string what;
  if (!reader.Has("family")) {
    what = fmt::format("one of {}", fmt::join(FamiliesOfDimensions(), ", "));
  }
  const std::optional<Node> node = reader.ReadNode("family", Need::kRequired, what);
  if (!node) return nullptr;
  Diagnostics& diagnostics = reader.diagnostics();
  const auto read_word = [&] {
    const std::vector<std::string> names = FamiliesOfDimensions();
    if (names.empty()) {
      reader.Report("family", "file.not-found", "the shipped model families were not found",
                    fmt::format("set STEPCAST_DATA to a folder that contains {}", kFamilies));
      return;
    }
    ReadWordIndex(*node, std::vector<std::string_view>(names.begin(), names.end()), diagnostics);
  };
  const bool asks = node->schema() != nullptr;
  if (asks) read_word();
  if (node->kind() == NodeKind::kScalar) {
    const std::size_t before = diagnostics.size();
    auto family = FamilyOfDimensions(node->scalar(), diagnostics);
    if (family != nullptr || diagnostics.size() > before) return family;
  }
  if (!asks) read_word();
  if (node->kind() != NodeKind::kScalar || diagnostics.empty()) return nullptr;
  const std::vector<std::string> described = FamiliesOfBlocks();
  const std::string unmodelled = UnmodelledFamily(node->scalar());
  if (std::find(described.begin(), described.end(), node->scalar()) != described.end()) {
    diagnostics.back().hint =
        "models of this family must be described by their blocks: mixers, feed_forwards, blocks "
        "and pattern (docs/formats/model.md)";
  } else if (!unmodelled.empty()) {
    diagnostics.back().hint = unmodelled;
  }
  return nullptr;
}

// Required for the family that has it; for others all keys are mistakes (model::Check).
model::LatentAttention ReadLatentAttention(MappingReader& reader, const Architecture& a) {
  const Need need = TraitsOf(a).latent ? Need::kRequired : Need::kOptional;
  const auto width = [&](std::string_view key, Need needed) {
    return reader.ReadInteger(key, needed, kWidth).value_or(0);
  };
  return {.kv_rank = width("kv_lora_rank", need),
          .query_rank = width("q_lora_rank", Need::kOptional),
          .plain_head = width("qk_nope_head_dim", need),
          .rotary_head = width("qk_rope_head_dim", need),
          .value_head = width("v_head_dim", need)};
}

// The width of dense blocks. If every block has experts, they have a width of their own.
std::int64_t ReadFeedForward(MappingReader& reader) {
  const bool experts_alone = reader.Has("num_experts") && reader.Has("moe_intermediate_size") &&
                             !reader.Has("first_k_dense_replace") &&
                             !reader.Has("decoder_sparse_step");
  const std::string_view key = experts_alone && !reader.Has("intermediate_size")
                                   ? "moe_intermediate_size"
                                   : "intermediate_size";
  return reader.ReadInteger(key, Need::kRequired, {1, model::kMostMatrix}).value_or(1);
}

// Norms, activation and positions.
void ReadForm(MappingReader& reader, Architecture& a) {
  using enum model::Position;
  reader.Optional("normalization", a.normalization,
                  {Normalization::kLayerNorm, Normalization::kRmsNorm});
  reader.Optional(
      "activation", a.activator,
      {Activator::kGelu, Activator::kSwiGlu, Activator::kGeGlu, Activator::kSquaredRelu});
  reader.Optional("position", a.position, {kLearned, kRotary, kAlibi});
}

// Caps, heads, tied embeddings, biases and dropout.
void ReadFeatures(MappingReader& reader, Architecture& a) {
  reader.Optional("attn_logit_softcapping", a.score_cap, kCap);
  reader.Optional("final_logit_softcapping", a.logit_cap, kCap);
  reader.Optional("num_nextn_predict_layers", a.further_tokens, {0, model::kMostFurtherTokens});
  reader.Optional("mtp_use_repeated_layer", a.further_repeated);
  reader.Optional("type_vocab_size", a.token_types, {0, model::kMostVocabulary});
  reader.Optional("next_sentence", a.next_sentence);
  reader.Optional("tie_word_embeddings", a.tie_embeddings);
  reader.Optional("lm_head_bias", a.head_bias);
  reader.Optional("parallel_residual_norms", a.parallel_residual_norms, {0, 2});
  reader.Optional("use_qk_norm", a.qk_norm);
  reader.Optional("attention_bias", a.attention_bias);
  reader.Optional("projection_bias", a.projection_bias);
  reader.Optional("mlp_bias", a.feed_forward_bias);
  reader.Optional("norm_bias", a.norm_bias);
  reader.Optional("dropout", a.dropout);
  reader.Optional("attention_dropout", a.attention_dropout);
}

}  // namespace

Architecture ReadDimensions(MappingReader& reader) {
  std::shared_ptr<const model::Family> family = FamilyOf(reader);
  Architecture a = family != nullptr ? TypicalOf(std::move(family)) : Architecture();
  reader.Required("hidden_size", a.hidden, kDimension);
  reader.Required("num_hidden_layers", a.layers, kDimension);
  reader.Required("num_attention_heads", a.heads, kDimension);
  a.kv_heads = a.heads;
  reader.Optional("num_key_value_heads", a.kv_heads, kDimension);
  a.latent = ReadLatentAttention(reader, a);
  a.head_size = a.latent.exists() ? a.latent.plain_head + a.latent.rotary_head : a.hidden / a.heads;
  reader.Optional("head_dim", a.head_size, kDimension);
  a.feed_forward = ReadFeedForward(reader);
  reader.Required("vocab_size", a.vocabulary, kDimension);
  ReadExperts(reader, a);
  ReadForm(reader, a);
  const bool learned = a.position == model::Position::kLearned;
  reader.Read("max_position_embeddings", learned ? Need::kRequired : Need::kOptional,
              a.max_positions, kDimension);
  reader.Optional("sliding_window", a.attention_window, kDimension);
  reader.Optional("sliding_window_pattern", a.full_attention_every, kDimension);
  reader.Optional("attention_chunk_size", a.attention_chunk, kDimension);
  ReadFeatures(reader, a);
  return a;
}

void ReadTypical(MappingReader& reader, Architecture& a) {
  ReadForm(reader, a);
  ReadFeatures(reader, a);
  ReadRouting(reader, a.experts);
  reader.Optional("sinks", a.sinks);
  reader.Optional("branch_norms", a.branch_norms);
  reader.Optional("scales_embeddings", a.scales_embeddings);
  reader.Optional("norms_all_heads", a.norms_all_heads);
  reader.Optional("weightless_norms", a.weightless_norms);
}

model::NumericalConstants ReadConstants(MappingReader& reader, const Architecture& a) {
  model::NumericalConstants constants = FamilyOf(a).constants;
  reader.Optional("norm_epsilon", constants.norm_epsilon, kNormEpsilon);
  reader.Optional("rope_theta", constants.rotary_base, kRotaryBase);
  reader.Section("rope_scaling", Need::kOptional, constants.rotary_scaling, ReadRotaryScaling);
  return constants;
}

void CheckConstants(MappingReader& reader, const Architecture& architecture) {
  ReadConstants(reader, architecture);
  for (const char* key : {"rope_theta", "rope_scaling"}) {
    if (architecture.position == model::Position::kRotary || !reader.Has(key)) continue;
    reader.Report(key, "model.impossible",
                  fmt::format("the key '{}' applies only to rotary positions, but position "
                              "is {}",
                              key, Name(architecture.position)),
                  "remove the key, or write 'position: rotary'");
  }
}

}  // namespace stepcast::scenario
