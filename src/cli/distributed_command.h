#pragma once

#include "src/cli/outcome.h"
#include "src/cli/work_command.h"

namespace stepcast::cli {

// On all cores of all ranks if mpirun (or srun with PMI) started several, else on the threads of
// this process. A rank that dies, hangs or fails ends all of them with a sentence that names it
// (runtime/watch.h).
Outcome RunDistributed(const WorkCommand& command);

}  // namespace stepcast::cli
