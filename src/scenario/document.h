#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/scenario/resolved.h"
#include "src/scenario/schema.h"
#include "src/scenario/yaml_tree.h"

// Strict reading of input files. A reader requests every key by name and kind. Any other key, and a
// value of another kind, is reported as a Diagnostic with its position. Functions do not throw.
// Readers continue after a mistake, so all mistakes of a file are reported at once.
//
// Each file format has two functions, because the same mapping may be a file or a part of a
// scenario:
//
//  std::optional<Thing> ReadThing(const Node& node, Diagnostics& diagnostics);
//  Result<Thing> LoadThing(const std::string& path);
//
//  std::optional<Thing> ReadThing(const Node& node, Diagnostics& diagnostics) {
//    MappingReader reader(node, diagnostics);
//    Thing thing;
//    reader.Required("name", thing.name);
//    reader.Required("devices", thing.devices, {1, 100'000});
//    reader.Section("link", Need::kOptional, [&](MappingReader& link) {
//      link.Optional("latency", thing.latency);       // without the key, the member keeps its value
//    });
//    reader.Finish();                                 // unknown keys are reported here
//    if (reader.failed()) return std::nullopt;        // a mistake in the mapping, at any depth
//    return thing;
//  }
namespace stepcast::scenario {

// A YAML node of an input file, with its dotted path. Cheap to copy.
class Node {
 public:
  // Creates a node. `schema` records the keys that readers request. If `schema` is null, no keys
  // are recorded.
  Node(YamlTree tree, std::string path, Schema* schema = nullptr)
      : tree_(std::move(tree)), path_(std::move(path)), schema_(schema) {}

  NodeKind kind() const { return tree_->kind; }
  // Returns the dotted path, such as "training.precision" or "layers[2].name". The path of the root
  // is empty.
  const std::string& path() const { return path_; }
  Location location() const { return tree_->position.location(); }
  const std::string& file() const { return *tree_->position.file; }
  const YamlTree& tree() const { return tree_; }
  Schema* schema() const { return schema_; }

  // scalar() returns the text of a scalar without quotes. quoted() returns whether the text was
  // quoted. The node must be a kScalar.
  const std::string& scalar() const { return tree_->scalar; }
  bool quoted() const { return tree_->quoted; }
  // Returns the items of a kSequence. Other kinds have no items.
  std::vector<Node> items() const;
  // Returns the entries of a kMapping. Other kinds have no entries. Used for mappings with free
  // keys, such as `provenance`.
  std::vector<std::pair<std::string, Node>> entries() const;

  // Describes the node for messages: "'010'" for a scalar, otherwise "a mapping", "a sequence" or
  // "nothing".
  std::string Described() const;

 private:
  YamlTree tree_;
  std::string path_;
  Schema* schema_;
};

// Reads and parses a file. Appends mistakes to `diagnostics`. Returns no value only if the file
// cannot be read or parsed.
std::optional<Node> ReadDocument(const std::string& path, Diagnostics& diagnostics);
// Parses a text. `file` is the name of the text in positions.
std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics);

enum class Zero : std::uint8_t { kAllowed, kRefused };

// A word that a file may contain, and its value.
template <typename T>
struct Word {
  std::string_view text;
  T value;
};

// The words of a key and their values. If only values are given, the word for a value is
// Name(value) or, for texts, the value itself.
template <typename T>
struct Words : std::vector<Word<T>> {
  Words() = default;
  Words(std::initializer_list<Word<T>> words) : std::vector<Word<T>>(words) {}
  Words(std::initializer_list<T> values) {
    for (const T value : values) {
      if constexpr (std::is_same_v<T, std::string_view>) {
        this->push_back({value, value});
      } else {
        this->push_back({Name(value), value});
      }
    }
  }
};

// The rule for values that are read into a T. For an enumeration, a boolean or a text, the rule is
// the allowed words; without words, a boolean is true or false, and every text is allowed. For a
// number, the rule is a range. For a version, it is an example. For bytes, times and rates, it
// states whether zero is allowed. Bandwidths ignore their rule.
template <typename T>
using Rule = std::conditional_t<
    std::is_same_v<T, std::string>, Words<std::string_view>,
    std::conditional_t<
        std::is_enum_v<T> || std::is_same_v<T, bool>, Words<T>,
        std::conditional_t<std::is_integral_v<T>, IntegerRange,
                           std::conditional_t<std::is_same_v<T, double>, DecimalRange,
                                              std::conditional_t<std::is_same_v<T, Version>,
                                                                 std::string_view, Zero>>>>>;

// These functions return the value of one node. If the value is wrong, the functions append a
// Diagnostic and return no value. Integers are plain decimal numbers. Booleans are true or false.
// Text must not be empty. Decimals may have an exponent and quotes. The largest values are 1 EiB
// for bytes, 24 h for times, and 1000 PB/s for bandwidths.
std::optional<std::int64_t> ReadInteger(const Node& node, IntegerRange range,
                                        Diagnostics& diagnostics);
