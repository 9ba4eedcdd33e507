#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/scenario/document.h"

namespace stepcast::scenario {

// Follows a dotted path like "node.links[3].bandwidth" below a node: to the value, or to the last
// node on the path that exists.
struct Followed {
  Node last;
  bool whole = true;
};
Followed Follow(Node node, std::string_view path);

// The files that inputs name: by a path or, for files of the data root, by a plain name.

enum class SourceKind : std::uint8_t { kModel, kTopology, kCalibration };

// The data root's folder for such files.
std::string_view ShippedFolder(SourceKind kind);

// For a scenario key that names a file: "model", "cluster.topology",
// "cluster.other_nodes[0].calibration".
SourceKind KindOfKey(std::string_view key);

// Resolves `text`, as written in an input file in `folder`: the file at its path (FindInput); for a
// model that is a folder, its config.json; for a name without folder and extension, the data root's
// file of that name ("dgx-h100": topologies/dgx-h100.yaml), (topologies and profiles: SameName).
std::optional<std::string> FindSource(std::string_view text, std::string_view folder,
                                      SourceKind kind);

// The names of the data root's files of that kind, in alphabetical order.
std::vector<std::string> ShippedNames(SourceKind kind);

// The one of `known` that is equal to `word` but for capital letters, and for spaces and underscores
// instead of hyphens: "dgx-h100" for "DGX H100". Empty: none.
std::string SameName(std::string_view word, const std::vector<std::string>& known);

// A hint for a word that is neither a file nor a model, with the name of the model that it resembles
// most. Empty for a path.
std::string HintOfName(std::string_view word);

// The names of YAML files in a folder of the data root, without extension, in alphabetical order.
std::vector<std::string> NamesIn(std::string_view folder);

}  // namespace stepcast::scenario
