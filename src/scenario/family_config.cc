#include "src/scenario/family_config.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/formats/huggingface.h"
#include "src/scenario/config_keys.h"
#include "src/scenario/family_expression.h"
#include "src/scenario/family_file.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

using JsonKind = formats::JsonValue::Kind;

// The sections that contain the text model of a wrapper's config.json.
constexpr const char* kTextSections[] = {"text_config", "llm_config", "language_config",
                                         "thinker_config.text_config"};

// Keys of a model file whose values are words or names, not expressions.
bool IsVerbatim(std::string_view key) { return key == "kind" || key == "of" || key == "blocks"; }

// Returns the type of a config.json: its `model_type` or, in the diffusers library, its
// `_class_name` ("FluxTransformer2DModel"). Null if it states no type. `config` owns the value.
const formats::JsonValue* TypeOf(const formats::JsonObject& config) {
  const formats::JsonValue* type = config.Find("model_type");
  return type != nullptr ? type : config.Find("_class_name");
}

// The section whose text model has a type of its own. Empty if there is none.
std::string TextSectionOf(const formats::JsonObject& config) {
  for (const std::string section : kTextSections) {
    if (config.Find(section + ".model_type") != nullptr) return section;
  }
  return "";
}

// For a wrapper's type: the section with the text model ("text_config").
std::optional<std::string> SectionOf(const YamlNode& family, std::string_view type) {
  if (const YamlNode* types = Child(family, "model_types")) {
    for (const YamlTree& item : types->items) {
      if (item->scalar == type) return "";
    }
  }
  if (const YamlNode* wrappers = Child(family, "wrappers")) {
    if (const YamlNode* section = Child(*wrappers, type)) return section->scalar;
  }
  return std::nullopt;
}

// Whether the family reads models of this type, as themselves or in a wrapper.
bool Reads(const YamlNode& family, std::string_view type) {
  return SectionOf(family, type).has_value();
}

// The section of the config.json that the family reads; "": the whole file. A text model in a
// wrapper of another type has a type of its own.
std::optional<std::string> SectionOf(const YamlNode& family, const formats::JsonObject& config) {
  const formats::JsonValue* type = TypeOf(config);
  if (type == nullptr || type->kind != JsonKind::kText) return "";
  std::optional<std::string> section = SectionOf(family, type->text);
  // Older files of a wrapper have the text model's keys at the top level.
  if (section && config.Find(*section) == nullptr) return "";
  if (section) return section;
  const std::string text = TextSectionOf(config);
  if (text.empty() || SectionOf(family, config.Find(text + ".model_type")->text) != "") {
    return std::nullopt;
  }
  return text;
}

// Evaluates a family's file on a config.json.
class ConfigEvaluator {
 public:
  ConfigEvaluator(const formats::JsonObject& config, const Node& family, std::string section,
                  const ConfigParts& parts, Diagnostics& diagnostics,
                  std::vector<std::string>& warnings)
      : config_(config),
        parts_(parts),
        family_(*family.tree()),
        has_blocks_(HasBlocks(family_)),
        section_(std::move(section)),
        diagnostics_(diagnostics),
        diagnostics_before_(diagnostics.size()),
        reader_(config, section_, diagnostics, warnings),
        around_(config, "", diagnostics, warnings) {}

  // The model file as a tree; null after mistakes.
  YamlTree Model() {
    if (!has_blocks_) return Dimensions();
    JudgeStatedKeys();
    const YamlNode* model = Child(family_, "model");
    if (model == nullptr) return nullptr;
    const YamlTree pattern = Pattern(*model);
    if (pattern == nullptr) return nullptr;
    FindUsedParts(*model, pattern->scalar);
    auto made = std::make_shared<YamlNode>(*model);
    made->entries.clear();
    made->entries.push_back({"kind", model->position, ScalarOf("transformer", model->position)});
    for (const YamlNode::Entry& entry : model->entries) {
      if (entry.key == "mtp" && !parts_.further_tokens) continue;
      if (entry.key == "towers" && !parts_.patches) continue;
      YamlTree value = entry.key == "pattern"  ? pattern
                       : entry.key == "blocks" ? Chosen(*entry.value, used_blocks_, true)
                       : entry.key == "mixers" || entry.key == "feed_forwards"
                           ? Chosen(*entry.value, used_parts_, false)
                           : Made(*entry.value, entry.key);
      if (value != nullptr) made->entries.push_back({entry.key, entry.position, std::move(value)});
    }
    return made;
  }

