#include "src/runtime/host/mpi_transport.h"

// Replaces mpi_transport.cc under --define=mpi=false.
namespace stepcast::runtime::host {

Attempt<std::unique_ptr<Transport>> ConnectMpi(const Job& /*job*/) { return nullptr; }

}  // namespace stepcast::runtime::host
