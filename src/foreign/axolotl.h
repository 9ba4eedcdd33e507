#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// axolotl's configuration (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas).
extern const Framework kAxolotl;

bool IsAxolotl(const Document& document);

}  // namespace stepcast::foreign