  // The constants of a model file by its dimensions, whose architecture is `a`.
  model::NumericalConstants Constants(const model::Architecture& a) {
    if (a.qk_norm) AcceptHeadNorms(reader_);
    return formats::ReadConstants(a, reader_);
  }
  bool has_blocks() const { return has_blocks_; }

  // Judges the keys that nothing has read; every config.json has some.
  void JudgeRest() {
    if (const YamlNode* keys = Child(family_, "config")) {
      for (const YamlNode::Entry& key : keys->entries) {
        const bool gate = key.key == "hidden_act";
        if (gate && (has_blocks_ || key.value->scalar == "silu")) formats::ReadGate(reader_);
        reader_.Accept(key.key);
      }
    }
    if (const YamlNode* ignored = Child(family_, "ignored")) {
      for (const YamlTree& key : ignored->items) reader_.Accept(key->scalar);
    }
    for (formats::HuggingFaceReader* reader : {&reader_, &around_}) {
      if (!has_blocks_ || (reader == &around_ && section_.empty())) break;
      if (reader->Find("quantization_config") == nullptr) continue;
      reader->Warn(
          "quantization_config",
          "the forecast uses training.precision as the data type of weights, and ignores this key");
    }
    JudgeOtherKeys(reader_, UnknownConfigKeys::kWarnOf);
    if (section_.empty()) return;
    around_.Accept(section_);
    for (const char* tower : {"vision_config", "audio_config"}) around_.Accept(tower);
    JudgeOtherKeys(around_, UnknownConfigKeys::kPassOver);
  }

  std::string Name() { return reader_.Text("_name_or_path", ""); }

 private:
  // A model file by its dimensions. Its values are checked first, in the order of `config`.
  YamlTree Dimensions() {
    const YamlNode *keys = Child(family_, "config"), *model = Child(family_, "model");
    if (keys == nullptr || model == nullptr) return nullptr;
    for (const YamlNode::Entry& key : keys->entries) Value(*key.value, key.key);
    const bool wrong = failed();
    JudgeStatedKeys();
    if (wrong) {
      // A mistake has no followers.
      if (Child(family_, "windows") != nullptr) reader_.Accept("layer_types");
      return nullptr;
    }
    const YamlTree dimensions = Made(*model, "model");
    if (dimensions == nullptr) return nullptr;
    auto made = std::make_shared<YamlNode>(*dimensions);
    made->position = {FileOf(reader_.location()), reader_.location().line,
                      reader_.location().column};
    made->entries.insert(made->entries.begin(),
                         {"kind", made->position, ScalarOf("transformer", made->position)});
    AddWindow(*made);
    return failed() ? nullptr : made;
  }

  // `windows`: the window of attention in all layers, or in all but every n-th. An empty mapping:
  // the class has none.
  void AddWindow(YamlNode& model) {
    const YamlNode *window = Child(family_, "windows"), *layers = Child(model, "num_hidden_layers");
    if (window == nullptr || layers == nullptr) return;
    const std::int64_t count = std::stoll(layers->scalar);
    const auto figure = [&](std::string_view key) {
      const YamlNode* node = Child(*window, key);
      const std::optional<FamilyValue> value = node == nullptr ? std::nullopt : Value(*node);
      return value.value_or(FamilyValue());
    };
    if (window->entries.empty()) return formats::RefuseWindow(reader_, count);
    const YamlNode* key = Child(*window, "key");
    const FamilyValue size = figure("size"), every = figure("every");
    const formats::AttentionWindow read =
        formats::ReadWindow(reader_, count,
                            {.tokens = size.integer,
                             .first_layer = figure("first_layer").integer,
                             .key = key == nullptr ? "sliding_window" : key->scalar,
                             .full_every = every.integer});
    const auto add = [&](const char* name, const FamilyValue& from, std::int64_t value) {
      if (value == 0) return;
      const Position position = from.location ? PositionOf(from, *window) : model.position;
      model.entries.push_back({name, position, ScalarOf(fmt::format("{}", value), position)});
    };
    add("sliding_window", size, read.tokens);
    add("sliding_window_pattern", every, read.full_every);
  }

