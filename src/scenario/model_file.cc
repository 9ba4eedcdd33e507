#include "src/scenario/model_file.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/formats/huggingface.h"
#include "src/model/architecture.h"
#include "src/model/other_families.h"
#include "src/parallel/axis.h"
#include "src/scenario/block_reader.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/family_file.h"

namespace stepcast::scenario {
// The keys of a model file that describe a mixture of experts, with Hugging Face's names:
// `num_experts` and the keys that require it. `architecture` has the dimensions read before and the
// family's defaults.
void ReadExperts(MappingReader& reader, model::Architecture& architecture);

namespace {

using model::RouterScores;

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
    reader.Report(key, "model.impossible",
                  fmt::format("a model without experts has no '{}': num_experts is absent", key),
                  "write num_experts, or leave it out");
  }
}

}  // namespace

void ReadExperts(MappingReader& reader, model::Architecture& a) {
  const auto count = reader.ReadInteger("num_experts", Need::kOptional, {1, model::kMostExperts});
  if (!reader.Has("num_experts")) return RefuseWithoutExperts(reader);
  model::Experts& experts = a.experts;
  const auto integer = [&](std::string_view key, std::int64_t least, std::int64_t absent) {
    return reader.ReadInteger(key, Need::kOptional, {least, model::kMostMatrix}).value_or(absent);
  };
  const auto boolean = [&](std::string_view key, bool absent) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(absent);
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
  experts.scores =
      reader
          .ReadWord<RouterScores>("scoring_func", Need::kOptional,
                                  {{"softmax_of_chosen", RouterScores::kSoftmaxOfChosen},
                                   {"softmax", RouterScores::kSoftmax},
                                   {"sigmoid", RouterScores::kSigmoid}})
          .value_or(experts.scores);
  experts.normalized_weights = boolean("norm_topk_prob", experts.normalized_weights);
  experts.groups = integer("n_group", 1, experts.groups);
  experts.groups_per_token = integer("topk_group", 1, experts.groups_per_token);
  experts.balancing_bias = boolean("balancing_bias", experts.balancing_bias);
  experts.shared_gate = boolean("shared_expert_gate", experts.shared_gate);
  experts.router_bias = boolean("router_bias", experts.router_bias);
  experts.bias = boolean("experts_bias", experts.bias);
}

namespace {

using model::Activator;
using model::Architecture;
using model::Family;
using model::LayerList;
using model::ListedLayer;
using model::Normalization;

enum class ModelKind : std::uint8_t { kTransformer, kLayers };

constexpr std::string_view kJsonEnding = ".json";

constexpr DecimalRange kNormEpsilon = {1e-12, 1};
constexpr DecimalRange kCap = {0, 1e6};
constexpr DecimalRange kRotaryBase = {1, 1e12};
constexpr DecimalRange kRotaryFactor = {1, 1e6};

// "llama3.1-8b" for "models/llama3.1-8b.yaml". A config.json is named after its folder, because all
// of them have the same file name.
std::string NameOfFile(std::string_view file) {
  const auto split = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos
               ? std::pair(std::string_view(), path)
               : std::pair(path.substr(0, slash), path.substr(slash + 1));
  };
  const auto [folder, name] = split(file);
  if (name == "config.json" && !folder.empty()) return std::string(split(folder).second);
  return std::string(name.substr(0, name.rfind('.')));
}

// ---- kind: transformer ----

