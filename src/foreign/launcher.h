#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// What torchrun's options and the environment of a script say of the cluster and the software:
// nodes, processes on each, the allocator. Of frameworks whose tables have the rows
// "launcher.nnodes", "launcher.nproc-per-node" and "env.PYTORCH_CUDA_ALLOC_CONF" as rules.
void ReadLauncher(Reading& reading);

}  // namespace stepcast::foreign