  bool failed() const { return diagnostics_.size() > diagnostics_before_; }

  // `refused`: keys with the only value that the family supports, or with the values that it does
  // not. `warned`: the forecast's treatment of keys that are not null, false, 0 or empty.
  void JudgeStatedKeys() {
    if (const YamlNode* refused = Child(family_, "refused")) {
      for (const YamlNode::Entry& entry : refused->entries) {
        if (entry.value->kind == NodeKind::kMapping) {
          const YamlNode *why = Child(*entry.value, "why"), *hint = Child(*entry.value, "hint");
          if (!Holds(*entry.value)) continue;
          reader_.Refuse(entry.key, why == nullptr ? "" : why->scalar,
                         hint == nullptr ? formats::kTakeTheKeyOut : hint->scalar);
          continue;
        }
        const std::optional<FamilyValue> stated = Stated(entry.key);
        if (!stated || stated->Text() == entry.value->scalar) continue;
        reader_.Refuse(entry.key,
                       fmt::format("for this model_type, the only supported value is {}",
                                   Quoted(entry.value->scalar)),
                       formats::kTakeTheKeyOut);
      }
    }
    if (const YamlNode* warned = Child(family_, "warned")) {
      for (const YamlNode::Entry& entry : warned->entries) {
        if (entry.value->kind == NodeKind::kMapping) {
          const YamlNode* said = Child(*entry.value, "said");
          if (said != nullptr && Holds(*entry.value)) reader_.Warn(entry.key, said->scalar);
          continue;
        }
        const std::optional<FamilyValue> stated = Stated(entry.key);
        const bool of_module =
            entry.key.find("mtp") != std::string::npos || entry.key.starts_with("num_nextn");
        if (of_module && parts_.further_tokens) continue;
        if (stated && stated->IsTrue()) reader_.Warn(entry.key, entry.value->scalar);
      }
    }
  }

  // Whether the expression `when` of a rule holds. It does not if a value that it needs is wrong.
  bool Holds(const YamlNode& rule) {
    const YamlNode* when = Child(rule, "when");
    if (when == nullptr) return false;
    YamlNode expression = *when;
    expression.quoted = false;
    needs_wrong_ = false;
    const std::optional<FamilyValue> value = Value(expression);
    return value && value->IsTrue() && !needs_wrong_;
  }

  // ---- values of the config.json ----

  FamilyValue ValueOf(const formats::JsonValue& value, const std::string& path) {
    FamilyValue made;
    switch (value.kind) {
      case JsonKind::kNull:
        break;
      case JsonKind::kBoolean:
        made = FamilyValue::Of(value.boolean);
        break;
      case JsonKind::kInteger:
        made = FamilyValue::Of(value.integer);
        break;
      case JsonKind::kNumber:
        made = FamilyValue::Of(value.number);
        break;
      case JsonKind::kText:
        made = FamilyValue::Of(value.text);
        break;
      case JsonKind::kArray:
        made.kind = FamilyValue::Kind::kList;
        for (std::int64_t i = 0; i < value.elements; ++i) {
          const std::string item = fmt::format("{}.{}", path, i);
          const formats::JsonValue* element = config_.Find(item);
          made.list.push_back(element == nullptr ? FamilyValue() : ValueOf(*element, item));
        }
        break;
      case JsonKind::kObject:
        // Only the number of its keys counts.
        made.kind = FamilyValue::Kind::kList;
        made.list.resize(static_cast<std::size_t>(value.elements));
        break;
    }
    made.location = value.location;
    return made;
  }

  // A key's value in the section, else in the file around it. Nothing if both lack it or have null.
  std::optional<FamilyValue> Stated(const std::string& key) {
    if (const formats::JsonValue* value = reader_.Find(key)) {
      return ValueOf(*value, section_.empty() ? key : fmt::format("{}.{}", section_, key));
    }
    const bool of_wrapper = has_blocks_ || key == "tie_word_embeddings";
    if (section_.empty() || !of_wrapper) return std::nullopt;
    const formats::JsonValue* value = around_.Find(key);
    if (value == nullptr) return std::nullopt;
    return ValueOf(*value, key);
  }

