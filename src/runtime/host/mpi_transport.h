#pragma once

#include <memory>

#include "src/runtime/host/transport.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::host {

// A transport by MPI, in which the job's ranks are those of MPI_COMM_WORLD: MpiSession must run.
// All ranks of the job call this together. Each communicator of the program is one of MPI's own,
// since MPI, too, runs the collectives of a communicator in order. Null when MPI does not run, was
// not compiled in, or numbers the ranks differently.
Attempt<std::unique_ptr<Transport>> ConnectMpi(const Job& job);

}  // namespace stepcast::runtime::host
