#include "src/scenario/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"

namespace stepcast::scenario {
namespace {

constexpr Bytes kMostBytes = Bytes(std::int64_t{1} << 60);
constexpr Time kMostTime = Seconds(24 * 3600);
constexpr std::int64_t kMostRate = 1'000'000'000'000'000'000;

// "training.precision" or, at the root of a file, "the file".
std::string Named(const Node& node) {
  return node.path().empty() ? "the file" : Quoted(node.path());
}

void Append(const Node& node, std::string code, std::string message, std::string hint,
            Diagnostics& diagnostics) {
  diagnostics.push_back({std::move(code), node.location(), std::move(message), std::move(hint)});
}

// Whether the value is in an option (--set, --vary), which needs the whole key and an equals sign.
bool IsOfOption(const Location& location) { return location.line == 0; }

std::string Example(const Node& node, std::string_view value) {
  const std::string& path = node.path();
  if (IsOfOption(node.location()) && !path.empty() && path.back() != ']') {
    return fmt::format("'{}={}'", path, value);
  }
  const std::size_t dot = path.rfind('.');
  const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
  if (key.empty() || key.back() == ']') return fmt::format("'{}'", value);
  return fmt::format("'{}: {}'", key, value);
}

// Checks common to all scalars; false after reporting.
bool IsScalar(const Node& node, std::string_view due, std::string_view example,
              Diagnostics& diagnostics) {
  if (node.kind() == NodeKind::kScalar) return true;
  Append(node, node.kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
         fmt::format("{} needs {}, not {}", Named(node), due, node.Described()),
         fmt::format("write for example {}", Example(node, example)), diagnostics);
  return false;
}

// A node for an absent value.
YamlTree Empty() {
  YamlNode node;
  node.position.file = std::make_shared<const std::string>();
  return std::make_shared<const YamlNode>(std::move(node));
}

// Records that a value of this kind is asked for.
void Note(const Node& node, const SchemaValue& value) {
  if (node.schema() != nullptr) node.schema()->Take(value);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Digits without a sign or leading zeros.
bool IsPlainDecimal(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit) &&
         (text.size() == 1 || text[0] != '0');
}

template <typename T>
std::optional<T> ReadQuantity(const Node& node, QuantityResult<T> (*parse)(std::string_view),
                              std::string_view due, std::string_view example, T least, T most,
                              std::string_view limit, Diagnostics& diagnostics) {
  if (!IsScalar(node, due, example, diagnostics)) return std::nullopt;
  const QuantityResult<T> value = parse(node.scalar());
  if (!value.has_value()) {
    Append(node, "input.bad-quantity", fmt::format("{}: {}", Named(node), value.error().message),
           value.error().hint, diagnostics);
    return std::nullopt;
  }
  if (*value < least) {
    Append(node, "input.out-of-range",
           fmt::format("{} must be greater than zero: {}", Named(node), node.Described()),
           fmt::format("write for example {}", Example(node, example)), diagnostics);
    return std::nullopt;
  }
  if (*value > most) {
    Append(node, "input.out-of-range",
           fmt::format("{} must be at most {}: {}", Named(node), limit, node.Described()),
           fmt::format("write for example {}", Example(node, example)), diagnostics);
    return std::nullopt;
  }
  return *value;
}

}  // namespace

std::vector<Node> Node::items() const {
  std::vector<Node> nodes;
  if (kind() != NodeKind::kSequence) return nodes;
  nodes.reserve(tree_->items.size());
  for (std::size_t i = 0; i < tree_->items.size(); ++i) {
    nodes.emplace_back(tree_->items[i], fmt::format("{}[{}]", path_, i),
                       schema_ == nullptr ? nullptr : &schema_->TakeItems());
  }
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::entries() const {
  std::vector<std::pair<std::string, Node>> nodes;
  if (kind() != NodeKind::kMapping) return nodes;
  nodes.reserve(tree_->entries.size());
  for (const YamlNode::Entry& entry : tree_->entries) {
    nodes.emplace_back(entry.key,
                       Node(entry.value, path_.empty() ? entry.key : path_ + "." + entry.key));
  }
  return nodes;
}

std::string Node::Described() const {
  switch (kind()) {
    case NodeKind::kNull:
      return "nothing";
    case NodeKind::kScalar:
      return Quoted(scalar());
    case NodeKind::kSequence:
      return "a sequence";
    case NodeKind::kMapping:
      return "a mapping";
  }
  return "";
}

std::optional<Node> ReadDocument(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text.has_value()) return std::nullopt;
  return ParseDocument(*text, path, diagnostics);
}

std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics) {
  std::optional<YamlTree> tree = ParseYaml(text, file, diagnostics);
  if (!tree.has_value()) return std::nullopt;
  if ((*tree)->kind == NodeKind::kNull) {
    diagnostics.push_back({"file.empty",
                           {file, 1, 1},
                           "the file is empty",
                           "docs/formats.md describes the keys; to write a scenario, run stepcast "
                           "init llama3.1-8b --gpus '8 x h100-sxm' -o my.yaml"});
    return std::nullopt;
  }
  return Node(*std::move(tree), "");
}