std::optional<model::RotaryScaling> ReadRotaryScaling(MappingReader& reader) {
  auto fields = reader.ReadMapping("rope_scaling", Need::kOptional);
  if (!fields) return std::nullopt;
  using model::RotaryRule;
  model::RotaryScaling scaling;
  scaling.rule = fields
                     ->ReadWord<RotaryRule>("rope_type", Need::kRequired,
                                            {{"llama3", RotaryRule::kLlama3},
                                             {"linear", RotaryRule::kLinear},
                                             {"dynamic", RotaryRule::kDynamic},
                                             {"yarn", RotaryRule::kYarn},
                                             {"longrope", RotaryRule::kLongRope}})
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

model::NumericalConstants ReadConstants(MappingReader& reader, Family family) {
  model::NumericalConstants constants = model::NumericalConstants::Of(family);
  const auto decimal = [&](std::string_view key, DecimalRange range, double absent) {
    return reader.ReadDecimal(key, Need::kOptional, range).value_or(absent);
  };
  constants.norm_epsilon = decimal("norm_epsilon", kNormEpsilon, constants.norm_epsilon);
  constants.rotary_base = decimal("rope_theta", kRotaryBase, constants.rotary_base);
  constants.rotary_scaling = ReadRotaryScaling(reader);
  return constants;
}

// The constants are checked with the rest of the model. LoadModelConstants returns them.
void CheckConstants(MappingReader& reader, const Architecture& architecture) {
  ReadConstants(reader, architecture.family);
  for (const char* key : {"rope_theta", "rope_scaling"}) {
    if (architecture.position == model::Position::kRotary || !reader.Has(key)) continue;
    reader.Report(key, "model.impossible",
                  fmt::format("'{}' applies to rotary positions only: position is {}", key,
                              Name(architecture.position)),
                  "leave it out, or write 'position: rotary'");
  }
}

Family ReadFamily(MappingReader& reader) {
  const auto family = reader.ReadWord<Family>(
      "family", Need::kRequired,
      {{"gpt2", Family::kGpt2},         {"llama", Family::kLlama},
       {"mistral", Family::kMistral},   {"mixtral", Family::kMixtral},
       {"qwen2", Family::kQwen2},       {"qwen3", Family::kQwen3},
       {"deepseek", Family::kDeepseek}, {"gpt_oss", Family::kGptOss},
       {"gemma2", Family::kGemma2},     {"gemma3", Family::kGemma3},
       {"phi3", Family::kPhi3},         {"olmo2", Family::kOlmo2},
       {"glm4_moe", Family::kGlm4Moe},  {"llama4", Family::kLlama4},
       {"gemma", Family::kGemma},       {"glm", Family::kGlm},
       {"glm4", Family::kGlm4},         {"starcoder2", Family::kStarcoder2},
       {"olmoe", Family::kOlmoe},       {"gptj", Family::kGptj},
       {"gpt_neox", Family::kGptNeox},  {"phi", Family::kPhi},
       {"falcon", Family::kFalcon},     {"cohere", Family::kCohere},
       {"mpt", Family::kMpt},           {"nemotron", Family::kNemotron},
       {"bert", Family::kBert},         {"megatron-bert", Family::kMegatronBert}});
  if (family) return *family;
  for (const YamlNode::Entry& entry : reader.node().tree()->entries) {
    if (entry.key != "family") continue;
    const std::vector<std::string> described = FamiliesOfBlocks();
    if (std::find(described.begin(), described.end(), entry.value->scalar) != described.end()) {
      reader.diagnostics().back().hint =
          "models of this family must be described by their blocks: mixers, feed_forwards, blocks "
          "and pattern (docs/formats/model.md)";
      continue;
    }
    const model::OtherFamily* other = model::OtherFamilyOf(entry.value->scalar);
    if (other == nullptr) continue;
    reader.diagnostics().back().hint = model::Difference(*other);
  }
  return Family::kLlama;
}

// Required for the family that has it; for others all keys are mistakes (model::Check).
model::LatentAttention ReadLatentAttention(MappingReader& reader, Family family) {
  const Need need = family == Family::kDeepseek ? Need::kRequired : Need::kOptional;
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

Architecture ReadArchitecture(MappingReader& reader, Family family) {
  Architecture a = TypicalOf(family);
  const auto dimension = [&reader](std::string_view key, Need need, std::int64_t absent) {
    return reader.ReadInteger(key, need, {1, model::kMostMatrix}).value_or(absent);
  };
  const auto boolean = [&reader](std::string_view key, bool absent) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(absent);
  };
  a.hidden = dimension("hidden_size", Need::kRequired, 1);
  a.layers = dimension("num_hidden_layers", Need::kRequired, 1);
  a.heads = dimension("num_attention_heads", Need::kRequired, 1);
  a.kv_heads = dimension("num_key_value_heads", Need::kOptional, a.heads);
  a.latent = ReadLatentAttention(reader, family);
  a.head_size = dimension(
      "head_dim", Need::kOptional,
      a.latent.exists() ? a.latent.plain_head + a.latent.rotary_head : a.hidden / a.heads);
  a.feed_forward = ReadFeedForward(reader);
  a.vocabulary = dimension("vocab_size", Need::kRequired, 1);
  ReadExperts(reader, a);
  a.normalization = reader
                        .ReadWord<Normalization>("normalization", Need::kOptional,
                                                 {{"layernorm", Normalization::kLayerNorm},
                                                  {"rmsnorm", Normalization::kRmsNorm}})
                        .value_or(a.normalization);
  a.activator = reader
                    .ReadWord<Activator>("activation", Need::kOptional,
                                         {{"gelu", Activator::kGelu},
                                          {"swiglu", Activator::kSwiGlu},
                                          {"geglu", Activator::kGeGlu},
                                          {"squared_relu", Activator::kSquaredRelu}})
                    .value_or(a.activator);
  a.position = reader
                   .ReadWord<model::Position>("position", Need::kOptional,
                                              {{"learned", model::Position::kLearned},
                                               {"rotary", model::Position::kRotary},
                                               {"alibi", model::Position::kAlibi}})
                   .value_or(a.position);
  a.max_positions =
      dimension("max_position_embeddings",
                a.position == model::Position::kLearned ? Need::kRequired : Need::kOptional,
                a.position == model::Position::kLearned ? 1 : 0);
  a.attention_window = dimension("sliding_window", Need::kOptional, 0);
  a.full_attention_every = dimension("sliding_window_pattern", Need::kOptional, 0);
  a.attention_chunk = dimension("attention_chunk_size", Need::kOptional, 0);
  a.score_cap =
      reader.ReadDecimal("attn_logit_softcapping", Need::kOptional, kCap).value_or(a.score_cap);
  a.logit_cap =
      reader.ReadDecimal("final_logit_softcapping", Need::kOptional, kCap).value_or(a.logit_cap);
  a.further_tokens = reader.ReadInteger("num_nextn_predict_layers", Need::kOptional, {0, 1})
                         .value_or(a.further_tokens);
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
  return a;
}

// The module names of a file with described blocks; null: general ones.
std::shared_ptr<const model::DescribedFamily> ReadDescribedFamily(MappingReader& reader) {
  const auto name = reader.ReadText("family", Need::kOptional);
  if (!name) return nullptr;
  auto family = NamesOfFamily(*name, reader.diagnostics());
  if (family == nullptr && !reader.failed()) {
    reader.Report(
        "family", "input.unknown-word", fmt::format("there is no family {}", Quoted(*name)),
        fmt::format(
            "families with described blocks: {}; without 'family', modules get general names",
            fmt::join(FamiliesOfBlocks(), ", ")));
  }
  return family;
}

// `family`: for a config.json, whose description does not name it.
std::optional<model::Model> ReadTransformer(
    MappingReader& reader, std::string name,
    std::shared_ptr<const model::DescribedFamily> family = nullptr) {
  const bool described = DescribesBlocks(reader);
  if (described && family == nullptr) family = ReadDescribedFamily(reader);
  const Architecture architecture = described ? ReadBlocks(reader, std::move(family))
                                              : ReadArchitecture(reader, ReadFamily(reader));
  CheckConstants(reader, architecture);
  reader.ReadText("source", Need::kOptional);
  const std::optional<std::int64_t> stated =
      reader.ReadInteger("parameters", Need::kOptional, {.least = 1});
  reader.Finish();
  if (reader.failed()) return std::nullopt;

  for (model::ArchitectureFault& fault : Check(architecture)) {
    reader.Report(fault.field, "model.impossible", std::move(fault.message), std::move(fault.hint));
  }
  if (reader.failed()) return std::nullopt;
  model::Model model = Build(std::move(name), architecture);
  if (stated.has_value() && *stated != model.all_parameter_count()) {
    reader.Report("parameters", "model.parameter-count",
                  fmt::format("the dimensions give {} parameters, but the file states {}",
                              model.all_parameter_count(), *stated),
                  "correct the dimensions, or leave 'parameters' out");
    return std::nullopt;
  }
  return model;
}

// ---- kind: layers ----

// `communication: {forward: [[all_reduce, tensor, 8 MiB]], backward: [...]}`.
std::vector<model::ListedCommunication> ReadCommunication(MappingReader& reader,
                                                          std::string_view pass) {
  std::vector<model::ListedCommunication> list;
  const auto entries = reader.ReadSequence(pass, Need::kOptional);
  if (!entries) return list;
  for (const Node& entry : *entries) {
    Diagnostics& diagnostics = reader.diagnostics();
    const auto fields = ReadSequence(entry, diagnostics);
    if (!fields) continue;
    if (fields->size() != 3) {
      diagnostics.push_back(
          {"model.communication", entry.location(),
           fmt::format("a collective has 3 entries, this has {}", fields->size()),
           "write [collective, axis, size], for example [all_reduce, tensor, 8 MiB]"});
      continue;
    }
    const auto collective =
        ReadWord<CollectiveKind>((*fields)[0],
                                 {{"all_reduce", CollectiveKind::kAllReduce},
                                  {"all_gather", CollectiveKind::kAllGather},
                                  {"reduce_scatter", CollectiveKind::kReduceScatter},
                                  {"all_to_all", CollectiveKind::kAllToAll}},
                                 diagnostics);
    const auto axis = ReadWord<parallel::AxisSet>(
        (*fields)[1],
        {{"tensor", parallel::AxisSet(parallel::Axis::kTensor)}, {"expert", parallel::kExpert}},
        diagnostics);
    const auto bytes = ReadBytes((*fields)[2], Zero::kRefused, diagnostics);
    if (collective && axis && bytes) list.push_back({*collective, *axis, *bytes});
  }
  return list;
}

ListedLayer ReadListedLayer(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  ListedLayer layer;
  layer.name = reader.ReadText("name", Need::kRequired).value_or("");
  layer.repeat = reader.ReadInteger("repeat", Need::kOptional, {1, kMostListedLayers}).value_or(1);
  if (const auto sizes = reader.ReadSequence("parameters", Need::kRequired)) {
    for (const Node& size : *sizes) {
      if (const auto elements = ReadInteger(size, {1, kMostListedParameters}, diagnostics)) {
        layer.parameters.push_back(*elements);
      }
    }
  }
  layer.forward = reader.ReadTime("forward", Need::kRequired, Zero::kAllowed).value_or(Time());
  layer.backward = reader.ReadTime("backward", Need::kRequired, Zero::kAllowed).value_or(Time());
  layer.backward_weight = reader.ReadTime("backward_weight", Need::kOptional, Zero::kAllowed);
  if (layer.backward_weight && *layer.backward_weight > layer.backward && !reader.failed()) {
    reader.Report(
        "backward_weight", "model.backward-weight",
        fmt::format("the weight gradients take {}, but the whole backward takes {}",
                    FormatTime(*layer.backward_weight), FormatTime(layer.backward)),
        "write the time of the whole backward, gradients of inputs and of weights together");
  }
  layer.activation =
      reader.ReadBytes("activation", Need::kOptional, Zero::kAllowed).value_or(Bytes());
  if (auto communication = reader.ReadMapping("communication", Need::kOptional)) {
    layer.forward_communication = ReadCommunication(*communication, "forward");
    layer.backward_communication = ReadCommunication(*communication, "backward");
    communication->Finish();
  }
  layer.output = reader.ReadBytes("output", Need::kOptional, Zero::kAllowed).value_or(Bytes());
  reader.Finish();
  return layer;
}

// Sums over a list's layers, in long double, which holds more than 64 bits.
struct Totals {
  std::int64_t layers = 0;  // at most kMostListedLayers a line of the file
  long double tensors = 0, parameters = 0, picoseconds = 0, activation = 0;
};

Totals TotalsOf(const LayerList& list) {
  Totals totals;
  for (const ListedLayer& layer : list.layers) {
    const auto repeat = static_cast<long double>(layer.repeat);
    totals.layers += layer.repeat;
    totals.tensors += repeat * static_cast<long double>(layer.parameters.size());
    for (const std::int64_t elements : layer.parameters) {
      totals.parameters += repeat * static_cast<long double>(elements);
    }
    totals.picoseconds += repeat * (static_cast<long double>(layer.forward.picoseconds()) +
                                    static_cast<long double>(layer.backward.picoseconds()));
    totals.activation += repeat * static_cast<long double>(layer.activation.count());
  }
  return totals;
}

void CheckSize(const LayerList& list, MappingReader& reader) {
  const Totals totals = TotalsOf(list);
  const auto limit = [&reader](bool beyond, std::string_view what) {
    if (!beyond) return;
    reader.Report("layers", "model.too-large",
                  fmt::format("the layers, including repeats, have more than {}", what),
                  "check the repeats, sizes and units");
  };
  limit(totals.layers > kMostListedLayers, fmt::format("{} layers", kMostListedLayers));
  limit(totals.tensors > static_cast<long double>(kMostListedTensors),
        fmt::format("{} parameter tensors", kMostListedTensors));
  limit(totals.parameters > static_cast<long double>(kMostListedParameters),
        fmt::format("{} parameters", kMostListedParameters));
  limit(totals.picoseconds + static_cast<long double>(list.optimizer_step.picoseconds()) >
            static_cast<long double>(kMostListedTime.picoseconds()),
        "15 min of time in one micro-batch and the optimizer's step");
  limit(totals.activation > static_cast<long double>(kMostListedActivation.count()),
        "1 PiB of activations");
  if (totals.parameters == 0) {
    reader.Report("layers", "model.no-parameters",
                  "no layer has parameters, so there is nothing to train",
                  "give at least one layer 'parameters: [elements, ...]'");
  }
}

std::optional<model::Model> ReadLayerList(MappingReader& reader, std::string name,
                                          Diagnostics& diagnostics) {
  LayerList list;
  if (const auto layers = reader.ReadSequence("layers", Need::kRequired)) {
    if (layers->empty()) {
      reader.Report("layers", "input.no-value", "'layers' must not be empty",
                    "write for example '- {name: block, parameters: [524288], forward: 10 ms, "
                    "backward: 20 ms}'");
    }
    for (const Node& layer : *layers) list.layers.push_back(ReadListedLayer(layer, diagnostics));
  }
  list.optimizer_step =
      reader.ReadTime("optimizer_step", Need::kOptional, Zero::kAllowed).value_or(Time());
  reader.ReadText("source", Need::kOptional);
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  CheckSize(list, reader);
  if (reader.failed()) return std::nullopt;
  return Build(std::move(name), list);
}

bool IsHuggingFace(const Node& node) {
  const auto has = [&node](std::string_view key) {
    const auto& entries = node.tree()->entries;
    return std::any_of(entries.begin(), entries.end(),
                       [key](const YamlNode::Entry& entry) { return entry.key == key; });
  };
  return has("model_type") && !has("kind");
}

Result<LoadedModel> LoadDescribed(const formats::JsonObject& config, const Node& family,
                                  const std::string& path, const ConfigParts& parts = {}) {
  const auto architecture_of = [](const Node& description) {
    Diagnostics reported_later;
    MappingReader reader(description, reported_later);
    return ReadArchitecture(reader, ReadFamily(reader));
  };
  Diagnostics diagnostics;
  std::optional<FamilyModel> described =
      DescribeConfig(config, family, parts, architecture_of, diagnostics);
  if (!described) return tl::make_unexpected(std::move(diagnostics));
  MappingReader reader(described->description, diagnostics);
  reader.ReadText("kind", Need::kOptional);
  std::string name = described->name.empty() ? NameOfFile(path) : described->name;
  std::optional<model::Model> model = ReadTransformer(reader, std::move(name), described->family);
  if (!model) return tl::make_unexpected(std::move(diagnostics));
  return LoadedModel{.model = *std::move(model),
                     .warnings = std::move(described->warnings),
                     .constants = described->constants};
}

}  // namespace

