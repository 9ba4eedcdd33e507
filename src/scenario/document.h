#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// Strict reading of input files: every key is asked for by name and kind, and everything that was
// not asked for, or is of another kind, is a Diagnostic with its position. Nothing throws; a reader
// goes on after a mistake, so that all mistakes of a file come out at once.
//
// The reader of a file format offers two functions, so that the same mapping may stand in a file of
// its own or inside a scenario:
//
//   std::optional<Thing> ReadThing(const Node& node, Diagnostics& diagnostics);
//   Result<Thing> LoadThing(const std::string& path);
//
//   std::optional<Thing> ReadThing(const Node& node, Diagnostics& diagnostics) {
//     MappingReader reader(node, diagnostics);
//     const auto name = reader.ReadText("name", Need::kRequired);
//     const auto devices = reader.ReadInteger("devices", Need::kRequired, {1, 100'000});
//     if (auto link = reader.ReadMapping("link", Need::kOptional)) {
//       ... link->ReadTime("latency", Need::kRequired) ...
//       link->Finish();
//     }
//     reader.Finish();                                 // unknown keys are reported here
//     if (reader.failed()) return std::nullopt;        // some mistake in it or below it
//     return Thing{*name, ...};
//   }
namespace stepcast::scenario {

// A place in an input file: a YAML node and its dotted path. Cheap to copy.
class Node {
 public:
  // `schema`: where to note what readers ask of it; null: nowhere.
  Node(YamlTree tree, std::string path, Schema* schema = nullptr)
      : tree_(std::move(tree)), path_(std::move(path)), schema_(schema) {}

  NodeKind kind() const { return tree_->kind; }
  // "training.precision", "layers[2].name"; empty for the root.
  const std::string& path() const { return path_; }
  Location location() const { return tree_->position.location(); }
  const std::string& file() const { return *tree_->position.file; }
  const YamlTree& tree() const { return tree_; }
  Schema* schema() const { return schema_; }

  // kScalar: the text with quotes resolved, and whether it had quotes.
  const std::string& scalar() const { return tree_->scalar; }
  bool quoted() const { return tree_->quoted; }
  // kSequence, otherwise empty.
  std::vector<Node> items() const;
  // kMapping, otherwise empty: for mappings whose keys are free (provenance).
  std::vector<std::pair<std::string, Node>> entries() const;

  // For messages: "'010'" of a scalar, "a mapping", "a sequence", "nothing".
  std::string Described() const;

 private:
  YamlTree tree_;
  std::string path_;
  Schema* schema_;
};

// Reads and parses a file. Mistakes are appended; nothing is returned only when there is no tree.
std::optional<Node> ReadDocument(const std::string& path, Diagnostics& diagnostics);
// The same from text; `file` names it in positions.
std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics);

enum class Zero : std::uint8_t { kAllowed, kRefused };

// A word of the file and what it stands for.
template <typename T>
struct Word {
  std::string_view text;
  T value;
};

// The value of one node, or nothing after appending what is wrong with it. Integers are plain
// decimal, booleans true or false, text anything but empty; decimals may have an exponent and may
// stand in quotes. Bytes go up to 1 EiB, times to 24 h, bandwidths to 1000 PB/s.
std::optional<std::int64_t> ReadInteger(const Node& node, IntegerRange range,
                                        Diagnostics& diagnostics);
std::optional<bool> ReadBoolean(const Node& node, Diagnostics& diagnostics);
std::optional<double> ReadDecimal(const Node& node, DecimalRange range, Diagnostics& diagnostics);
std::optional<std::string> ReadText(const Node& node, Diagnostics& diagnostics);
std::optional<Bytes> ReadBytes(const Node& node, Zero zero, Diagnostics& diagnostics);
std::optional<Bandwidth> ReadBandwidth(const Node& node, Diagnostics& diagnostics);  // not zero
std::optional<Time> ReadTime(const Node& node, Zero zero, Diagnostics& diagnostics);
std::optional<FlopRate> ReadFlopRate(const Node& node, Zero zero, Diagnostics& diagnostics);
// "2.6" as {2, 6}. `example`: a version of this thing, for hints.
std::optional<Version> ReadVersion(const Node& node, std::string_view example,
                                   Diagnostics& diagnostics);