namespace {

// The digits of a whole number in another notation: 1e9, 1_000, "8", 010, 8k. Nothing if a double
// cannot hold it exactly.
std::optional<std::int64_t> WholeNumber(std::string text) {
  constexpr double kMostExact = 9007199254740992;  // 2^53
  std::erase(text, '_');
  constexpr double kKibi = 1024;  // lengths and batches are powers of two
  const double unit = text.ends_with('k') || text.ends_with('K') ? kKibi : 1;
  if (unit > 1) text.pop_back();
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || std::floor(value) != value) return std::nullopt;
  if (std::abs(value) > kMostExact) return std::nullopt;
  return static_cast<std::int64_t>(unit * value);
}

// Whether the text denotes several numbers: 1-8, 1:8, 1,2,4, range(1, 8).
bool IsRange(std::string_view text) {
  if (text.starts_with("range(")) return true;
  const std::size_t sign = text.find_first_of("-:,");
  return sign != std::string_view::npos && sign > 0 && sign + 1 < text.size() &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(sign), IsDigit) &&
         IsDigit(text[sign + 1]);
}

// Hint for a value that is not an integer, or is out of range.
std::string IntegerHint(const Node& node, IntegerRange range) {
  const std::optional<std::int64_t> meant =
      node.kind() == NodeKind::kScalar ? WholeNumber(node.scalar()) : std::nullopt;
  if (meant && *meant >= range.least && *meant <= range.most) {
    return fmt::format("write {}", Example(node, fmt::format("{}", *meant)));
  }
  if (node.kind() == NodeKind::kScalar && IsRange(node.scalar())) {
    const bool list = node.scalar().find(',') != std::string::npos;
    return fmt::format(
        "to try several values, use stepcast sweep or stepcast plan with --vary '{}={}'",
        node.path(), list ? node.scalar() : "1..8 x2");
  }
  if (range.example > 0) {
    return fmt::format("write for example {}", Example(node, fmt::format("{}", range.example)));
  }
  return meant && *meant > range.most
             ? fmt::format("write an integer from {} to {}", range.least, range.most)
             : fmt::format("write an integer of at least {}", range.least);
}

}  // namespace

