#include "src/scenario/block_reader.h"

#include <algorithm>
#include <array>
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

void ReadIndex(MappingReader& reader, bool latent, Architecture& a) {
  reader.Section("index", Need::kOptional, [&](MappingReader& fields) {
    model::Indexer& index = a.indexer;
    index.from_query_rank = index.weighs_heads = latent;
    fields.Required("heads", index.heads, kWidth);
    fields.Required("head", index.head, kWidth);
    fields.Required("top", index.top, {1, model::kMostPositions});
    fields.Optional("block", index.block, kWidth);
    fields.Optional("shared", index.shared);
    fields.Optional("run", index.runs);
    fields.Optional("weights", index.weighs_heads);
  });
}

// `rotary`: the rotated part of a head; 0: none.
void ReadRotary(MappingReader& reader, Architecture& a) {
  double share = 1;
  reader.Optional("rotary", share, kRotaryShare);
  a.position = share > 0 ? model::Position::kRotary : model::Position::kNone;
}

void ReadAttention(MappingReader& reader, Architecture& a) {
  reader.Required("heads", a.heads, kWidth);
  a.kv_heads = a.heads;
  reader.Optional("kv_heads", a.kv_heads, kWidth);
  reader.Required("head", a.head_size, kWidth);
  reader.Optional("value", a.value_size, kWidthOrNone);
  if (a.value_size == a.head_size) a.value_size = 0;
  reader.Optional("window", a.attention_window, {0, model::kMostPositions});
  reader.Optional("chunk", a.attention_chunk, {0, model::kMostPositions});
  reader.Optional("sinks", a.sinks);
  enum class Gate : std::uint8_t { kNone, kOfQuery, kOwn, kHeads };
  Gate gate = Gate::kNone;
  reader.Optional("gate", gate,
                  {{"none", Gate::kNone},
                   {"output", Gate::kOfQuery},
                   {"own", Gate::kOwn},
                   {"heads", Gate::kHeads}});
  a.gate_of_query = gate == Gate::kOfQuery;
  a.output_gate = gate == Gate::kNone    ? OutputGate::kNone
                  : gate == Gate::kHeads ? OutputGate::kHead
                                         : OutputGate::kElement;
  enum class Norm : std::uint8_t { kNone, kHead, kAll, kWeightless };
  Norm norm = Norm::kNone;
  reader.Optional("qk_norm", norm,
                  {{"none", Norm::kNone},
                   {"head", Norm::kHead},
                   {"all", Norm::kAll},
                   {"weightless", Norm::kWeightless}});
  a.qk_norm = norm != Norm::kNone;
  a.norms_all_heads = norm == Norm::kAll;
  a.weightless_norms = norm == Norm::kWeightless;
  reader.Optional("value_norm", a.norms_values);
  reader.Optional("k_eq_v", a.key_is_value);
  reader.Optional("borrows_keys", a.borrows_keys);
  reader.Optional("bias", a.attention_bias);
  a.key_without_bias = !reader.ReadBoolean("key_bias", Need::kOptional).value_or(true);
  reader.Optional("output_bias", a.projection_bias);
  a.attends_both_ways = !reader.ReadBoolean("causal", Need::kOptional).value_or(true);
  reader.Optional("distances", a.distance_buckets, kWidthOrNone);
  reader.Optional("two_streams", a.two_streams);
  reader.Optional("softcap", a.score_cap, kCap);
  reader.Optional("dropout", a.attention_dropout);
  ReadRotary(reader, a);
  ReadIndex(reader, false, a);
}

void ReadLatent(MappingReader& reader, Architecture& a) {
  reader.Required("heads", a.heads, kWidth);
  a.kv_heads = a.heads;
  reader.Optional("q_rank", a.latent.query_rank, kWidthOrNone);
  reader.Required("kv_rank", a.latent.kv_rank, kWidth);
  reader.Required("nope", a.latent.plain_head, kWidth);
  reader.Required("rope", a.latent.rotary_head, kWidth);
  reader.Required("value", a.latent.value_head, kWidth);
  a.head_size = a.latent.plain_head + a.latent.rotary_head;
  bool gated = false;
  reader.Optional("gate", gated);
  a.output_gate = gated ? OutputGate::kElement : OutputGate::kNone;
  ReadRotary(reader, a);
  ReadIndex(reader, true, a);
}

