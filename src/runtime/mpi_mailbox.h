#pragma once

#include <memory>

#include "src/messaging/mailbox.h"
#include "src/runtime/device.h"

namespace stepcast::runtime {

// The mailbox of the processes started by mpirun, or by srun with PMI. Creates its own
// communicator. All ranks call this together, once each; MPI must be running (mpi_session.h). Fails
// if stepcast was built without MPI.
Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox();

}  // namespace stepcast::runtime
