#pragma once

#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// The tree with one `--set KEY=VALUE` applied. KEY is a dotted path from the root; mappings on the
// way that do not exist are made, a number steps into a sequence ("model.layers.0.repeat"). VALUE
// is YAML; null removes the key, so that its default holds; where there is none, the tree that
// comes back is `root` itself. Only the way down to the key is copied. Positions of the new value
// name the option ("--set training.precision=bf17").
std::optional<YamlTree> WithOverride(const YamlTree& root, std::string_view option,
                                     Diagnostics& diagnostics);

}  // namespace stepcast::scenario