std::optional<bool> ReadBoolean(const Node& node, Diagnostics& diagnostics);
std::optional<double> ReadDecimal(const Node& node, DecimalRange range, Diagnostics& diagnostics);
std::optional<std::string> ReadText(const Node& node, Diagnostics& diagnostics);
std::optional<Bytes> ReadBytes(const Node& node, Zero zero, Diagnostics& diagnostics);
std::optional<Bandwidth> ReadBandwidth(const Node& node, Diagnostics& diagnostics);  // not zero
std::optional<Time> ReadTime(const Node& node, Zero zero, Diagnostics& diagnostics);
std::optional<FlopRate> ReadFlopRate(const Node& node, Zero zero, Diagnostics& diagnostics);
// Reads a version: "2.6" becomes {2, 6}. `example` is a version for hints.
std::optional<Version> ReadVersion(const Node& node, std::string_view example,
                                   Diagnostics& diagnostics);
std::optional<std::vector<Node>> ReadSequence(const Node& node, Diagnostics& diagnostics);
// Reads words: either one text with spaces between the words, or a sequence of words.
std::optional<std::vector<std::string>> ReadWords(const Node& node, Diagnostics& diagnostics);
// Returns whether the node is the word `word`, for keys that also accept other kinds of values.
bool IsWord(const Node& node, std::string_view word);
// Returns the index of the node's scalar in `words`.
std::optional<std::size_t> ReadWordIndex(const Node& node, std::span<const std::string_view> words,
                                         Diagnostics& diagnostics);

// Reads a file with `read`, which appends the mistakes of the file's content.
template <typename T>
Result<T> LoadWith(const std::string& path,
                   std::optional<T> (*read)(const Node& node, Diagnostics& diagnostics)) {
  Diagnostics diagnostics;
  if (const std::optional<Node> node = ReadDocument(path, diagnostics)) {
    std::optional<T> value = read(*node, diagnostics);
    if (value && diagnostics.empty()) return *std::move(value);
  }
  return tl::make_unexpected(std::move(diagnostics));
}

template <typename T>
std::vector<std::string_view> TextsOf(const Words<T>& words) {
  std::vector<std::string_view> texts;
  for (const Word<T>& word : words) texts.push_back(word.text);
  return texts;
}

template <typename T>
std::optional<T> ReadWord(const Node& node, const Words<T>& words, Diagnostics& diagnostics) {
  const std::optional<std::size_t> index = ReadWordIndex(node, TextsOf(words), diagnostics);
  return index ? std::optional(words[*index].value) : std::nullopt;
}

// Reads a mapping key by key. Each Read function requests one key and returns the key's value, or
// no value if the key is missing or the value is wrong. A Read function appends a Diagnostic for a
// wrong value and for a missing required key.
class MappingReader {
 public:
  // Creates a reader. `diagnostics` must outlive the reader. If the node is not a mapping, the
  // constructor reports this mistake. All keys are then missing, without further reports.
  MappingReader(Node node, Diagnostics& diagnostics);

  std::optional<std::int64_t> ReadInteger(std::string_view key, Need need, IntegerRange range);
  std::optional<bool> ReadBoolean(std::string_view key, Need need);
  std::optional<double> ReadDecimal(std::string_view key, Need need, DecimalRange range);
  std::optional<std::string> ReadText(std::string_view key, Need need);
  std::optional<Bytes> ReadBytes(std::string_view key, Need need, Zero zero);
  std::optional<Bandwidth> ReadBandwidth(std::string_view key, Need need);
  std::optional<Time> ReadTime(std::string_view key, Need need, Zero zero);
  std::optional<FlopRate> ReadFlopRate(std::string_view key, Need need, Zero zero);
  std::optional<Version> ReadVersion(std::string_view key, Need need, std::string_view example);
  std::optional<std::vector<Node>> ReadSequence(std::string_view key, Need need);
  std::optional<std::vector<std::string>> ReadWords(std::string_view key, Need need);
  std::optional<MappingReader> ReadMapping(std::string_view key, Need need);
  // Returns the node of a key, for values that may be of several kinds. `what` describes the value
  // in the hint for a missing required key, such as "a path, or a mapping".
  std::optional<Node> ReadNode(std::string_view key, Need need, std::string_view what);
  template <typename T>
  std::optional<T> ReadWord(std::string_view key, Need need, const Words<T>& words);

  // These functions read a key into `value`. If the key is missing or its value is wrong, `value`
  // does not change, with two exceptions: a required integer becomes the smallest allowed integer,
  // and a std::optional becomes empty.
  template <typename T>
  void Optional(std::string_view key, T& value, const Rule<T>& rule = {}) {
    value = ReadAs<T>(key, Need::kOptional, rule).value_or(value);
  }
  template <typename T>
  void Optional(std::string_view key, std::optional<T>& value, const Rule<T>& rule = {}) {
    value = ReadAs<T>(key, Need::kOptional, rule);
  }
  template <typename T>
  void Required(std::string_view key, T& value, const Rule<T>& rule = {});
  template <typename T>
  void Read(std::string_view key, Need need, T& value, const Rule<T>& rule = {}) {
    need == Need::kRequired ? Required(key, value, rule) : Optional(key, value, rule);
  }