std::optional<model::Model> ReadModel(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  const auto kind = reader.ReadWord<ModelKind>(
      "kind", Need::kRequired,
      {{"transformer", ModelKind::kTransformer}, {"layers", ModelKind::kLayers}});
  std::string name = reader.ReadText("name", Need::kOptional)
                         .value_or(node.path().empty() ? NameOfFile(node.file()) : node.path());
  // Without a kind, every other key would seem unknown.
  if (!kind.has_value()) return std::nullopt;
  return *kind == ModelKind::kTransformer ? ReadTransformer(reader, std::move(name))
                                          : ReadLayerList(reader, std::move(name), diagnostics);
}

Result<LoadedModel> ParseConfig(std::string_view text, const std::string& path) {
  const Result<formats::JsonObject> config = formats::JsonObject::Parse(text, path);
  if (!config.has_value()) return tl::make_unexpected(config.error());
  const Result<Node> family = FamilyOf(*config);
  if (!family.has_value()) return tl::make_unexpected(family.error());
  return LoadDescribed(*config, *family, path);
}

Result<LoadedModel> LoadModel(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text.has_value()) return tl::make_unexpected(std::move(diagnostics));
  if (path.ends_with(kJsonEnding)) return ParseConfig(*text, path);
  if (const std::optional<Node> node = ParseDocument(*text, path, diagnostics)) {
    if (IsHuggingFace(*node)) return ParseConfig(*text, path);
    std::optional<model::Model> model = ReadModel(*node, diagnostics);
    if (model.has_value() && diagnostics.empty()) return LoadedModel{*std::move(model)};
  }
  return tl::make_unexpected(std::move(diagnostics));
}

