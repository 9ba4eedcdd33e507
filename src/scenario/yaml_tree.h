#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// YAML text as a tree that keeps what strict reading needs: where every key and value stands, which
// scalars were quoted, and scalars as written (`010` stays "010"). The tree is immutable, so that
// many scenarios may share its parts; a changed tree copies only the way down to the change
// (overrides.h).
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
    Position position;  // of the key
    std::shared_ptr<const YamlNode> value;
  };

  NodeKind kind = NodeKind::kNull;
  Position position;
  std::string scalar;   // kScalar: the text, quotes and escapes resolved
  bool quoted = false;  // kScalar: it stood in quotes (or in a block), so it is text
  std::vector<std::shared_ptr<const YamlNode>> items;  // kSequence
  std::vector<Entry> entries;                          // kMapping, in order, keys distinct
};

using YamlTree = std::shared_ptr<const YamlNode>;

// Reads one YAML document. A mistake that leaves no tree (syntax, an alias, a tag, a second
// document, nesting beyond 64) appends a Diagnostic and returns nothing. A duplicate key, or one
// that is not text, appends a Diagnostic too but is only left out, so that a file's other mistakes
// are found in the same run. `file` names the text in positions; without `with_positions` lines and
// columns stay 0, for text that stands on the command line.
std::optional<YamlTree> ParseYaml(std::string_view text, const std::string& file,
                                  Diagnostics& diagnostics, bool with_positions = true);

// The nearest position to a dotted key: its value, or the innermost mapping on the way to it.
Location LocationOf(const YamlTree& root, std::string_view key);

// The tree on one line, in flow style, every scalar that was quoted in double quotes: equal text
// for equal content. A key for caches.
std::string CanonicalText(const YamlNode& node);

}  // namespace stepcast::scenario
