#include "src/scenario/block_reader.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/model/family.h"
#include "src/scenario/dimension_reader.h"
#include "src/scenario/end_reader.h"
#include "src/scenario/family_file.h"
#include "src/scenario/part_reader.h"

namespace stepcast::scenario {
namespace {

using model::Activator;
using model::Architecture;
using model::Mixer;
using model::OutputGate;
using model::RouterScores;

constexpr DecimalRange kRotaryShare = {0, 1};
constexpr std::int64_t kMostRepeats = model::kMostLayers;

// Parts by name.
using Parts = std::map<std::string, Architecture, std::less<>>;

// ---- mixers ----

void ReadIndex(PartReader& part, bool latent, Architecture& a) {
  auto fields = part.reader().ReadMapping("index", Need::kOptional);
  if (!fields) return;
  PartReader index(fields->node(), part.reader().diagnostics());
  a.indexer.heads = index.Width("heads");
  a.indexer.head = index.Width("head");
  a.indexer.top =
      index.reader().ReadInteger("top", Need::kRequired, {1, model::kMostPositions}).value_or(1);
  a.indexer.block = index.Width("block", 1);
  a.indexer.shared = index.Boolean("shared", false);
  a.indexer.runs = index.Boolean("run", true);
  a.indexer.from_query_rank = latent;
  a.indexer.weighs_heads = index.Boolean("weights", latent);
  index.reader().Finish();
}

// `rotary`: the rotated part of a head; 0: none.
void ReadRotary(PartReader& part, Architecture& a) {
  const double share =
      part.reader().ReadDecimal("rotary", Need::kOptional, kRotaryShare).value_or(1);
  a.position = share > 0 ? model::Position::kRotary : model::Position::kNone;
}

void ReadAttention(PartReader& part, Architecture& a) {
  MappingReader& reader = part.reader();
  a.heads = part.Width("heads");
  a.kv_heads = part.Width("kv_heads", a.heads);
  a.head_size = part.Width("head");
  a.value_size = part.WidthOrNone("value");
  if (a.value_size == a.head_size) a.value_size = 0;
  a.attention_window =
      reader.ReadInteger("window", Need::kOptional, {0, model::kMostPositions}).value_or(0);
  a.attention_chunk =
      reader.ReadInteger("chunk", Need::kOptional, {0, model::kMostPositions}).value_or(0);
  a.sinks = part.Boolean("sinks", false);
  enum class Gate : std::uint8_t { kNone, kOfQuery, kOwn, kHeads };
  const Gate gate = reader
                        .ReadWord<Gate>("gate", Need::kOptional,
                                        {{"none", Gate::kNone},
                                         {"output", Gate::kOfQuery},
                                         {"own", Gate::kOwn},
                                         {"heads", Gate::kHeads}})
                        .value_or(Gate::kNone);
  a.gate_of_query = gate == Gate::kOfQuery;
  a.output_gate = gate == Gate::kNone    ? OutputGate::kNone
                  : gate == Gate::kHeads ? OutputGate::kHead
                                         : OutputGate::kElement;
  enum class Norm : std::uint8_t { kNone, kHead, kAll, kWeightless };
  const Norm norm = reader
                        .ReadWord<Norm>("qk_norm", Need::kOptional,
                                        {{"none", Norm::kNone},
                                         {"head", Norm::kHead},
                                         {"all", Norm::kAll},
                                         {"weightless", Norm::kWeightless}})
                        .value_or(Norm::kNone);
  a.qk_norm = norm != Norm::kNone;
  a.norms_all_heads = norm == Norm::kAll;
  a.weightless_norms = norm == Norm::kWeightless;
  a.norms_values = part.Boolean("value_norm", false);
  a.key_is_value = part.Boolean("k_eq_v", false);
  a.borrows_keys = part.Boolean("borrows_keys", false);
  a.attention_bias = part.Boolean("bias", false);
  a.key_without_bias = !part.Boolean("key_bias", true);
  a.projection_bias = part.Boolean("output_bias", false);
  a.attends_both_ways = !part.Boolean("causal", true);
  a.distance_buckets = part.WidthOrNone("distances");
  a.two_streams = part.Boolean("two_streams", false);
  a.score_cap = reader.ReadDecimal("softcap", Need::kOptional, kCap).value_or(0);
  a.attention_dropout = part.Boolean("dropout", false);
  ReadRotary(part, a);
  ReadIndex(part, false, a);
}

void ReadLatent(PartReader& part, Architecture& a) {
  a.heads = a.kv_heads = part.Width("heads");
  a.latent.query_rank = part.WidthOrNone("q_rank");
  a.latent.kv_rank = part.Width("kv_rank");
  a.latent.plain_head = part.Width("nope");
  a.latent.rotary_head = part.Width("rope");
  a.latent.value_head = part.Width("value");
  a.head_size = a.latent.plain_head + a.latent.rotary_head;
  a.output_gate = part.Boolean("gate", false) ? OutputGate::kElement : OutputGate::kNone;
  ReadRotary(part, a);
  ReadIndex(part, true, a);
}

void ReadSharedKey(PartReader& part, Architecture& a) {
  MappingReader& reader = part.reader();
  a.heads = part.Width("heads");
  a.kv_heads = 1;
  a.head_size = part.Width("head");
  a.shared_key.query_rank = part.Width("q_rank");
  a.attention_window =
      reader.ReadInteger("window", Need::kRequired, {1, model::kMostPositions}).value_or(1);
  a.sinks = part.Boolean("sinks", false);
  if (auto fields = reader.ReadMapping("output", Need::kRequired)) {
    PartReader output(fields->node(), reader.diagnostics());
    a.shared_key.output_groups = output.Width("groups");
    a.shared_key.output_rank = output.Width("rank");
    output.reader().Finish();
  }
  if (auto fields = reader.ReadMapping("compress", Need::kOptional)) {
    PartReader compress(fields->node(), reader.diagnostics());
    a.shared_key.compressed = compress.Width("tokens");
    a.shared_key.overlap = compress.Width("overlap", 1);
    compress.reader().Finish();
  }
  ReadRotary(part, a);
  ReadIndex(part, false, a);
}

void ReadDelta(PartReader& part, Architecture& a) {
  MappingReader& reader = part.reader();
  a.mixer = Mixer::kDelta;
  model::DeltaRule& delta = a.delta;
  delta.value_heads = part.Width("value_heads");
  delta.key_heads = part.Width("key_heads", delta.value_heads);
  delta.key = part.Width("key");
  delta.value = part.Width("value", delta.key);
  delta.conv = part.Width("conv", delta.conv);
  delta.chunk = part.Width("chunk", delta.chunk);
  delta.by_channel =
      reader.ReadWord<bool>("decay", Need::kOptional, {{"head", false}, {"channel", true}})
          .value_or(false);
  delta.decay_rank = part.Width("decay_rank", delta.by_channel ? delta.key : 0);
  delta.gate_rank = part.WidthOrNone("gate_rank");
}

void ReadStateSpace(PartReader& part, Architecture& a) {
  a.mixer = Mixer::kStateSpace;
  model::StateSpace& state = a.state_space;
  state.heads = part.Width("heads");
  state.head = part.Width("head");
  state.state = part.Width("state");
  state.groups = part.Width("groups", 1);
  state.conv = part.Width("conv", state.conv);
  state.conv_bias = part.Boolean("conv_bias", true);
  state.projection_bias = part.Boolean("bias", false);
  state.chunk = part.Width("chunk", state.chunk);
}

// The context's rows are known when the encoder has been read.
void ReadCross(PartReader& part, Architecture& a) {
  a.mixer = Mixer::kNone;
  model::CrossAttention& cross = a.cross;
  cross.heads = part.Width("heads");
  cross.kv_heads = part.Width("kv_heads", cross.heads);
  cross.head = part.Width("head");
  cross.bias = part.Boolean("bias", false);
  cross.key_bias = part.Boolean("key_bias", cross.bias);
  cross.output_bias = part.Boolean("output_bias", false);
  cross.norms = part.Boolean("qk_norm", false);
}

enum class MixerKind : std::uint8_t {
  kAttention,
  kCross,
  kLatent,
  kSharedKey,
  kDelta,
  kStateSpace
};

Architecture ReadMixer(const Node& node, Architecture a, Diagnostics& diagnostics) {
  PartReader part(node, diagnostics);
  const auto kind = part.reader().ReadWord<MixerKind>("kind", Need::kRequired,
                                                      {{"attention", MixerKind::kAttention},
                                                       {"cross", MixerKind::kCross},
                                                       {"latent", MixerKind::kLatent},
                                                       {"shared_kv", MixerKind::kSharedKey},
                                                       {"delta", MixerKind::kDelta},
                                                       {"state_space", MixerKind::kStateSpace}});
  if (!kind) return a;
  if (*kind == MixerKind::kAttention) ReadAttention(part, a);
  if (*kind == MixerKind::kCross) ReadCross(part, a);
  if (*kind == MixerKind::kLatent) ReadLatent(part, a);
  if (*kind == MixerKind::kSharedKey) ReadSharedKey(part, a);
  if (*kind == MixerKind::kDelta) ReadDelta(part, a);
  if (*kind == MixerKind::kStateSpace) ReadStateSpace(part, a);
  part.reader().Finish();
  return a;
}

// ---- feed-forward layers ----

void ReadActivation(PartReader& part, Architecture& a) {
  enum class Function : std::uint8_t { kSilu, kGelu, kSquaredRelu, kRelu };
  const Function function = part.reader()
                                .ReadWord<Function>("activation", Need::kOptional,
                                                    {{"silu", Function::kSilu},
                                                     {"gelu", Function::kGelu},
                                                     {"relu2", Function::kSquaredRelu},
                                                     {"relu", Function::kRelu}})
                                .value_or(Function::kSilu);
  const bool gated = part.Boolean("gated", function == Function::kSilu);
  if (gated && (function == Function::kSquaredRelu || function == Function::kRelu)) {
    part.reader().Report("gated", "model.impossible",
                         "feed-forward layers with a ReLU gate are not supported",
                         "write 'gated: false'");
  }
  if (!gated && function == Function::kSilu) {
    part.reader().Report("activation", "model.impossible",
                         "feed-forward layers with SiLU are supported only with a gate",
                         "write 'gated: true', or choose another activation");
  }
  a.activator = gated ? (function == Function::kGelu ? Activator::kGeGlu : Activator::kSwiGlu)
                : function == Function::kGelu ? Activator::kGelu
                : function == Function::kRelu ? Activator::kRelu
                                              : Activator::kSquaredRelu;
}

void ReadDense(PartReader& part, Architecture& a) {
  a.feed_forward = part.Width("width");
  a.parallel_residual_norms = part.Boolean("beside_mixer", false) ? 1 : 0;
  ReadActivation(part, a);
  a.feed_forward_bias = part.Boolean("bias", false);
}

void ReadExperts(PartReader& part, Architecture& a) {
  MappingReader& reader = part.reader();
  model::Experts& experts = a.experts;
  experts.count =
      reader.ReadInteger("count", Need::kRequired, {1, model::kMostExperts}).value_or(1);
  experts.per_token =
      reader.ReadInteger("top", Need::kRequired, {1, model::kMostExperts}).value_or(1);
  experts.feed_forward = part.Width("width");
  ReadActivation(part, a);
  experts.latent = part.WidthOrNone("latent");
  experts.latent_norm = part.Boolean("latent_norm", false);
  experts.scores =
      reader
          .ReadWord<RouterScores>("scores", Need::kOptional,
                                  {{"softmax_of_chosen", RouterScores::kSoftmaxOfChosen},
                                   {"softmax", RouterScores::kSoftmax},
                                   {"sigmoid", RouterScores::kSigmoid},
                                   // It takes as many kernels as sigmoid.
                                   {"sqrtsoftplus", RouterScores::kSigmoid}})
          .value_or(RouterScores::kSoftmax);
  experts.normalized_weights = part.Boolean("normalized", true);
  experts.groups = part.WidthOrNone("groups");
  experts.groups_per_token = part.WidthOrNone("groups_per_token");
  if (experts.groups <= 1) experts.groups = experts.groups_per_token = 0;
  experts.balancing_bias = part.Boolean("balancing_bias", false);
  experts.router_bias = part.Boolean("router_bias", false);
  experts.bias = part.Boolean("bias", false);
  if (auto fields = reader.ReadMapping("shared", Need::kOptional)) {
    PartReader shared(fields->node(), reader.diagnostics());
    experts.shared_feed_forward = shared.Width("width");
    experts.shared_gate = shared.Boolean("gate", false);
    shared.reader().Finish();
  }
}

enum class FeedForwardKind : std::uint8_t { kDense, kExperts, kParallel };

// Combines a dense part and an experts part.
void TakeBoth(const Architecture& dense, const Architecture& experts, Architecture& a) {
  a.feed_forward = dense.feed_forward;
  a.feed_forward_bias = dense.feed_forward_bias;
  a.activator = dense.activator;
  a.experts = experts.experts;
  a.experts.beside_dense = true;
}

Architecture ReadFeedForward(const Node& node, Architecture a, const Parts& before,
                             Diagnostics& diagnostics) {
  PartReader part(node, diagnostics);
  MappingReader& reader = part.reader();
  const auto kind = reader.ReadWord<FeedForwardKind>("kind", Need::kRequired,
                                                     {{"dense", FeedForwardKind::kDense},
                                                      {"experts", FeedForwardKind::kExperts},
                                                      {"parallel", FeedForwardKind::kParallel}});
  if (!kind) return a;
  if (*kind == FeedForwardKind::kDense) ReadDense(part, a);
  if (*kind == FeedForwardKind::kExperts) ReadExperts(part, a);
  if (*kind == FeedForwardKind::kParallel) {
    const auto names = reader.ReadWords("of", Need::kRequired);
    const auto find = [&](std::size_t i) -> const Architecture* {
      const auto found = names && i < names->size() ? before.find((*names)[i]) : before.end();
      return found == before.end() ? nullptr : &found->second;
    };
    const Architecture *dense = find(0), *experts = find(1);
    if (dense != nullptr && experts != nullptr && dense->feed_forward > 0 &&
        experts->experts.exist()) {
      TakeBoth(*dense, *experts, a);
    } else if (names) {
      reader.Report("of", "model.impossible",
                    "'of' must list a dense layer and a layer of experts, both defined earlier in "
                    "feed_forwards",
                    "write 'of: [DENSE, EXPERTS]'");
    }
  }
  reader.Finish();
  return a;
}

// ---- blocks and patterns ----

std::string KnownNames(const Parts& parts) {
  std::string names;
  for (const auto& [name, part] : parts) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names.empty() ? "none" : names;
}

// Combines a block's mixer, cross-attention and feed-forward parts.
Architecture BlockOf(const Architecture& base, const Architecture* mixer, const Architecture* cross,
                     const Architecture* feed_forward) {
  Architecture block = mixer != nullptr ? *mixer : base;
  if (mixer == nullptr) {
    block.mixer = Mixer::kNone;
    block.position = model::Position::kNone;
  }
  if (cross != nullptr) block.cross = cross->cross;
  if (feed_forward == nullptr) return block;
  block.feed_forward = feed_forward->feed_forward;
  block.feed_forward_bias = feed_forward->feed_forward_bias;
  block.activator = feed_forward->activator;
  block.parallel_residual_norms = mixer != nullptr ? feed_forward->parallel_residual_norms : 0;
  block.experts = feed_forward->experts;
  return block;
}

Letters ReadBlockKinds(MappingReader& reader, const Architecture& base, const Parts& mixers,
                       const Parts& feed_forwards, std::vector<Architecture>& kinds) {
  Letters letters;
  const auto blocks = reader.ReadNode("blocks", Need::kRequired, "a mapping of letters");
  if (!blocks) return letters;
  Diagnostics& diagnostics = reader.diagnostics();
  for (const auto& [letter, node] : blocks->entries()) {
    const auto report = [&, &node = node](std::string message, std::string hint) {
      diagnostics.push_back(
          {"model.impossible", node.location(), std::move(message), std::move(hint)});
    };
    const bool is_letter = letter.size() == 1 && letter != "(" && letter != ")" && letter != "|";
    if (!is_letter) {
      report(fmt::format("the name of a block must be one letter: '{}'", letter),
             "write for example 'blocks: {D: [delta, moe], F: [full, moe]}'");
      continue;
    }
    const auto names = ReadWords(node, diagnostics);
    if (!names) continue;
    const Architecture *mixer = nullptr, *cross = nullptr, *feed_forward = nullptr;
    for (const std::string& name : *names) {
      const auto of_mixer = mixers.find(name);
      const auto of_feed_forward = feed_forwards.find(name);
      const bool reads = of_mixer != mixers.end() && of_mixer->second.cross.exists();
      if (reads && cross == nullptr && feed_forward == nullptr) {
        cross = &of_mixer->second;
      } else if (of_mixer != mixers.end() && !reads && mixer == nullptr && cross == nullptr &&
                 feed_forward == nullptr) {
        mixer = &of_mixer->second;
      } else if (of_feed_forward != feed_forwards.end() && feed_forward == nullptr) {
        feed_forward = &of_feed_forward->second;
      } else {
        report(fmt::format("this block cannot have the layer '{}' at this position", name),
               fmt::format("a block can have a mixer, cross-attention and a feed-forward layer, "
                           "in this order; defined mixers: {}; defined feed_forwards: {}",
                           KnownNames(mixers), KnownNames(feed_forwards)));
      }
    }
    if (mixer == nullptr && cross == nullptr && feed_forward == nullptr) continue;
    letters[letter[0]] = static_cast<int>(kinds.size());
    kinds.push_back(BlockOf(base, mixer, cross, feed_forward));
  }
  return letters;
}

// Parses "(DDDF)*10": letters, groups, and repetitions of the item before.
class PatternParser {
 public:
  PatternParser(std::string_view text, const Letters& letters) : text_(text), letters_(letters) {}

