#include "src/runtime/mpi_job.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime {

Attempt<std::unique_ptr<Job>> JoinMpi() {
  const auto session = MpiSession::Start();
  return tl::unexpected(session ? Failure{"this stepcast was built without MPI"} : session.error());
}

}  // namespace stepcast::runtime