  // Reads a mapping with `read`, which takes a MappingReader&, and reports unknown keys.
  template <typename Function>
  void Section(std::string_view key, Need need, const Function& read) {
    auto section = ReadMapping(key, need);
    if (!section) return;
    read(*section);
    section->Finish();
  }
  // Reads a mapping with `read`, which returns a value.
  template <typename T, typename Function>
  void Section(std::string_view key, Need need, T& value, const Function& read) {
    Section(key, need, [&](MappingReader& section) { value = read(section); });
  }
  // Appends the items of a sequence to `list`. `read` takes an item's node and diagnostics. If it
  // returns an empty std::optional, the item is omitted.
  template <typename T, typename Function>
  void List(std::string_view key, Need need, std::vector<T>& list, const Function& read);

  // Returns the index of the key's word in `words`.
  std::optional<std::size_t> ReadOneOf(std::string_view key, Need need,
                                       std::span<const std::string_view> words);

  // Returns whether the key exists, with any value.
  bool Has(std::string_view key) const { return node_.tree()->Find(key) != nullptr; }
  // Returns the position of the key's value, or the position of the mapping if the key is missing.
  Location LocationOf(std::string_view key) const;
  // Returns the dotted path of a key: "training.precision" for the key "precision" of the section
  // `training`.
  std::string PathOf(std::string_view key) const;
  const Node& node() const { return node_; }
  // Returns the list of mistakes. Pass the list to functions that read single values, which append
  // their mistakes.
  Diagnostics& diagnostics() { return *diagnostics_; }

  // Appends a format-specific mistake at the value of `key`.
  void Report(std::string_view key, std::string code, std::string message, std::string hint = "");

  // Reports every key that no Read function requested, with the most similar known key.
  void Finish();

  // Returns whether mistakes were appended since this reader was created.
  bool failed() const { return diagnostics_->size() > diagnostics_before_; }

 private:
  // Marks the key as known and returns its node. Reports a missing required key. While a schema is
  // recorded, returns an empty node for a missing key.
  std::optional<Node> Take(std::string_view key, Need need, std::string_view what);
  template <typename T>
  std::optional<T> ReadAs(std::string_view key, Need need, const Rule<T>& rule);

  Node node_;
  Diagnostics* diagnostics_;
  std::size_t diagnostics_before_;
  std::vector<std::string_view> known_;  // string literals of the callers
};

template <typename T>
std::optional<T> MappingReader::ReadWord(std::string_view key, Need need, const Words<T>& words) {
  const std::optional<std::size_t> index = ReadOneOf(key, need, TextsOf(words));
  return index ? std::optional(words[*index].value) : std::nullopt;
}

template <typename T>
std::optional<T> MappingReader::ReadAs(std::string_view key, Need need, const Rule<T>& rule) {
  if constexpr (std::is_same_v<T, bool>) {
    return rule.empty() ? ReadBoolean(key, need) : ReadWord<T>(key, need, rule);
  } else if constexpr (std::is_enum_v<T>) {
    return ReadWord<T>(key, need, rule);
  } else if constexpr (std::is_integral_v<T>) {
    const auto integer = ReadInteger(key, need, rule);
    return integer ? std::optional(static_cast<T>(*integer)) : std::nullopt;
  } else if constexpr (std::is_same_v<T, double>) {
    return ReadDecimal(key, need, rule);
  } else if constexpr (std::is_same_v<T, Version>) {
    return ReadVersion(key, need, rule);
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return ReadBytes(key, need, rule);
  } else if constexpr (std::is_same_v<T, Time>) {
    return ReadTime(key, need, rule);
  } else if constexpr (std::is_same_v<T, FlopRate>) {
    return ReadFlopRate(key, need, rule);
  } else if constexpr (std::is_same_v<T, Bandwidth>) {
    return ReadBandwidth(key, need);
  } else {
    if (rule.empty()) return ReadText(key, need);
    const auto word = ReadWord<std::string_view>(key, need, rule);
    return word ? std::optional(std::string(*word)) : std::nullopt;
  }
}

template <typename T>
void MappingReader::Required(std::string_view key, T& value, const Rule<T>& rule) {
  if constexpr (std::is_same_v<Rule<T>, IntegerRange>) value = static_cast<T>(rule.least);
  value = ReadAs<T>(key, Need::kRequired, rule).value_or(value);
}

template <typename T, typename Function>
void MappingReader::List(std::string_view key, Need need, std::vector<T>& list,
                         const Function& read) {
  for (const Node& item : ReadSequence(key, need).value_or(std::vector<Node>())) {
    auto value = read(item, *diagnostics_);
    if constexpr (std::is_same_v<decltype(value), std::optional<T>>) {
      if (value) list.push_back(*std::move(value));
    } else {
      list.push_back(std::move(value));
    }
  }
}

// Returns the node as an output tree. Integers and booleans keep their types; all other scalars
// become text.
Resolved ToResolved(const YamlNode& node);

}  // namespace stepcast::scenario
