#pragma once

#include <memory>

#include "src/runtime/job.h"

namespace stepcast::runtime {

// The job of the processes that mpirun, or srun with PMI, started; starts MPI (mpi_session.h). It
// talks on a communicator of its own. All ranks call this; one job a process. Fails where stepcast
// was built without MPI.
Attempt<std::unique_ptr<Job>> JoinMpi();

}  // namespace stepcast::runtime