  FamilyValue Named(std::string_view name) {
    if (name == "i" && layer_) return FamilyValue::Of(*layer_);
    if (name == "patches" && parts_.patches) return FamilyValue::Of(*parts_.patches);
    if (name == "image" && parts_.patches) {
      return FamilyValue::Of(parts_.image.value_or(*parts_.patches));
    }
    if (name == "frozen" && parts_.patches) return FamilyValue::Of(parts_.frozen);
    if (name == "encoder_tokens") {
      return parts_.encoder_tokens ? FamilyValue::Of(*parts_.encoder_tokens) : FamilyValue();
    }
    const std::string key(name);
    needs_wrong_ = needs_wrong_ || wrong_.contains(key);
    if (const auto known = values_.find(key); known != values_.end()) return known->second;
    const YamlNode* keys = Child(family_, "config");
    const YamlNode* absent = keys == nullptr ? nullptr : Child(*keys, name);
    if (absent == nullptr) {
      throw FamilyMistake{fmt::format("'config' does not list the key {}", Quoted(key))};
    }
    FamilyValue value;
    const YamlNode* nulls = Child(family_, "null_values");
    const YamlNode* of_null = nulls == nullptr ? nullptr : Child(*nulls, name);
    if (std::optional<FamilyValue> stated = Stated(key)) {
      value = *std::move(stated);
      if (!has_blocks_ && !IsLikeDefault(key, *absent, of_null != nullptr)) value = Wrong(key);
    } else if (of_null != nullptr && reader_.Has(key)) {
      value = Scalar(*of_null);
    } else if (value = DefaultOf(key, *absent); value.IsNull()) {
      diagnostics_.push_back({"input.missing-key", reader_.location(),
                              fmt::format("missing key: {}", Quoted(Whole(key))),
                              "add the key to config.json: every model of this model_type has the "
                              "key"});
      value = Wrong(key);
    }
    values_[key] = value;
    return value;
  }

  // In place of a value with a mistake.
  FamilyValue Wrong(const std::string& key) {
    wrong_.insert(key);
    needs_wrong_ = true;
    return FamilyValue::Of(std::int64_t{1});
  }

  std::string Whole(const std::string& key) const {
    return has_blocks_ || section_.empty() ? key : fmt::format("{}.{}", section_, key);
  }

  FamilyValue DefaultOf(const std::string& key, const YamlNode& absent) {
    if (!open_.insert(key).second) {
      throw FamilyMistake{fmt::format("the default of {} depends on itself", Quoted(key))};
    }
    FamilyValue value = Scalar(absent);
    open_.erase(key);
    return value;
  }

  // Reports a stated value of another kind than the key's default. A key without a default is a
  // dimension. 0 is one only if the default, or the value of null, is none.
  bool IsLikeDefault(const std::string& key, const YamlNode& absent, bool or_none) {
    formats::HuggingFaceReader& reader = reader_.Find(key) != nullptr ? reader_ : around_;
    const std::size_t before = diagnostics_.size();
    const FamilyValue value = DefaultOf(key, absent);
    switch (value.kind) {
      case FamilyValue::Kind::kNull:
        reader.Dimension(key);
        break;
      case FamilyValue::Kind::kBoolean:
        reader.Boolean(key, false);
        break;
      case FamilyValue::Kind::kInteger:
        if (or_none || !value.IsTrue()) {
          reader.OptionalDimensionOrZero(key);
        } else {
          reader.OptionalDimension(key);
        }
        break;
      case FamilyValue::Kind::kNumber:
        reader.Number(key, 0);
        break;
      case FamilyValue::Kind::kText:
        reader.Text(key, "");
        break;
      case FamilyValue::Kind::kList:
        break;
    }
    return diagnostics_.size() == before;
  }

  // ---- values of the model file ----

  FamilyValue Scalar(const YamlNode& node) {
    if (node.kind == NodeKind::kNull) return {};
    if (node.kind == NodeKind::kSequence) {
      FamilyValue list{.kind = FamilyValue::Kind::kList};
      for (const YamlTree& item : node.items) list.list.push_back(Scalar(*item));
      return list;
    }
    if (node.quoted) return FamilyValue::Of(node.scalar);
    return Evaluate(node.scalar, [this](std::string_view name) { return Named(name); });
  }

