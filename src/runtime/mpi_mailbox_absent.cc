#include "src/runtime/mpi_mailbox.h"

// Replaces mpi_mailbox.cc under --define=mpi=false.
namespace stepcast::runtime {

Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox() {
  return tl::unexpected(Failure{"this stepcast was built without MPI"});
}

}  // namespace stepcast::runtime