std::optional<std::int64_t> ReadInteger(const Node& node, IntegerRange range,
                                        Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kInteger, .integers = range});
  if (node.kind() != NodeKind::kScalar) {
    Append(node, node.kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
           fmt::format("{} needs an integer, not {}", Named(node), node.Described()),
           IntegerHint(node, range), diagnostics);
    return std::nullopt;
  }
  const auto hint = [&] { return IntegerHint(node, range); };
  std::string_view digits = node.scalar();
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative) digits.remove_prefix(1);
  if (node.quoted() || !IsPlainDecimal(digits)) {
    const bool leading_zero = !node.quoted() && digits.size() > 1 && digits[0] == '0' &&
                              std::all_of(digits.begin(), digits.end(), IsDigit);
    Append(node, "input.not-an-integer",
           fmt::format("{} needs an integer, {}: {}", Named(node),
                       node.quoted()  ? "without quotes"
                       : leading_zero ? "without leading zeros"
                                      : "in plain decimal digits",
                       node.Described()),
           IntegerHint(node, range), diagnostics);
    return std::nullopt;
  }
  std::int64_t value = 0;
  const bool fits =
      std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
  if (negative && fits) value = -value;
  if (fits ? value < range.least : negative) {
    Append(node, "input.out-of-range",
           fmt::format("{} must be at least {}: {}", Named(node), range.least, node.Described()),
           hint(), diagnostics);
    return std::nullopt;
  }
  if (!fits || value > range.most) {
    Append(node, "input.out-of-range",
           fmt::format("{} must be at most {}: {}", Named(node), range.most, node.Described()),
           hint(), diagnostics);
    return std::nullopt;
  }
  return value;
}

std::optional<bool> ReadBoolean(const Node& node, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kBoolean});
  if (!IsScalar(node, "true or false", "true", diagnostics)) return std::nullopt;
  if (!node.quoted() && node.scalar() == "true") return true;
  if (!node.quoted() && node.scalar() == "false") return false;
  Append(node, "input.not-a-boolean",
         fmt::format("{} needs true or false: {}", Named(node), node.Described()),
         fmt::format("write {} or {}", Example(node, "true"), Example(node, "false")), diagnostics);
  return std::nullopt;
}

std::optional<double> ReadDecimal(const Node& node, DecimalRange range, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kDecimal, .decimals = range});
  if (!IsScalar(node, "a number", "0.5", diagnostics)) return std::nullopt;
  const std::string& text = node.scalar();
  std::string_view digits = text;
  if (!digits.empty() && digits[0] == '-') digits.remove_prefix(1);
  // from_chars also accepts "inf", ".5", "5." and "05".
  const std::size_t point = digits.find_first_not_of("0123456789");
  const std::string_view whole = digits.substr(0, point);
  const bool plain = IsPlainDecimal(whole) && IsDigit(digits.back());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!plain || error != std::errc() || end != text.data() + text.size()) {
    Append(node, "input.not-a-number",
           fmt::format("{} needs a decimal number: {}", Named(node), node.Described()),
           fmt::format("write for example {}", Example(node, "0.5")), diagnostics);
    return std::nullopt;
  }
  if (!(value >= range.least) || !(value <= range.most)) {
    Append(node, "input.out-of-range",
           fmt::format("{} must be between {} and {}: {}", Named(node), range.least, range.most,
                       node.Described()),
           fmt::format("write for example {}", Example(node, "0.5")), diagnostics);
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> ReadText(const Node& node, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kText});
  if (!IsScalar(node, "text", "a-name", diagnostics)) return std::nullopt;
  if (node.scalar().empty()) {
    Append(node, "input.no-value", fmt::format("{} must not be empty", Named(node)),
           "write a text, or remove the key to use its default", diagnostics);
    return std::nullopt;
  }
  return node.scalar();
}

std::optional<Bytes> ReadBytes(const Node& node, Zero zero, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kBytes});
  return ReadQuantity(node, ParseBytes, "a number of bytes", "25 MiB",
                      Bytes(zero == Zero::kAllowed ? 0 : 1), kMostBytes, "1 EiB (2^60 B)",
                      diagnostics);
}

std::optional<Bandwidth> ReadBandwidth(const Node& node, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kBandwidth});
  return ReadQuantity(node, ParseBandwidth, "a bandwidth", "25 GB/s", Bandwidth::BytesPerSecond(1),
                      Bandwidth::BytesPerSecond(kMostRate), "1000000 TB/s", diagnostics);
}

std::optional<Time> ReadTime(const Node& node, Zero zero, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kTime});
  return ReadQuantity(node, ParseTime, "a time", "2.5 us",
                      Picoseconds(zero == Zero::kAllowed ? 0 : 1), kMostTime, "24 h", diagnostics);
}