  // Null after a mistake. `key`: the node is the default of this key, whose value is asked for.
  std::optional<FamilyValue> Value(const YamlNode& node, std::string_view key = "") {
    try {
      return key.empty() ? Scalar(node) : Named(key);
    } catch (const FamilyMistake& mistake) {
      diagnostics_.push_back(
          {"model.family", node.position.location(),
           fmt::format("{}: {}", Quoted(node.scalar), mistake.what),
           "check the expression, and the keys of config.json that the expression uses"});
      return std::nullopt;
    }
  }

  Position PositionOf(const FamilyValue& value, const YamlNode& node) {
    if (!value.location) return node.position;
    return {FileOf(*value.location), value.location->line, value.location->column};
  }
  std::shared_ptr<const std::string> FileOf(const Location& location) {
    if (file_ == nullptr || *file_ != location.file) {
      file_ = std::make_shared<const std::string>(location.file);
    }
    return file_;
  }

  // Null if the value is null, or if the mapping's `when` does not hold.
  YamlTree Made(const YamlNode& node, std::string_view key) {
    if (node.kind == NodeKind::kNull) return nullptr;
    if (IsVerbatim(key)) return std::make_shared<YamlNode>(node);
    if (node.kind == NodeKind::kScalar) {
      const std::optional<FamilyValue> value = Value(node);
      if (!value || value->IsNull()) return nullptr;
      return ScalarOf(value->Text(), PositionOf(*value, node),
                      value->kind == FamilyValue::Kind::kText);
    }
    auto made = std::make_shared<YamlNode>();
    made->kind = node.kind;
    made->position = node.position;
    for (const YamlTree& item : node.items) {
      if (YamlTree value = Made(*item, "")) made->items.push_back(std::move(value));
    }
    for (const YamlNode::Entry& entry : node.entries) {
      if (entry.key == "when") {
        const std::optional<FamilyValue> holds = Value(*entry.value);
        if (!holds || !holds->IsTrue()) return nullptr;
        continue;
      }
      if (YamlTree value = Made(*entry.value, entry.key)) {
        made->entries.push_back({entry.key, entry.position, std::move(value)});
      }
    }
    return made;
  }

  // `pattern: {layers: N, block: LETTER}`: the letters of all layers i as one text.
  YamlTree Pattern(const YamlNode& model) {
    const YamlNode* node = Child(model, "pattern");
    if (node == nullptr) {
      diagnostics_.push_back({"model.family", model.position.location(),
                              "the family has no 'pattern'",
                              "write 'pattern: {layers: num_hidden_layers, block: ...}'"});
      return nullptr;
    }
    if (node->kind != NodeKind::kMapping) return Made(*node, "pattern");
    const YamlNode *layers = Child(*node, "layers"), *block = Child(*node, "block");
    const std::optional<FamilyValue> count = layers == nullptr ? std::nullopt : Value(*layers);
    if (!count || block == nullptr) return nullptr;
    constexpr std::int64_t kMost = 10'000;
    if (count->kind != FamilyValue::Kind::kInteger || count->integer < 1 ||
        count->integer > kMost) {
      diagnostics_.push_back(
          {"input.out-of-range", count->location ? *count->location : layers->position.location(),
           fmt::format("the number of layers must be from 1 to {}: {}", kMost, count->Text()), ""});
      return nullptr;
    }
    std::string letters;
    for (layer_ = 0; *layer_ < count->integer; ++*layer_) {
      const std::optional<FamilyValue> letter = Value(*block);
      if (!letter) return nullptr;
      letters += letter->Text();
    }
    layer_.reset();
    return ScalarOf(std::move(letters), PositionOf(*count, *node), /*quoted=*/true);
  }

