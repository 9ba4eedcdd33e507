#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// torchtune: the configurations of its recipes in YAML, as `tune run RECIPE --config` takes them.
extern const Framework kTorchtune;

bool IsTorchtune(const Document& document);

}  // namespace stepcast::foreign
