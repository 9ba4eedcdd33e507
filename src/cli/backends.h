#pragma once

#include <memory>
#include <string>

#include "src/base/diagnostic.h"
#include "src/runtime/backend.h"

namespace stepcast::cli {

using MadeBackend = Result<std::unique_ptr<runtime::Backend>>;

// Returns the backend for `--backend`: "host" or, if stepcast was built with CUDA, "cuda". Call
// this function before the process starts threads or joins a job, because the function sets
// environment variables for libraries. Errors: command.unknown-backend, command.no-cuda.
MadeBackend MakeBackend(const std::string& name);

// Returns the backends of this build, such as "host, cuda, MPI".
std::string BackendNames();

}  // namespace stepcast::cli