  // Blocks without layers, and parts that no used block has, need no values.
  void FindUsedParts(const YamlNode& model, const std::string& pattern) {
    const YamlNode* blocks = Child(model, "blocks");
    if (blocks == nullptr) return;
    std::string letters = pattern;
    const YamlNode* further = parts_.further_tokens ? Child(model, "mtp") : nullptr;
    if (further != nullptr) {
      if (const YamlNode* of_further = Child(*further, "pattern")) letters += of_further->scalar;
    }
    if (const YamlNode* encoder = Child(model, "encoder")) {
      if (const YamlNode* of_encoder = Child(*encoder, "block")) letters += of_encoder->scalar;
    }
    for (const YamlNode::Entry& entry : blocks->entries) {
      if (letters.find(entry.key) == std::string::npos) continue;
      used_blocks_.insert(entry.key);
      for (const YamlTree& part : entry.value->items) used_parts_.insert(part->scalar);
    }
    for (const char* section : {"mixers", "feed_forwards"}) {
      const YamlNode* parts = Child(model, section);
      if (parts == nullptr) continue;
      for (const YamlNode::Entry& entry : parts->entries) {
        if (!used_parts_.contains(entry.key)) continue;
        if (const YamlNode* of = Child(*entry.value, "of")) {
          for (const YamlTree& part : of->items) used_parts_.insert(part->scalar);
        }
      }
    }
  }

  YamlTree Chosen(const YamlNode& node, const std::set<std::string>& chosen, bool verbatim) {
    auto made = std::make_shared<YamlNode>();
    made->kind = NodeKind::kMapping;
    made->position = node.position;
    for (const YamlNode::Entry& entry : node.entries) {
      if (!chosen.contains(entry.key)) continue;
      YamlTree value = verbatim ? entry.value : Made(*entry.value, entry.key);
      if (value != nullptr) made->entries.push_back({entry.key, entry.position, std::move(value)});
    }
    return made;
  }

  const formats::JsonObject& config_;
  const ConfigParts& parts_;
  const YamlNode& family_;
  const bool has_blocks_;
  const std::string section_;
  Diagnostics& diagnostics_;
  const std::size_t diagnostics_before_;
  formats::HuggingFaceReader reader_, around_;
  std::map<std::string, FamilyValue> values_;
  std::set<std::string> open_;   // defaults that are being evaluated
  std::set<std::string> wrong_;  // keys with mistakes
  bool needs_wrong_ = false;     // the expression that was evaluated last names one of them
  std::optional<std::int64_t> layer_;
  std::set<std::string> used_blocks_, used_parts_;
  std::shared_ptr<const std::string> file_;
};

// Checks for keys that a family's file may not have.
void CheckKeys(const Node& family, Diagnostics& diagnostics) {
  MappingReader reader(family, diagnostics);
  reader.ReadNode("model_types", Need::kRequired, "a sequence of model types");
  for (const char* key : {"wrappers", "like", "extends", "names", "typical", "allows", "traits",
                          "constants", "without_experts", "config", "null_values", "ignored",
                          "refused", "warned", "windows", "source"}) {
    reader.ReadNode(key, Need::kOptional, "a value");
  }
  reader.ReadNode("model", Need::kRequired, "a model file");
  reader.Finish();
}

// The types that the shipped families read, by the form of their models.
enum class Form : std::uint8_t { kDimensions, kBlocks };
std::vector<std::string> TypesOfFamilies(Form form) {
  std::vector<std::string> types;
  Diagnostics ignored;
  for (const std::string& name : NamesIn(kFamilies)) {
    const std::optional<Node> family = ReadDocument(FamilyPath(name), ignored);
    if (!family || HasBlocks(*family->tree()) != (form == Form::kBlocks)) continue;
    if (const YamlNode* read = Child(*family->tree(), "model_types")) {
      for (const YamlTree& type : read->items) types.push_back(type->scalar);
    }
    if (const YamlNode* wrappers = Child(*family->tree(), "wrappers")) {
      for (const YamlNode::Entry& entry : wrappers->entries) types.push_back(entry.key);
    }
  }
  std::sort(types.begin(), types.end());
  return types;
}

// The shipped family that reads this type.
std::optional<Node> FamilyOfType(std::string_view model_type, Diagnostics& diagnostics) {
  // Most families are named after their only type.
  std::vector<std::string> names = NamesIn(kFamilies);
  const auto named = std::find(names.begin(), names.end(), model_type);
  if (named != names.end()) std::rotate(names.begin(), named, named + 1);
  for (const std::string& name : names) {
    const std::string path = FamilyPath(name);
    const std::optional<Node> family = ReadDocument(path, diagnostics);
    if (family && Reads(*family->tree(), model_type)) return ReadFamily(path, diagnostics);
  }
  return std::nullopt;
}

}  // namespace

