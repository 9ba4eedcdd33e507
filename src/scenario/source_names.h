#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/scenario/document.h"

namespace stepcast::scenario {

// Where a dotted path like "node.links[3].bandwidth" leads below a node: to the value, or to the
// last thing on the way that is there.
struct Followed {
  Node last;
  bool whole = true;
};
Followed Follow(Node node, std::string_view path);

// The files that inputs name: by a path, or, where the data root has them, by a name alone.

enum class SourceKind : std::uint8_t { kModel, kTopology, kCalibration };

// The folder of the data root that holds such files.
std::string_view ShippedFolder(SourceKind kind);

// Of a key of a scenario that names a file: "model", "cluster.topology",
// "cluster.other_nodes[0].calibration".
SourceKind KindOfKey(std::string_view key);

// The file that `text`, as written in an input file in `folder`, means: that of its path
// (FindInput); of a model that is a folder, the config.json in it; else, of a name without folder
// and ending, the data root's file of that name ("dgx-h100": topologies/dgx-h100.yaml).
std::optional<std::string> FindSource(std::string_view text, std::string_view folder,
                                      SourceKind kind);

// The names of the data root's files of that kind, in alphabetical order.
std::vector<std::string> ShippedNames(SourceKind kind);

// The names of YAML files in a folder of the data root, without their ending, in alphabetical
// order.
std::vector<std::string> NamesIn(std::string_view folder);

}  // namespace stepcast::scenario
