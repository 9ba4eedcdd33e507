#pragma once

#include <memory>

#include "src/runtime/host/transport.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::host {

// Creates a transport that uses MPI. The job must have the ranks of MPI_COMM_WORLD, and MpiSession
// must be running. Each communicator of the program is an MPI communicator, whose collectives run
// in order. Returns null if MPI is not running, was not compiled in, or numbers the ranks
// differently from the job. All ranks of the job call this function together.
Attempt<std::unique_ptr<Transport>> ConnectMpi(const Job& job);

}  // namespace stepcast::runtime::host