void ReadSharedKey(MappingReader& reader, Architecture& a) {
  reader.Required("heads", a.heads, kWidth);
  a.kv_heads = 1;
  reader.Required("head", a.head_size, kWidth);
  reader.Required("q_rank", a.shared_key.query_rank, kWidth);
  reader.Required("window", a.attention_window, {1, model::kMostPositions});
  reader.Optional("sinks", a.sinks);
  reader.Section("output", Need::kRequired, [&](MappingReader& output) {
    output.Required("groups", a.shared_key.output_groups, kWidth);
    output.Required("rank", a.shared_key.output_rank, kWidth);
  });
  reader.Section("compress", Need::kOptional, [&](MappingReader& compress) {
    compress.Required("tokens", a.shared_key.compressed, kWidth);
    compress.Optional("overlap", a.shared_key.overlap, kWidth);
  });
  ReadRotary(reader, a);
  ReadIndex(reader, false, a);
}

void ReadDelta(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kDelta;
  model::DeltaRule& delta = a.delta;
  reader.Required("value_heads", delta.value_heads, kWidth);
  delta.key_heads = delta.value_heads;
  reader.Optional("key_heads", delta.key_heads, kWidth);
  reader.Required("key", delta.key, kWidth);
  delta.value = delta.key;
  reader.Optional("value", delta.value, kWidth);
  reader.Optional("conv", delta.conv, kWidth);
  reader.Optional("chunk", delta.chunk, kWidth);
  reader.Optional("decay", delta.by_channel, {{"head", false}, {"channel", true}});
  delta.decay_rank = delta.by_channel ? delta.key : 0;
  reader.Optional("decay_rank", delta.decay_rank, kWidth);
  reader.Optional("gate_rank", delta.gate_rank, kWidthOrNone);
}

void ReadStateSpace(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kStateSpace;
  model::StateSpace& state = a.state_space;
  reader.Required("heads", state.heads, kWidth);
  reader.Required("head", state.head, kWidth);
  reader.Required("state", state.state, kWidth);
  reader.Optional("groups", state.groups, kWidth);
  reader.Optional("conv", state.conv, kWidth);
  reader.Optional("conv_bias", state.conv_bias);
  reader.Optional("bias", state.projection_bias);
  reader.Optional("norm", state.norm);
  reader.Optional("chunk", state.chunk, kWidth);
}

void ReadShortConvolution(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kShortConv;
  reader.Optional("conv", a.short_conv.conv, kWidth);
  reader.Optional("bias", a.short_conv.bias);
}

void ReadSelectiveScan(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kSelectiveScan;
  model::SelectiveScan& scan = a.selective_scan;
  reader.Required("inner", scan.inner, kWidth);
  reader.Required("rank", scan.rank, kWidth);
  reader.Optional("state", scan.state, kWidth);
  reader.Optional("conv", scan.conv, kWidth);
  reader.Optional("conv_bias", scan.conv_bias);
  reader.Optional("bias", scan.projection_bias);
  reader.Optional("norms", scan.norms);
}

void ReadDecayAttention(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kDecay;
  reader.Required("heads", a.decay.heads, kWidth);
  reader.Required("head", a.decay.head, kWidth);
  reader.Optional("chunk", a.decay.chunk, kWidth);
}

// The context's rows are known when the encoder has been read.
void ReadCross(MappingReader& reader, Architecture& a) {
  a.mixer = Mixer::kNone;
  model::CrossAttention& cross = a.cross;
  reader.Required("heads", cross.heads, kWidth);
  cross.kv_heads = cross.heads;
  reader.Optional("kv_heads", cross.kv_heads, kWidth);
  reader.Required("head", cross.head, kWidth);
  reader.Optional("bias", cross.bias);
  cross.key_bias = cross.bias;
  reader.Optional("key_bias", cross.key_bias);
  reader.Optional("output_bias", cross.output_bias);
  reader.Optional("qk_norm", cross.norms);
}

// The two parts that `of` names, which are defined above. Null if there is no such part.
std::array<const Architecture*, 2> ReadPair(MappingReader& reader, const Parts& before) {
  std::array<const Architecture*, 2> pair{};
  const auto names = reader.ReadWords("of", Need::kRequired);
  for (std::size_t i = 0; names && names->size() == pair.size() && i < pair.size(); ++i) {
    const auto found = before.find((*names)[i]);
    if (found != before.end()) pair[i] = &found->second;
  }
  return pair;
}

