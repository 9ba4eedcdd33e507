#pragma once

#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {

// `over` laid over `base`: mappings are merged key by key, every other value of `over` takes the
// place of the one in `base`, and null removes it. Positions stay those of the values. Parts that
// do not change are shared. Neither may be null.
YamlTree Merged(const YamlTree& base, const YamlTree& over);

}  // namespace stepcast::scenario