std::optional<std::vector<Node>> ReadSequence(const Node& node, Diagnostics& diagnostics);
// A text of words with spaces between, or a sequence of them.
std::optional<std::vector<std::string>> ReadWords(const Node& node, Diagnostics& diagnostics);
// Of a place that takes this word beside values of another kind: whether it stands there.
bool IsWord(const Node& node, std::string_view word);
// The position of the node's scalar in `words`.
std::optional<std::size_t> ReadWordIndex(const Node& node, std::span<const std::string_view> words,
                                         Diagnostics& diagnostics);

template <typename T>
std::optional<T> ReadWord(const Node& node, std::initializer_list<Word<T>> words,
                          Diagnostics& diagnostics) {
  std::vector<std::string_view> texts;
  texts.reserve(words.size());
  for (const Word<T>& word : words) texts.push_back(word.text);
  const std::optional<std::size_t> index = ReadWordIndex(node, texts, diagnostics);
  if (!index.has_value()) return std::nullopt;
  return words.begin()[*index].value;
}

// A mapping read key by key. Each Read function asks for one key: it returns the value, or nothing
// when the key is absent (a Diagnostic if it is required) or its value is wrong (a Diagnostic).
class MappingReader {
 public:
  // `diagnostics` must outlive the reader. A node that is no mapping is reported here, once; every
  // key then counts as absent and nothing more is reported.
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
  // The node as it is, for values of several kinds. `what` describes it in the hint when a required
  // key is missing: "a path, or a mapping".
  std::optional<Node> ReadNode(std::string_view key, Need need, std::string_view what);
  template <typename T>
  std::optional<T> ReadWord(std::string_view key, Need need, std::initializer_list<Word<T>> words);

  // The key is there, whatever its value.
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Where the key's value stands; the mapping itself when the key is absent.
  Location LocationOf(std::string_view key) const;
  // "training.precision" for key "precision".
  std::string PathOf(std::string_view key) const;
  const Node& node() const { return node_; }
  // Where mistakes go, for readers of single values.
  Diagnostics& diagnostics() { return *diagnostics_; }

  // Appends a mistake of the format's own at the value of `key`.
  void Report(std::string_view key, std::string code, std::string message, std::string hint = "");

  // Reports every key that no Read function asked for, with the nearest one that was.
  void Finish();

  // Something was appended to the diagnostics since this reader was made.
  bool failed() const { return diagnostics_->size() > diagnostics_before_; }

 private:
  const YamlNode::Entry* Find(std::string_view key) const;
  // Marks the key as known and returns its node; reports a required key that is missing. Where what
  // is asked for is noted, a key that is missing has a node, too, with nothing in it.
  std::optional<Node> Take(std::string_view key, Need need, std::string_view what);

  Node node_;
  Diagnostics* diagnostics_;
  std::size_t diagnostics_before_;
  std::vector<std::string_view> known_;  // the callers' literals
};

template <typename T>
std::optional<T> MappingReader::ReadWord(std::string_view key, Need need,
                                         std::initializer_list<Word<T>> words) {
  std::string what;
  if (need == Need::kRequired && !Has(key)) {
    what = "one of";
    for (const Word<T>& word : words) {
      what += word.text.data() == words.begin()->text.data() ? " " : ", ";
      what += word.text;
    }
  }
  const std::optional<Node> node = Take(key, need, what);
  if (!node.has_value()) return std::nullopt;
  return scenario::ReadWord(*node, words, *diagnostics_);
}

// The node as an output tree: integers and booleans as such, everything else as text.
Resolved ToResolved(const YamlNode& node);

}  // namespace stepcast::scenario
