#pragma once

#include <memory>

#include "src/runtime/job.h"

namespace stepcast::runtime {

// The job of the processes started by mpirun, or by srun with PMI. Starts MPI (mpi_session.h), and
// creates its own communicator. All ranks call this, once per process. Fails if stepcast was built
// without MPI.
Attempt<std::unique_ptr<Job>> JoinMpi();

}  // namespace stepcast::runtime
