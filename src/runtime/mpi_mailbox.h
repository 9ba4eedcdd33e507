#pragma once

#include <memory>

#include "src/messaging/mailbox.h"
#include "src/runtime/device.h"

namespace stepcast::runtime {

// The mailbox of the processes started by mpirun, or by srun with PMI, on a communicator of its
// own. All ranks call this together, once each; MPI must run (mpi_session.h). Fails if stepcast was
// built without MPI.
Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox();

}  // namespace stepcast::runtime
