#pragma once

#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Returns the tree with one `--set KEY=VALUE` applied. KEY is a dotted path from the root. Missing
// mappings on the path are created. A number is an index into a sequence ("model.layers.0.repeat").
// VALUE is YAML. If it is null, the key is removed, so that its default applies. If the key is
// absent then, `root` itself is returned. Only the path to the key is copied. Positions of the new
// value name the option ("--set training.precision=bf17").
std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics);

}  // namespace stepcast::scenario
