#pragma once

#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// Returns the tree with one `--set KEY=VALUE` applied. KEY is a dotted path from the root; a number
// is an index into a sequence ("model.layers.0.repeat"). Missing mappings on the path are created.
// VALUE is YAML; null removes the key, so that its default applies. Only the nodes on the path are
// copied. The position of the new value is the option ("--set training.precision=bf17").
std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics);

}  // namespace stepcast::scenario
