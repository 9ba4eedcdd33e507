#pragma once

#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Returns the tree with one `--set KEY=VALUE` applied. KEY is a dotted path from the root. Missing
// mappings on the path are created. A number is an index into a sequence ("model.layers.0.repeat").
// VALUE is YAML. If VALUE is null, the key is removed, so that its default applies; if the key does
// not exist, the result is `root`. Only the nodes on the path to the key are copied. The position
// of the new value is the option ("--set training.precision=bf17").
std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics);

}  // namespace stepcast::scenario
