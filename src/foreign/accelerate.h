#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// The file that `accelerate config` writes and `accelerate launch --config_file` reads
// (huggingface/accelerate, src/accelerate/commands/config/config_args.py). It says how processes
// share the work, and not what they train.
extern const Framework kAccelerate;

bool IsAccelerate(const Document& document);

}  // namespace stepcast::foreign
