#include <cstdlib>

#include "src/runtime/mpi_session.h"

// Replaces mpi_session.cc under --define=mpi=false.
namespace stepcast::runtime {

Attempt<MpiSession*> MpiSession::Start() {
  return tl::unexpected(Failure{"this stepcast was built without MPI"});
}

MpiSession* MpiSession::Current() { return nullptr; }

bool MpiSession::Available() { return false; }

std::string MpiSession::LibraryVersion() const { return ""; }

void MpiSession::Finish() {}

void MpiSession::Abort(int status) { std::_Exit(status); }

}  // namespace stepcast::runtime