// `of`: attention and a recurrent mixer.
void ReadParallelMixers(MappingReader& reader, const Parts& before, Architecture& a) {
  const auto [attention, recurrent] = ReadPair(reader, before);
  const bool both = attention != nullptr && recurrent != nullptr &&
                    attention->mixer == Mixer::kAttention && !attention->shared_key.exists() &&
                    attention->beside == Mixer::kNone && model::IsRecurrent(recurrent->mixer);
  if (!both) {
    reader.Report("of", "model.impossible",
                  "'of' must list attention and a recurrent mixer, both defined earlier in mixers",
                  "write 'of: [ATTENTION, MIXER]'");
    return;
  }
  a = *attention;
  a.beside = recurrent->mixer;
  a.delta = recurrent->delta;
  a.state_space = recurrent->state_space;
  a.short_conv = recurrent->short_conv;
  a.selective_scan = recurrent->selective_scan;
  a.decay = recurrent->decay;
}

Architecture ReadMixer(const Node& node, Architecture a, const Parts& before,
                       Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  using Read = std::function<void(MappingReader & reader, Architecture & a)>;
  const auto parallel = [&before](MappingReader& fields, Architecture& both) {
    ReadParallelMixers(fields, before, both);
  };
  const auto read = reader.ReadWord<Read>("kind", Need::kRequired,
                                          {{"attention", ReadAttention},
                                           {"cross", ReadCross},
                                           {"latent", ReadLatent},
                                           {"shared_kv", ReadSharedKey},
                                           {"delta", ReadDelta},
                                           {"state_space", ReadStateSpace},
                                           {"short_conv", ReadShortConvolution},
                                           {"selective_scan", ReadSelectiveScan},
                                           {"lightning", ReadDecayAttention},
                                           {"parallel", parallel}});
  if (!read) return a;
  (*read)(reader, a);
  reader.Finish();
  return a;
}

// ---- feed-forward layers ----

void ReadActivation(MappingReader& reader, Architecture& a) {
  enum class Function : std::uint8_t { kSilu, kGelu, kSquaredRelu, kRelu, kXielu };
  Function function = Function::kSilu;
  reader.Optional("activation", function,
                  {{"silu", Function::kSilu},
                   {"gelu", Function::kGelu},
                   {"relu2", Function::kSquaredRelu},
                   {"relu", Function::kRelu},
                   {"xielu", Function::kXielu}});
  bool gated = function == Function::kSilu;
  reader.Optional("gated", gated);
  if (gated && function != Function::kSilu && function != Function::kGelu) {
    reader.Report("gated", "model.impossible",
                  "feed-forward layers are supported only with a SiLU or GELU gate",
                  "write 'gated: false'");
  }
  if (!gated && function == Function::kSilu) {
    reader.Report("activation", "model.impossible",
                  "feed-forward layers with SiLU are supported only with a gate",
                  "write 'gated: true', or choose another activation");
  }
  a.activator = gated ? (function == Function::kGelu ? Activator::kGeGlu : Activator::kSwiGlu)
                : function == Function::kGelu  ? Activator::kGelu
                : function == Function::kRelu  ? Activator::kRelu
                : function == Function::kXielu ? Activator::kXielu
                                               : Activator::kSquaredRelu;
}

void ReadDense(MappingReader& reader, Architecture& a) {
  reader.Required("width", a.feed_forward, kWidth);
  bool beside_mixer = false;
  reader.Optional("beside_mixer", beside_mixer);
  a.parallel_residual_norms = beside_mixer ? 1 : 0;
  ReadActivation(reader, a);
  reader.Optional("bias", a.feed_forward_bias);
}

void ReadExpertLayer(MappingReader& reader, Architecture& a) {
  model::Experts& experts = a.experts;
  reader.Required("count", experts.count, {1, model::kMostExperts});
  reader.Required("top", experts.per_token, {1, model::kMostExperts});
  reader.Required("width", experts.feed_forward, kWidth);
  ReadActivation(reader, a);
  reader.Optional("latent", experts.latent, kWidthOrNone);
  reader.Optional("latent_norm", experts.latent_norm);
  experts.scores = RouterScores::kSoftmax;
  reader.Optional("scores", experts.scores,
                  {{"softmax_of_chosen", RouterScores::kSoftmaxOfChosen},
                   {"softmax", RouterScores::kSoftmax},
                   {"sigmoid", RouterScores::kSigmoid},
                   // It takes as many kernels as sigmoid.
                   {"sqrtsoftplus", RouterScores::kSigmoid}});
  reader.Optional("normalized", experts.normalized_weights);
  reader.Optional("groups", experts.groups, kWidthOrNone);
  reader.Optional("groups_per_token", experts.groups_per_token, kWidthOrNone);
  if (experts.groups <= 1) experts.groups = experts.groups_per_token = 0;
  reader.Optional("balancing_bias", experts.balancing_bias);
  reader.Optional("router_bias", experts.router_bias);
  reader.Optional("bias", experts.bias);
  reader.Section("shared", Need::kOptional, [&](MappingReader& shared) {
    shared.Required("width", experts.shared_feed_forward, kWidth);
    shared.Optional("gate", experts.shared_gate);
  });
}

