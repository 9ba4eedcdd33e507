#include <cstdlib>

#include "src/runtime/mpi_session.h"

// Replaces the sources that call MPI under --define=mpi=false.
namespace stepcast::runtime {
namespace {

tl::unexpected<Failure> WithoutMpi() {
  return tl::unexpected(Failure{"stepcast was built without MPI"});
}

}  // namespace

Attempt<MpiSession*> MpiSession::Start() { return WithoutMpi(); }

MpiSession* MpiSession::Current() { return nullptr; }

bool MpiSession::Available() { return false; }

std::string MpiSession::LibraryVersion() const { return ""; }

void MpiSession::Finish() {}

void MpiSession::Abort(int status) { std::_Exit(status); }

Attempt<std::unique_ptr<Job>> JoinMpi() { return WithoutMpi(); }

Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox() { return WithoutMpi(); }

}  // namespace stepcast::runtime
