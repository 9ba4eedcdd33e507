#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::host {

// Step programs on CPUs: ranks are threads of this process, or processes that mpirun started
// (MpiSession must run then, when devices are made). See device.h for what operations do. The first
// call may set OPENBLAS_CORETYPE (blas.h): before the process has threads that read variables.
std::unique_ptr<Backend> MakeHostBackend();

}  // namespace stepcast::runtime::host
