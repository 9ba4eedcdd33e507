#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"

// YAML text as a tree with the position of every key and value. For a scalar, the tree has the text
// as written ("010" for `010`), and whether the text was quoted. Trees are immutable, so scenarios
// may share parts. A changed tree copies only the nodes on the path to the change (overrides.h).
namespace stepcast::scenario {

enum class NodeKind : std::uint8_t { kNull, kScalar, kSequence, kMapping };

struct Position {
  std::shared_ptr<const std::string> file;  // path, or the text of a command-line option
  int line = 0;
  int column = 0;

  Location location() const { return {*file, line, column}; }
};

struct YamlNode {
  struct Entry {
    std::string key;
    Position position;  // position of the key
    std::shared_ptr<const YamlNode> value;
  };

  NodeKind kind = NodeKind::kNull;
  Position position;
  std::string scalar;   // kScalar: the text, with quotes removed and escapes replaced
  bool quoted = false;  // kScalar: quoted or in a block, and therefore text
  std::vector<std::shared_ptr<const YamlNode>> items;  // kSequence
  std::vector<Entry> entries;                          // kMapping: in order, with distinct keys

  // Returns the entry of a key, or null if the mapping has no such key.
  const Entry* Find(std::string_view key) const;
  Entry* Find(std::string_view key) { return const_cast<Entry*>(std::as_const(*this).Find(key)); }
};

using YamlTree = std::shared_ptr<const YamlNode>;

// Parses one YAML document. After a fatal mistake (syntax, an alias, a tag, a second document,
// nesting beyond 64), appends a Diagnostic and returns no value. Reports and omits duplicate keys
// and keys that are not text. `file` names the text in positions. If `with_positions` is false,
// lines and columns are 0, for text from the command line.
std::optional<YamlTree> ParseYaml(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics, bool with_positions = true);

// Returns the value of a key of the mapping, or null if the mapping has no such key. `node` owns
// the value.
const YamlNode* Child(const YamlNode& node, std::string_view key);
// Returns the value of a dotted key, or null if the key is missing or within a sequence.
const YamlNode* Below(const YamlNode& root, std::string_view key);
// Returns a mapping that has only this dotted key. All mappings have the position of the value.
YamlTree UnderKey(std::string_view key, YamlTree value);
// Returns a scalar. Unless it is quoted, its text may be a number or a boolean.
YamlTree ScalarOf(std::string text, const Position& position, bool quoted = false);

// Returns the position of a dotted key's value. If the key is missing, returns the position of the
// innermost existing mapping on the path to the key.
Location LocationOf(const YamlTree& root, std::string_view key);

// Returns the tree on one line, in flow style. Quoted scalars are in double quotes. Trees with
// equal content have equal text, so the text can be a cache key.
std::string CanonicalText(const YamlNode& node);

}  // namespace stepcast::scenario