Result<Node> FamilyOf(const formats::JsonObject& config) {
  const formats::JsonValue* type = TypeOf(config);
  const std::string text = TextSectionOf(config);
  std::string key = "model_type";
  Diagnostics mistakes;
  if (type != nullptr && type->kind == JsonKind::kText) {
    std::optional<Node> family = FamilyOfType(type->text, mistakes);
    if (!family && mistakes.empty() && !text.empty()) {
      key = text + ".model_type";
      type = config.Find(key);
      if (type->kind == JsonKind::kText) family = FamilyOfType(type->text, mistakes);
    }
    if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
    if (family) return *std::move(family);
  }
  const std::string known =
      fmt::format("write one of {}", fmt::join(TypesOfFamilies(Form::kDimensions), ", "));
  if (type == nullptr || type->kind != JsonKind::kText) {
    return tl::make_unexpected(Diagnostics{
        {"input.missing-key", type == nullptr ? config.location() : type->location,
         fmt::format("in a config.json of Hugging Face, {} must be a string", Quoted(key)),
         known}});
  }
  // A program wrote the word, so a similar known word is not a typing mistake (mixtral).
  const std::string unmodelled = UnmodelledFamily(type->text);
  return tl::make_unexpected(Diagnostics{
      {"model.unknown-type", type->location,
       "stepcast does not support models of this model_type: " + Quoted(type->text),
       fmt::format("{}{}; with files of {}: {}", unmodelled.empty() ? "" : unmodelled + "; ", known,
                   kFamilies, fmt::join(TypesOfFamilies(Form::kBlocks), ", "))}});
}

std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts,
                                          const ArchitectureReader& architecture_of,
                                          Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  CheckKeys(family, diagnostics);
  auto names = HasBlocks(*family.tree()) ? FamilyOfBlocks(family, diagnostics) : nullptr;
  if (diagnostics.size() > before) return std::nullopt;
  const formats::JsonValue* type = TypeOf(config);
  const std::optional<std::string> section = SectionOf(*family.tree(), config);
  if (!section) {
    diagnostics.push_back({"model.unknown-type", type->location,
                           fmt::format("the family {} does not support this model_type: {}",
                                       Quoted(NameOfFamily(family)), Quoted(type->text)),
                           "add this model_type to 'model_types' in the file of the family"});
    return std::nullopt;
  }
  FamilyModel model{.description = family, .family = std::move(names), .name = {}};
  const YamlNode* described = Child(*family.tree(), "model");
  for (const std::string_view part : {"mtp", "towers", "encoder"}) {
    const bool asked = part == "mtp"      ? parts.further_tokens
                       : part == "towers" ? parts.patches.has_value()
                                          : parts.encoder_tokens.has_value();
    if (!asked || Child(*described, part) != nullptr) continue;
    diagnostics.push_back({"model.not-modelled", described->position.location(),
                           fmt::format("the family {} does not support models of the type {}",
                                       Quoted(NameOfFamily(family)), Quoted(part)),
                           fmt::format("remove the key '{}' from the model file", part)});
  }
  if (!section->empty() && !parts.patches) {
    model.warnings.push_back(
        std::find(std::begin(kTextSections), std::end(kTextSections), *section) !=
                std::end(kTextSections)
            ? fmt::format("model: the forecast covers only the text model of {} ({}); it omits the "
                          "vision tower, the projector and all other parts",
                          Quoted(type->text), *section)
            : fmt::format("model: the forecast covers only the {} of {} and omits everything else",
                          *section, Quoted(type->text)));
  }
  ConfigEvaluator evaluator(config, family, *section, parts, diagnostics, model.warnings);
  const YamlTree tree = evaluator.Model();
  model.name = evaluator.Name();
  if (!evaluator.has_blocks() && tree != nullptr) {
    model.constants = evaluator.Constants(architecture_of(Node(tree, "")));
  }
  evaluator.JudgeRest();
  if (tree == nullptr || diagnostics.size() > before) return std::nullopt;
  model.description = Node(tree, "");
  return model;
}

}  // namespace stepcast::scenario
