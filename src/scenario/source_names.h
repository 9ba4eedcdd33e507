#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/scenario/document.h"

namespace stepcast::scenario {

// Follows a dotted path such as "node.links[3].bandwidth" from `node`. `last` is the value. If the
// value does not exist, `whole` is false and `last` is the last existing node on the path.
struct Followed {
  Node last;
  bool whole = true;
};
Followed Follow(Node node, std::string_view path);

// Finds the files to which inputs refer, either by a path or, for files of the data root, by a
// name.

enum class SourceKind : std::uint8_t { kModel, kTopology, kCalibration };

// Returns the data root's folder for files of this kind.
std::string_view ShippedFolder(SourceKind kind);

// Returns the kind of file to which a scenario key refers, such as "model", "cluster.topology" or
// "cluster.other_nodes[0].calibration".
SourceKind KindOfKey(std::string_view key);

// Returns the file to which `text` refers in an input file of `folder`. `text` is a path
// (FindInput), a folder with a config.json, or the name of a file of the data root ("dgx-h100":
// topologies/dgx-h100.yaml). A name has no folder and no extension; names of topologies and
// profiles are compared with SameName. Returns no value if the file does not exist.
std::optional<std::string> FindSource(std::string_view text, std::string_view folder,
                                      SourceKind kind);

// Returns the names of the data root's files of this kind, in alphabetical order.
std::vector<std::string> ShippedNames(SourceKind kind);

// Returns the name in `known` that equals `word`, ignoring case, with spaces and underscores
// treated as hyphens: "dgx-h100" for "DGX H100". Empty if no name is equal.
std::string SameName(std::string_view word, const std::vector<std::string>& known);

// Returns whether `word` is one of the words in `list`, which are separated by spaces.
bool HasWord(std::string_view list, std::string_view word);

// Returns the names of YAML files in a folder of the data root, without extension, in alphabetical
// order.
std::vector<std::string> NamesIn(std::string_view folder);

}  // namespace stepcast::scenario