std::optional<FlopRate> ReadFlopRate(const Node& node, Zero zero, Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kFlopRate});
  return ReadQuantity(node, ParseFlopRate, "a flop rate", "989 TFLOPS",
                      FlopRate::FlopsPerSecond(zero == Zero::kAllowed ? 0 : 1),
                      FlopRate::FlopsPerSecond(kMostRate), "1000 PFLOPS", diagnostics);
}

std::optional<Version> ReadVersion(const Node& node, std::string_view example,
                                   Diagnostics& diagnostics) {
  Note(node, {.kind = SchemaValue::Kind::kVersion});
  const std::string quoted = fmt::format("\"{}\"", example);
  if (!IsScalar(node, "a version", quoted, diagnostics)) return std::nullopt;
  const std::string_view text = node.scalar();
  const std::size_t dot = text.find('.');
  const std::string_view major = text.substr(0, dot);
  const std::string_view minor =
      dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  constexpr std::size_t kMostDigits = 4;
  if (!IsPlainDecimal(major) || !IsPlainDecimal(minor) || major.size() > kMostDigits ||
      minor.size() > kMostDigits) {
    // A release such as 2.9.1: the patch number does not matter.
    const std::string_view release = minor.substr(0, minor.find_first_not_of("0123456789"));
    const bool longer = IsPlainDecimal(major) && IsPlainDecimal(release);
    Append(node, "input.not-a-version",
           fmt::format("{} must be a version of the form MAJOR.MINOR, not {}", Named(node),
                       node.Described()),
           longer ? fmt::format("write {}", Example(node, fmt::format("\"{}.{}\"", major, release)))
                  : fmt::format("write for example {}", Example(node, quoted)),
           diagnostics);
    return std::nullopt;
  }
  Version version;
  std::from_chars(major.data(), major.data() + major.size(), version.major);
  std::from_chars(minor.data(), minor.data() + minor.size(), version.minor);
  return version;
}

std::optional<std::vector<Node>> ReadSequence(const Node& node, Diagnostics& diagnostics) {
  if (node.kind() == NodeKind::kSequence) return node.items();
  if (node.schema() != nullptr) {
    return {{Node(Empty(), node.path(), &node.schema()->TakeItems())}};
  }
  Append(node, node.kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
         fmt::format("{} needs a sequence, not {}", Named(node), node.Described()),
         "write '[first, second]', or one '- item' per line", diagnostics);
  return std::nullopt;
}

std::optional<std::vector<std::string>> ReadWords(const Node& node, Diagnostics& diagnostics) {
  std::vector<std::string> words;
  const bool list = node.kind() == NodeKind::kSequence && !node.items().empty();
  if (list || node.schema() != nullptr) {
    const auto items = ReadSequence(node, diagnostics);
    for (const Node& item : *items) {
      if (auto word = ReadText(item, diagnostics)) words.push_back(*std::move(word));
    }
    if (node.schema() == nullptr) {
      return words.size() == items->size() ? std::optional(std::move(words)) : std::nullopt;
    }
  }
  const std::optional<std::string> text = ReadText(node, diagnostics);
  if (!text) return std::nullopt;
  for (std::size_t begin = 0; begin <= text->size();) {
    const std::size_t end = std::min(text->find(' ', begin), text->size());
    words.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool IsWord(const Node& node, std::string_view word) {
  if (node.schema() != nullptr) {
    node.schema()->Take({.kind = SchemaValue::Kind::kWord, .words = {std::string(word)}});
  }
  return node.kind() == NodeKind::kScalar && node.scalar() == word;
}

std::optional<std::size_t> ReadWordIndex(const Node& node, std::span<const std::string_view> words,
                                         Diagnostics& diagnostics) {
  if (node.schema() != nullptr) {
    node.schema()->Take({.kind = SchemaValue::Kind::kWord, .words = {words.begin(), words.end()}});
  }
  if (node.kind() == NodeKind::kScalar) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (node.scalar() == words[i]) return i;
    }
  }
  const std::string choice = fmt::format("{}", fmt::join(words, ", "));
  if (!IsScalar(node, fmt::format("one of {}", choice), words.front(), diagnostics)) {
    return std::nullopt;
  }
  std::string_view nearest = NearestWord(node.scalar(), {words.begin(), words.end()});
  // In "fp8_e4m3" the first part is a known word.
  for (const std::string_view word : words) {
    const bool begins = node.scalar().size() > word.size() && node.scalar().starts_with(word);
    if (begins && word.size() > nearest.size() && node.scalar()[word.size()] == '_') nearest = word;
  }
  Append(node, "input.unknown-word",
         fmt::format("{} must be one of {}: {}", Named(node), choice, node.Described()),
         nearest.empty() ? fmt::format("write for example {}", Example(node, words.front()))
                         : fmt::format("did you mean '{}'?", nearest),
         diagnostics);
  return std::nullopt;
}

