#pragma once

#include "src/model/architecture.h"
#include "src/model/layer_work.h"

namespace stepcast::model {

// The work of a transformer's head, with its losses: of the next token, of one more token, or of
// masked tokens.
LayerWork HeadWork(const Architecture& architecture, const WorkOptions& block_options);

}  // namespace stepcast::model
