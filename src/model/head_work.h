#pragma once

#include "src/model/architecture.h"
#include "src/model/layer_work.h"

namespace stepcast::model {

// Returns the work of a transformer's head, including the losses of the next token, of further
// tokens, or of masked tokens.
LayerWork HeadWork(const Architecture& architecture, const WorkOptions& block_options);

}  // namespace stepcast::model