MappingReader::MappingReader(Node node, Diagnostics& diagnostics)
    : node_(std::move(node)), diagnostics_(&diagnostics), diagnostics_before_(diagnostics.size()) {
  if (node_.schema() != nullptr) node_.schema()->TakeMapping();
  if (node_.kind() == NodeKind::kMapping) return;
  Append(node_, node_.kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
         fmt::format("{} needs a mapping, not {}", Named(node_), node_.Described()),
         "write 'key: value' lines, or {key: value}", diagnostics);
}

Location MappingReader::LocationOf(std::string_view key) const {
  const YamlNode::Entry* entry = node_.tree()->Find(key);
  return entry == nullptr ? node_.location() : entry->value->position.location();
}

std::string MappingReader::PathOf(std::string_view key) const {
  std::string path;
  path.reserve(node_.path().size() + 1 + key.size());
  if (!node_.path().empty()) path.append(node_.path()).push_back('.');
  return path.append(key);
}

std::optional<Node> MappingReader::Take(std::string_view key, Need need, std::string_view what) {
  Schema* const schema = node_.schema();
  if (node_.kind() != NodeKind::kMapping && schema == nullptr) return std::nullopt;
  const bool known = std::find(known_.begin(), known_.end(), key) != known_.end();
  if (!known) known_.push_back(key);
  Schema* const own =
      schema == nullptr ? nullptr : &schema->TakeKey(key, known ? Need::kOptional : need);
  const YamlNode::Entry* entry = node_.tree()->Find(key);
  if (entry != nullptr) return Node(entry->value, PathOf(key), own);
  if (need == Need::kRequired) {
    Append(node_, "input.missing-key", fmt::format("missing key: {}", Quoted(PathOf(key))),
           fmt::format("add '{}:' with {}", key, what), *diagnostics_);
  }
  return own == nullptr ? std::nullopt : std::optional(Node(Empty(), PathOf(key), own));
}

std::optional<std::int64_t> MappingReader::ReadInteger(std::string_view key, Need need,
                                                       IntegerRange range) {
  const std::optional<Node> node = Take(key, need, "an integer");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadInteger(*node, range, *diagnostics_);
}

std::optional<bool> MappingReader::ReadBoolean(std::string_view key, Need need) {
  const std::optional<Node> node = Take(key, need, "true or false");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadBoolean(*node, *diagnostics_);
}

std::optional<double> MappingReader::ReadDecimal(std::string_view key, Need need,
                                                 DecimalRange range) {
  const std::optional<Node> node = Take(key, need, "a number");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadDecimal(*node, range, *diagnostics_);
}

std::optional<std::string> MappingReader::ReadText(std::string_view key, Need need) {
  const std::optional<Node> node = Take(key, need, "text");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadText(*node, *diagnostics_);
}

std::optional<Bytes> MappingReader::ReadBytes(std::string_view key, Need need, Zero zero) {
  const std::optional<Node> node = Take(key, need, "a number of bytes, such as 25 MiB");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadBytes(*node, zero, *diagnostics_);
}

std::optional<Bandwidth> MappingReader::ReadBandwidth(std::string_view key, Need need) {
  const std::optional<Node> node = Take(key, need, "a bandwidth such as 25 GB/s");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadBandwidth(*node, *diagnostics_);
}

