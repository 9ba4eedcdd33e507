#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::host {

// Step programs on CPUs: ranks are threads of this process, or processes that mpirun started
// (MpiSession must run then). See device.h for what operations do.
std::unique_ptr<Backend> MakeHostBackend();

}  // namespace stepcast::runtime::host