  // Returns an empty list and sets `mistake` if the text is no pattern.
  std::vector<int> Read() {
    std::vector<int> kinds = Sequence();
    if (mistake.empty() && at_ < text_.size()) Fail("a closing bracket has no opening bracket");
    if (mistake.empty() && kinds.empty()) Fail("the pattern contains no block");
    return mistake.empty() ? kinds : std::vector<int>();
  }
  std::string mistake;

 private:
  void Fail(std::string what) {
    if (mistake.empty()) mistake = std::move(what);
  }
  std::vector<int> Sequence() {
    std::vector<int> kinds;
    while (mistake.empty() && at_ < text_.size() && text_[at_] != ')') {
      std::vector<int> next;
      const char c = text_[at_++];
      if (std::isspace(static_cast<unsigned char>(c))) continue;
      if (c == '(') {
        next = Sequence();
        if (at_ >= text_.size()) Fail("an opening bracket has no closing bracket");
        ++at_;
      } else if (const auto letter = letters_.find(c); letter != letters_.end()) {
        next = {letter->second};
      } else {
        Fail(fmt::format("the block '{}' is not defined", c));
      }
      const std::int64_t times = Times();
      if (times * std::ssize(next) + std::ssize(kinds) > kMostRepeats) {
        Fail(fmt::format("the pattern has more than {} blocks", kMostRepeats));
        break;
      }
      for (std::int64_t i = 0; i < times; ++i) kinds.insert(kinds.end(), next.begin(), next.end());
    }
    return kinds;
  }
  // A star before digits repeats a part; elsewhere it may be a letter.
  std::int64_t Times() {
    if (at_ + 1 >= text_.size() || text_[at_] != '*' ||
        !std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
      return 1;
    }
    ++at_;
    std::int64_t times = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) &&
           times <= kMostRepeats) {
      times = 10 * times + (text_[at_++] - '0');
    }
    return times;
  }

