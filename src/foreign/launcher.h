#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// Reads the cluster and the software from torchrun's options and a script's environment: nodes,
// processes per node, and the allocator. The framework's table needs the rows "launcher.nnodes",
// "launcher.nproc-per-node" and "env.PYTORCH_CUDA_ALLOC_CONF" as rules.
void ReadLauncher(Reading& reading);

}  // namespace stepcast::foreign
