#pragma once

#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Returns the tree with one `--set KEY=VALUE` applied. KEY is a dotted path from the root. Missing
// mappings on the path are created; a number is an index into a sequence ("model.layers.0.repeat").
// VALUE is YAML. null removes the key, so that its default applies; if the key is absent, `root`
// itself is returned. Only the path to the key is copied. Positions of the new value name the
// option ("--set training.precision=bf17").
std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics);

}  // namespace stepcast::scenario