  std::string_view text_;
  const Letters& letters_;
  std::size_t at_ = 0;
};

std::vector<int> ReadPattern(MappingReader& reader, const Letters& letters) {
  const auto text = reader.ReadText("pattern", Need::kRequired);
  if (!text) return {};
  PatternParser parser(*text, letters);
  std::vector<int> pattern = parser.Read();
  if (!parser.mistake.empty()) {
    reader.Report("pattern", "model.impossible",
                  fmt::format("'pattern' is invalid: {}", parser.mistake),
                  "write the letter of each layer's block, from the first layer to the last, for "
                  "example 'DDDF'; '(DDDF)*10' repeats the letters");
  }
  return pattern;
}

// Reads the modules that predict further tokens. Each is one block, or a mixer block and a
// feed-forward block that together are one.
void ReadFurtherTokens(MappingReader& reader, const Letters& letters, Architecture& a) {
  auto fields = reader.ReadMapping("mtp", Need::kOptional);
  if (!fields) return;
  a.further_tokens =
      fields->ReadInteger("depth", Need::kOptional, {0, model::kMostFurtherTokens}).value_or(1);
  a.further_repeated = fields->ReadBoolean("repeated", Need::kOptional).value_or(false);
  const std::vector<int> blocks = ReadPattern(*fields, letters);
  fields->Finish();
  if (blocks.empty()) return;
  const Architecture& first = a.kinds[static_cast<std::size_t>(blocks.front())];
  const Architecture& last = a.kinds[static_cast<std::size_t>(blocks.back())];
  const bool pair = blocks.size() == 2 && !HasFeedForward(first) && last.mixer == Mixer::kNone;
  if (blocks.size() == 1) {
    a.further_kind = blocks.front();
  } else if (pair) {
    a.further_kind = static_cast<int>(a.kinds.size());
    a.kinds.push_back(BlockOf(a, &first, nullptr, &last));
  } else {
    fields->Report("pattern", "model.impossible",
                   "a block for multi-token prediction needs one mixer and one feed-forward layer",
                   "write one letter of 'blocks', for example 'pattern: A'");
  }
}

