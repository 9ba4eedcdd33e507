#pragma once

#include <memory>

#include "src/messaging/mailbox.h"
#include "src/runtime/device.h"

namespace stepcast::runtime {

// The mailbox of the processes that mpirun, or srun with PMI, started, on a communicator of its
// own. All ranks call this together, each once; MPI must run (mpi_session.h). Fails where stepcast
// was built without MPI.
Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox();

}  // namespace stepcast::runtime