std::optional<Time> MappingReader::ReadTime(std::string_view key, Need need, Zero zero) {
  const std::optional<Node> node = Take(key, need, "a time such as 2.5 us");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadTime(*node, zero, *diagnostics_);
}

std::optional<FlopRate> MappingReader::ReadFlopRate(std::string_view key, Need need, Zero zero) {
  const std::optional<Node> node = Take(key, need, "a rate of computation, such as 989 TFLOPS");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadFlopRate(*node, zero, *diagnostics_);
}

std::optional<Version> MappingReader::ReadVersion(std::string_view key, Need need,
                                                  std::string_view example) {
  const std::optional<Node> node =
      Take(key, need, fmt::format("a version such as \"{}\"", example));
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadVersion(*node, example, *diagnostics_);
}

std::optional<std::vector<Node>> MappingReader::ReadSequence(std::string_view key, Need need) {
  const std::optional<Node> node = Take(key, need, "a sequence");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadSequence(*node, *diagnostics_);
}

std::optional<std::size_t> MappingReader::ReadOneOf(std::string_view key, Need need,
                                                    std::span<const std::string_view> words) {
  const std::optional<Node> node =
      Take(key, need, fmt::format("one of {}", fmt::join(words, ", ")));
  return node ? ReadWordIndex(*node, words, *diagnostics_) : std::nullopt;
}

std::optional<std::vector<std::string>> MappingReader::ReadWords(std::string_view key, Need need) {
  const std::optional<Node> node = Take(key, need, "one or more words, or a list of words");
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadWords(*node, *diagnostics_);
}

std::optional<MappingReader> MappingReader::ReadMapping(std::string_view key, Need need) {
  std::optional<Node> node = Take(key, need, "a mapping");
  if (!node.has_value()) return std::nullopt;
  return MappingReader(*std::move(node), *diagnostics_);
}

std::optional<Node> MappingReader::ReadNode(std::string_view key, Need need,
                                            std::string_view what) {
  return Take(key, need, what);
}

void MappingReader::Report(std::string_view key, std::string code, std::string message,
                           std::string hint) {
  diagnostics_->push_back({std::move(code), LocationOf(key), std::move(message), std::move(hint)});
}

void MappingReader::Finish() {
  for (const YamlNode::Entry& entry : node_.tree()->entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    // A hint costs more than the rest, so faults that are not shown get none.
    const bool shown = diagnostics_->size() < kMostShownFaults;
    const std::string_view nearest = shown ? NearestWord(entry.key, known_) : std::string_view();
    diagnostics_->push_back(
        {"input.unknown-key", entry.position.location(),
         fmt::format("unknown key: {}", Quoted(PathOf(entry.key))),
         !shown            ? std::string()
         : nearest.empty() ? fmt::format("known keys are {}", fmt::join(known_, ", "))
                           : fmt::format("did you mean '{}'?", IsOfOption(entry.position.location())
                                                                   ? PathOf(nearest)
                                                                   : std::string(nearest))});
  }
}

Resolved ToResolved(const YamlNode& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return {};
    case NodeKind::kScalar: {
      if (!node.quoted && node.scalar == "true") return {true};
      if (!node.quoted && node.scalar == "false") return {false};
      std::int64_t integer = 0;
      const char* end = node.scalar.data() + node.scalar.size();
      if (!node.quoted && IsPlainDecimal(node.scalar) &&
          std::from_chars(node.scalar.data(), end, integer).ec == std::errc()) {
        return {integer};
      }
      return {node.scalar};
    }
    case NodeKind::kSequence: {
      Resolved::Sequence items;
      for (const YamlTree& item : node.items) items.push_back(ToResolved(*item));
      return {std::move(items)};
    }
    case NodeKind::kMapping: {
      Resolved::Mapping entries;
      for (const YamlNode::Entry& entry : node.entries) {
        entries.emplace_back(entry.key, ToResolved(*entry.value));
      }
      return {std::move(entries)};
    }
  }
  return {};
}

}  // namespace stepcast::scenario
