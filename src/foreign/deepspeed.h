#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// DeepSpeed's configuration in JSON (deepspeedai/DeepSpeed, deepspeed/runtime/zero/config.py and
// constants.py). "auto", which Hugging Face's integration fills in, is what the other files say,
// else what that integration computes.
extern const Framework kDeepSpeed;

bool IsDeepSpeed(const Document& document);

}  // namespace stepcast::foreign