// Sets the model's top-level fields from the first kind that has them, most frequent kinds first.
void TakeFromKinds(Architecture& a) {
  const auto take = [&a](const auto& has, const auto& copy) {
    for (const int kind : a.pattern) {
      const Architecture& block = a.kinds[static_cast<std::size_t>(kind)];
      if (!has(block)) continue;
      copy(block);
      return;
    }
  };
  take([](const Architecture& block) { return block.mixer == Mixer::kAttention; },
       [&a](const Architecture& block) {
         a.heads = block.heads;
         a.kv_heads = block.kv_heads;
         a.head_size = block.head_size;
         a.value_size = block.value_size;
         a.latent = block.latent;
         a.qk_norm = block.qk_norm;
         a.norms_all_heads = block.norms_all_heads;
         a.attention_bias = block.attention_bias;
         a.projection_bias = block.projection_bias;
       });
  take([](const Architecture& block) { return block.feed_forward > 0; },
       [&a](const Architecture& block) { a.feed_forward = block.feed_forward; });
  take([](const Architecture& block) { return HasFeedForward(block); },
       [&a](const Architecture& block) { a.activator = block.activator; });
  take([](const Architecture& block) { return block.experts.exist(); },
       [&a](const Architecture& block) { a.experts = block.experts; });
  for (const Architecture& block : a.kinds) {
    a.attention_window = std::max(a.attention_window, block.attention_window);
    a.attention_chunk = std::max(a.attention_chunk, block.attention_chunk);
    a.sinks = a.sinks || block.sinks;
    if (block.score_cap > 0) a.score_cap = block.score_cap;
  }
}

