#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/scenario/document.h"

namespace stepcast::scenario {

// Follows a dotted path such as "node.links[3].bandwidth" from `node`. `last` is the value. If
// there is no such value, `whole` is false and `last` is the last existing node on the path.
struct Followed {
  Node last;
  bool whole = true;
};
Followed Follow(Node node, std::string_view path);

// Finds the files that inputs name, either by a path or, for files of the data root, by a plain
// name.

enum class SourceKind : std::uint8_t { kModel, kTopology, kCalibration };

// Returns the data root's folder for files of this kind.
std::string_view ShippedFolder(SourceKind kind);

// Returns the kind of file that a scenario key names. Examples of such keys are "model",
// "cluster.topology" and "cluster.other_nodes[0].calibration".
SourceKind KindOfKey(std::string_view key);

// Resolves `text`, as written in an input file in `folder`. The result is the file at this path
// (FindInput), or the config.json of a model that is a folder. If `text` has no folder and no
// extension, the result is the data root's file of this name ("dgx-h100":
// topologies/dgx-h100.yaml). Names of topologies and profiles are compared with SameName. Returns
// none if there is no such file.
std::optional<std::string> FindSource(std::string_view text, std::string_view folder,
                                      SourceKind kind);

// Returns the names of the data root's files of this kind, in alphabetical order.
std::vector<std::string> ShippedNames(SourceKind kind);

// Returns the name in `known` that equals `word` if upper and lower case are equal, and spaces and
// underscores count as hyphens: "dgx-h100" for "DGX H100". Empty if no name is equal.
std::string SameName(std::string_view word, const std::vector<std::string>& known);

// Returns a hint for a word that is neither a file nor a model. The hint names the most similar
// model. Empty if the word is a path.
std::string HintOfName(std::string_view word);

// Returns the names of YAML files in a folder of the data root, without extension, in alphabetical
// order.
std::vector<std::string> NamesIn(std::string_view folder);

}  // namespace stepcast::scenario
