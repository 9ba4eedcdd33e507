#pragma once

#include <memory>
#include <string>

#include "src/base/diagnostic.h"
#include "src/runtime/backend.h"

namespace stepcast::cli {

using MadeBackend = Result<std::unique_ptr<runtime::Backend>>;

// Makes the backend that `--backend` names: "host" or, if stepcast was built with CUDA, "cuda". It
// changes environment variables for libraries, so call it while the process has one thread, before
// a job is joined. Errors: command.unknown-backend, command.no-cuda.
MadeBackend MakeBackend(const std::string& name);

// The backends of this build: "host, cuda, MPI".
std::string BackendNames();

}  // namespace stepcast::cli
