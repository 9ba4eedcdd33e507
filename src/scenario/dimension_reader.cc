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
  const auto integer = [&](std::string_view key, std::int64_t least, std::int64_t absent) {
    return reader.ReadInteger(key, Need::kOptional, {least, model::kMostMatrix}).value_or(absent);
  };
  const auto boolean = [&](std::string_view key, bool absent) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(absent);
  };
  experts.scores = reader
                       .ReadWord<model::RouterScores>(
                           "scoring_func", Need::kOptional,
                           {{"softmax_of_chosen", model::RouterScores::kSoftmaxOfChosen},
                            {"softmax", model::RouterScores::kSoftmax},
                            {"sigmoid", model::RouterScores::kSigmoid}})
                       .value_or(experts.scores);
  experts.normalized_weights = boolean("norm_topk_prob", experts.normalized_weights);
  experts.groups = integer("n_group", 1, experts.groups);
  experts.groups_per_token = integer("topk_group", 1, experts.groups_per_token);
  experts.balancing_bias = boolean("balancing_bias", experts.balancing_bias);
  experts.shared_gate = boolean("shared_expert_gate", experts.shared_gate);
  experts.router_bias = boolean("router_bias", experts.router_bias);
  experts.bias = boolean("experts_bias", experts.bias);
}

// The keys of a model file that describe a mixture of experts, with Hugging Face's names:
// `num_experts` and the keys that require it. `a` has the dimensions read before and the family's
// defaults.
void ReadExperts(MappingReader& reader, model::Architecture& a) {
  const auto count = reader.ReadInteger("num_experts", Need::kOptional, {1, model::kMostExperts});
  if (!reader.Has("num_experts")) return RefuseWithoutExperts(reader);
  model::Experts& experts = a.experts;
  const auto integer = [&](std::string_view key, std::int64_t least, std::int64_t absent) {
    return reader.ReadInteger(key, Need::kOptional, {least, model::kMostMatrix}).value_or(absent);
  };
  experts.count = count.value_or(1);
  experts.per_token =
      reader.ReadInteger("num_experts_per_tok", Need::kRequired, {1, model::kMostExperts})
          .value_or(1);
  experts.feed_forward = integer("moe_intermediate_size", 1, a.feed_forward);
  experts.shared_feed_forward =
      integer("shared_expert_intermediate_size", 0, experts.shared_feed_forward);
  experts.leading_dense = integer("first_k_dense_replace", 0, experts.leading_dense);
  experts.every = integer("decoder_sparse_step", 1, experts.every);
  ReadRouting(reader, experts);
}

std::optional<model::RotaryScaling> ReadRotaryScaling(MappingReader& reader) {
  auto fields = reader.ReadMapping("rope_scaling", Need::kOptional);
  if (!fields) return std::nullopt;
  using model::RotaryRule;
  model::RotaryScaling scaling;
  scaling.rule = fields
                     ->ReadNamed("rope_type", Need::kRequired,
                                 {RotaryRule::kLlama3, RotaryRule::kLinear, RotaryRule::kDynamic,
                                  RotaryRule::kYarn, RotaryRule::kLongRope})
                     .value_or(scaling.rule);
  const auto factor = [&](std::string_view key, double absent) {
    return fields->ReadDecimal(key, Need::kOptional, kRotaryFactor).value_or(absent);
  };
  scaling.factor = factor("factor", scaling.factor);
  scaling.low_frequency_factor = factor("low_freq_factor", scaling.low_frequency_factor);
  scaling.high_frequency_factor = factor("high_freq_factor", scaling.high_frequency_factor);
  scaling.original_positions = fields
                                   ->ReadInteger("original_max_position_embeddings",
                                                 Need::kOptional, {1, model::kMostPositions})
                                   .value_or(scaling.original_positions);
  fields->Finish();
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
    return reader.ReadInteger(key, needed, {1, model::kMostWidth}).value_or(0);
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
  a.normalization = reader
                        .ReadNamed("normalization", Need::kOptional,
                                   {Normalization::kLayerNorm, Normalization::kRmsNorm})
                        .value_or(a.normalization);
  a.activator = reader
                    .ReadNamed("activation", Need::kOptional,
                               {Activator::kGelu, Activator::kSwiGlu, Activator::kGeGlu,
                                Activator::kSquaredRelu})
                    .value_or(a.activator);
  a.position =
      reader
          .ReadNamed("position", Need::kOptional,
                     {model::Position::kLearned, model::Position::kRotary, model::Position::kAlibi})
          .value_or(a.position);
}

