#pragma once

#include <memory>
#include <string>

#include "src/base/diagnostic.h"
#include "src/runtime/backend.h"

namespace stepcast::cli {

// What `--backend` names: "host", or, in a stepcast that was built with CUDA, "cuda". Errors:
// command.unknown-backend, command.no-cuda.
Result<std::unique_ptr<runtime::Backend>> MakeBackend(const std::string& name);

}  // namespace stepcast::cli
