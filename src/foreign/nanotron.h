#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// Hugging Face's nanotron: its configuration in YAML.
extern const Framework kNanotron;

bool IsNanotron(const Document& document);

}  // namespace stepcast::foreign