// Caps, heads, tied embeddings, biases and dropout.
void ReadFeatures(MappingReader& reader, Architecture& a) {
  const auto boolean = [&reader](std::string_view key, bool absent) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(absent);
  };
  a.score_cap =
      reader.ReadDecimal("attn_logit_softcapping", Need::kOptional, kCap).value_or(a.score_cap);
  a.logit_cap =
      reader.ReadDecimal("final_logit_softcapping", Need::kOptional, kCap).value_or(a.logit_cap);
  a.further_tokens =
      reader
          .ReadInteger("num_nextn_predict_layers", Need::kOptional, {0, model::kMostFurtherTokens})
          .value_or(a.further_tokens);
  a.further_repeated = boolean("mtp_use_repeated_layer", a.further_repeated);
  a.token_types =
      reader.ReadInteger("type_vocab_size", Need::kOptional, {0, model::kMostVocabulary})
          .value_or(a.token_types);
  a.next_sentence = boolean("next_sentence", a.next_sentence);
  a.tie_embeddings = boolean("tie_word_embeddings", a.tie_embeddings);
  a.head_bias = boolean("lm_head_bias", a.head_bias);
  a.parallel_residual_norms = reader.ReadInteger("parallel_residual_norms", Need::kOptional, {0, 2})
                                  .value_or(a.parallel_residual_norms);
  a.qk_norm = boolean("use_qk_norm", a.qk_norm);
  a.attention_bias = boolean("attention_bias", a.attention_bias);
  a.projection_bias = boolean("projection_bias", a.projection_bias);
  a.feed_forward_bias = boolean("mlp_bias", a.feed_forward_bias);
  a.norm_bias = boolean("norm_bias", a.norm_bias);
  a.dropout = boolean("dropout", a.dropout);
  a.attention_dropout = boolean("attention_dropout", a.attention_dropout);
}

}  // namespace

Architecture ReadDimensions(MappingReader& reader) {
  std::shared_ptr<const model::Family> family = FamilyOf(reader);
  Architecture a = family != nullptr ? TypicalOf(std::move(family)) : Architecture();
  const auto dimension = [&reader](std::string_view key, Need need, std::int64_t absent) {
    return reader.ReadInteger(key, need, {1, model::kMostMatrix}).value_or(absent);
  };
  a.hidden = dimension("hidden_size", Need::kRequired, 1);
  a.layers = dimension("num_hidden_layers", Need::kRequired, 1);
  a.heads = dimension("num_attention_heads", Need::kRequired, 1);
  a.kv_heads = dimension("num_key_value_heads", Need::kOptional, a.heads);
  a.latent = ReadLatentAttention(reader, a);
  a.head_size = dimension(
      "head_dim", Need::kOptional,
      a.latent.exists() ? a.latent.plain_head + a.latent.rotary_head : a.hidden / a.heads);
  a.feed_forward = ReadFeedForward(reader);
  a.vocabulary = dimension("vocab_size", Need::kRequired, 1);
  ReadExperts(reader, a);
  ReadForm(reader, a);
  a.max_positions =
      dimension("max_position_embeddings",
                a.position == model::Position::kLearned ? Need::kRequired : Need::kOptional,
                a.position == model::Position::kLearned ? 1 : 0);
  a.attention_window = dimension("sliding_window", Need::kOptional, 0);
  a.full_attention_every = dimension("sliding_window_pattern", Need::kOptional, 0);
  a.attention_chunk = dimension("attention_chunk_size", Need::kOptional, 0);
  ReadFeatures(reader, a);
  return a;
}

void ReadTypical(MappingReader& reader, Architecture& a) {
  ReadForm(reader, a);
  ReadFeatures(reader, a);
  ReadRouting(reader, a.experts);
  const auto flag = [&reader](const char* key) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(false);
  };
  a.sinks = flag("sinks");
  a.branch_norms = flag("branch_norms");
  a.scales_embeddings = flag("scales_embeddings");
  a.norms_all_heads = flag("norms_all_heads");
  a.weightless_norms = flag("weightless_norms");
}

model::NumericalConstants ReadConstants(MappingReader& reader, const Architecture& a) {
  model::NumericalConstants constants = FamilyOf(a).constants;
  const auto decimal = [&](std::string_view key, DecimalRange range, double absent) {
    return reader.ReadDecimal(key, Need::kOptional, range).value_or(absent);
  };
  constants.norm_epsilon = decimal("norm_epsilon", kNormEpsilon, constants.norm_epsilon);
  constants.rotary_base = decimal("rope_theta", kRotaryBase, constants.rotary_base);
  constants.rotary_scaling = ReadRotaryScaling(reader);
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