bool NamesFamily(const Node& node) {
  const auto& entries = node.tree()->entries;
  return std::any_of(entries.begin(), entries.end(),
                     [](const YamlNode::Entry& entry) { return entry.key == "config"; });
}

std::optional<LoadedModel> ReadConfigOfFamily(const Node& node, std::string_view folder,
                                              Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  const auto file = [&](std::string_view key) -> std::optional<std::string> {
    const auto path = reader.ReadText(key, Need::kRequired);
    if (!path) return std::nullopt;
    auto found = FindInput(*path, folder);
    if (!found) {
      reader.Report(key, "file.not-found", fmt::format("there is no such file: {}", Quoted(*path)),
                    PlacesTried(*path, folder));
    }
    return found;
  };
  const auto config_path = file("config");
  const bool own = reader.Has("family");
  const auto family_path = own ? file("family") : std::nullopt;
  ConfigParts parts{.further_tokens = reader.ReadBoolean("mtp", Need::kOptional).value_or(false)};
  if (auto images = reader.ReadMapping("towers", Need::kOptional)) {
    const auto patches = [&images](std::string_view key, Need need) {
      return images->ReadInteger(key, need, {1, model::kMostPositions});
    };
    parts.patches = patches("patches", Need::kRequired);
    parts.image = patches("image", Need::kOptional);
    parts.frozen = images->ReadBoolean("frozen", Need::kOptional).value_or(false);
    images->Finish();
  }
  if (auto encoder = reader.ReadMapping("encoder", Need::kOptional)) {
    parts.encoder_tokens =
        encoder->ReadInteger("tokens", Need::kRequired, {1, model::kMostPositions});
    encoder->Finish();
  }
  reader.Finish();
  if (!config_path || reader.failed()) return std::nullopt;
  const auto text = ReadTextFile(*config_path, diagnostics);
  if (!text) return std::nullopt;
  const auto config = formats::JsonObject::Parse(*text, *config_path);
  if (!config.has_value()) {
    diagnostics.insert(diagnostics.end(), config.error().begin(), config.error().end());
    return std::nullopt;
  }
  Result<Node> family = Node(nullptr, "");
  if (own) {
    std::optional<Node> read = ReadFamily(*family_path, diagnostics);
    if (!read) return std::nullopt;
    family = *std::move(read);
  } else if (family = FamilyOf(*config); !family) {
    reader.Report("config", "model.unknown-type",
                  "no shipped family describes models of this type: " + Quoted(*config_path),
                  "name a family file: family: PATH");
    return std::nullopt;
  }
  Result<LoadedModel> loaded = LoadDescribed(*config, *family, *config_path, parts);
  if (loaded) return *std::move(loaded);
  diagnostics.insert(diagnostics.end(), loaded.error().begin(), loaded.error().end());
  return std::nullopt;
}

model::NumericalConstants ReadModelConstants(const Node& node) {
  if (NamesFamily(node)) return {};
  Diagnostics diagnostics;
  MappingReader reader(node, diagnostics);
  if (!reader.Has("family") || DescribesBlocks(reader)) return {};
  return ReadConstants(reader, ReadFamily(reader));
}

Result<model::NumericalConstants> LoadModelConstants(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text.has_value()) return tl::make_unexpected(std::move(diagnostics));
  std::optional<Node> node;
  if (!path.ends_with(kJsonEnding)) {
    node = ParseDocument(*text, path, diagnostics);
    if (!node.has_value()) return tl::make_unexpected(std::move(diagnostics));
    if (!IsHuggingFace(*node)) return ReadModelConstants(*node);
  }
  const Result<LoadedModel> loaded = ParseConfig(*text, path);
  if (!loaded.has_value()) return tl::make_unexpected(loaded.error());
  return loaded->constants;
}

}  // namespace stepcast::scenario