// Combines a dense part and an experts part.
void TakeBoth(const Architecture& dense, const Architecture& experts, Architecture& a) {
  a.feed_forward = dense.feed_forward;
  a.feed_forward_bias = dense.feed_forward_bias;
  a.activator = dense.activator;
  a.experts = experts.experts;
  a.experts.beside_dense = true;
}

// `of`: a dense layer and a layer of experts.
void ReadParallel(MappingReader& reader, const Parts& before, Architecture& a) {
  const auto [dense, experts] = ReadPair(reader, before);
  if (dense != nullptr && experts != nullptr && dense->feed_forward > 0 &&
      experts->experts.exist()) {
    TakeBoth(*dense, *experts, a);
  } else {
    reader.Report("of", "model.impossible",
                  "'of' must list a dense layer and a layer of experts, both defined earlier in "
                  "feed_forwards",
                  "write 'of: [DENSE, EXPERTS]'");
  }
}

Architecture ReadFeedForward(const Node& node, Architecture a, const Parts& before,
                             Diagnostics& diagnostics) {
  enum class Kind : std::uint8_t { kDense, kExperts, kParallel };
  MappingReader reader(node, diagnostics);
  const auto kind = reader.ReadWord<Kind>(
      "kind", Need::kRequired,
      {{"dense", Kind::kDense}, {"experts", Kind::kExperts}, {"parallel", Kind::kParallel}});
  if (!kind) return a;
  if (*kind == Kind::kDense) ReadDense(reader, a);
  if (*kind == Kind::kExperts) ReadExpertLayer(reader, a);
  if (*kind == Kind::kParallel) ReadParallel(reader, before, a);
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
  a.further_tokens = 1;
  fields->Optional("depth", a.further_tokens, {0, model::kMostFurtherTokens});
  fields->Optional("repeated", a.further_repeated);
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
  reader.Required("hidden_size", base.hidden, kWidth);
  const model::ValueInput input = ReadValueInput(reader);
  const model::Prediction prediction = ReadPrediction(reader);
  const bool words = !input.exists();
  constexpr IntegerRange kVocabulary = {1, model::kMostVocabulary};
  constexpr IntegerRange kPositions = {1, model::kMostPositions};
  reader.Read("vocab_size", words ? Need::kRequired : Need::kOptional, base.vocabulary,
              kVocabulary);
  if (!words && (base.vocabulary > 0 || prediction.target == model::Target::kWords)) {
    reader.Report(base.vocabulary > 0 ? "vocab_size" : "input", "model.impossible",
                  "a model whose input is numbers has no vocabulary",
                  "remove vocab_size, and write 'output: {kind: classes, count: 1000}' or "
                  "'output: {kind: values}'");
  }
  reader.Optional("max_position_embeddings", base.max_positions, kPositions);
  reader.Optional("tie_word_embeddings", base.tie_embeddings);
  reader.Optional("lm_head_bias", base.head_bias);
  reader.Optional("scales_embeddings", base.scales_embeddings);
  reader.Optional("final_logit_softcapping", base.logit_cap, kCap);
  reader.Optional("layer_input", base.layer_input, kWidthOrNone);
  reader.Optional("streams", base.streams, {0, 64});
  reader.Optional("residual_bank", base.residual_bank, {0, model::kMostLayers});
  reader.Optional("dropout", base.dropout);
  reader.Optional("normalization", base.normalization,
                  {model::Normalization::kLayerNorm, model::Normalization::kRmsNorm});
  base.norms_without_weights = !reader.ReadBoolean("norm_weights", Need::kOptional).value_or(true);
  base.norm_bias = base.normalization == model::Normalization::kLayerNorm;
  base.branch_norms = !NamesOf(base).attention_post_norm.empty();
  Diagnostics& diagnostics = reader.diagnostics();
  const Parts mixers =
      ReadParts(reader, "mixers", Need::kRequired, [&](const Node& node, const Parts& before) {
        return ReadMixer(node, base, before, diagnostics);
      });
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
  if (const auto positions = reader.ReadInteger("positions", Need::kOptional, kPositions)) {
    a.position = model::Position::kLearned;
    a.max_positions = *positions;
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
