#pragma once

#include <memory>
#include <string>

#include "src/base/diagnostic.h"
#include "src/runtime/backend.h"

namespace stepcast::cli {

using MadeBackend = Result<std::unique_ptr<runtime::Backend>>;

// What `--backend` names: "host", or, in a stepcast that was built with CUDA, "cuda". Libraries
// take settings from the environment, which this changes: call it while the process has one thread,
// so before a job is joined. Errors: command.unknown-backend, command.no-cuda.
MadeBackend MakeBackend(const std::string& name);

// What this program was built with: "host, cuda, MPI".
std::string BackendNames();

}  // namespace stepcast::cli