Parts ReadParts(MappingReader& reader, std::string_view key, Need need,
                const std::function<Architecture(const Node&, const Parts&)>& read) {
  Parts parts;
  const auto node = reader.ReadNode(key, need, "a mapping of names");
  if (!node) return parts;
  for (const auto& [name, part] : node->entries()) parts.emplace(name, read(part, parts));
  return parts;
}

}  // namespace

bool DescribesBlocks(const MappingReader& reader) {
  return reader.Has("blocks") || reader.Has("mixers") || reader.Has("pattern");
}

Architecture ReadBlocks(MappingReader& reader, std::shared_ptr<const model::Family> family) {
  Architecture base;
  base.family = family != nullptr ? std::move(family) : GeneralFamily(reader.diagnostics());
  const auto dimension = [&reader](std::string_view key, Need need, std::int64_t most,
                                   std::int64_t absent) {
    return reader.ReadInteger(key, need, {1, most}).value_or(absent);
  };
  base.hidden = dimension("hidden_size", Need::kRequired, model::kMostWidth, 1);
  const model::ValueInput input = ReadValueInput(reader);
  const model::Prediction prediction = ReadPrediction(reader);
  const bool words = !input.exists();
  base.vocabulary = dimension("vocab_size", words ? Need::kRequired : Need::kOptional,
                              model::kMostVocabulary, words ? 1 : 0);
  if (!words && (base.vocabulary > 0 || prediction.target == model::Target::kWords)) {
    reader.Report(base.vocabulary > 0 ? "vocab_size" : "input", "model.impossible",
                  "a model whose input is numbers has no vocabulary",
                  "remove vocab_size, and write 'output: {kind: classes, count: 1000}' or "
                  "'output: {kind: values}'");
  }
  base.max_positions =
      dimension("max_position_embeddings", Need::kOptional, model::kMostPositions, 0);
  base.tie_embeddings = reader.ReadBoolean("tie_word_embeddings", Need::kOptional).value_or(false);
  base.head_bias = reader.ReadBoolean("lm_head_bias", Need::kOptional).value_or(false);
  base.scales_embeddings = reader.ReadBoolean("scales_embeddings", Need::kOptional).value_or(false);
  base.logit_cap = reader.ReadDecimal("final_logit_softcapping", Need::kOptional, kCap).value_or(0);
  base.layer_input =
      reader.ReadInteger("layer_input", Need::kOptional, {0, model::kMostWidth}).value_or(0);
  base.streams = reader.ReadInteger("streams", Need::kOptional, {0, 64}).value_or(0);
  base.residual_bank =
      reader.ReadInteger("residual_bank", Need::kOptional, {0, model::kMostLayers}).value_or(0);
  base.dropout = reader.ReadBoolean("dropout", Need::kOptional).value_or(false);
  base.normalization =
      reader
          .ReadNamed("normalization", Need::kOptional,
                     {model::Normalization::kLayerNorm, model::Normalization::kRmsNorm})
          .value_or(model::Normalization::kRmsNorm);
  base.norms_without_weights = !reader.ReadBoolean("norm_weights", Need::kOptional).value_or(true);
  base.norm_bias = base.normalization == model::Normalization::kLayerNorm;
  base.branch_norms = !NamesOf(base).attention_post_norm.empty();
  Diagnostics& diagnostics = reader.diagnostics();
  const Parts mixers =
      ReadParts(reader, "mixers", Need::kRequired,
                [&](const Node& node, const Parts&) { return ReadMixer(node, base, diagnostics); });
  const Parts feed_forwards = ReadParts(reader, "feed_forwards", Need::kOptional,
                                        [&](const Node& node, const Parts& before) {
                                          return ReadFeedForward(node, base, before, diagnostics);
                                        });
  Architecture a = base;
  const Letters letters = ReadBlockKinds(reader, base, mixers, feed_forwards, a.kinds);
  a.input = input;
  a.prediction = prediction;
  ReadCondition(reader, a);
  ReadText(reader, a);
  a.pattern = ReadPattern(reader, letters);
  ReadEncoder(reader, letters, a);
  const std::int64_t positions = dimension("positions", Need::kOptional, model::kMostPositions, 0);
  if (positions > 0) {
    a.position = model::Position::kLearned;
    a.max_positions = positions;
  }
  if (input.positions > 0) a.max_positions = input.positions;
  a.layers = std::ssize(a.pattern);
  for (Architecture& kind : a.kinds) kind.layers = std::max<std::int64_t>(a.layers, 1);
  ReadFurtherTokens(reader, letters, a);
  ReadTowers(reader, a);
  TakeFromKinds(a);
  return a;
}

}  // namespace stepcast::scenario
