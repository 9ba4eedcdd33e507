#include "src/cli/backends.h"

#include <utility>

#include "fmt/format.h"
#include "src/runtime/host/backend.h"
#include "src/runtime/mpi_session.h"
#ifdef STEPCAST_CUDA
#include "src/runtime/cuda/backend.h"
#endif

namespace stepcast::cli {
namespace {

Diagnostics Wrong(const char* code, std::string message, std::string hint) {
  return {{.code = code,
           .location = {"--backend", 0, 0},
           .message = std::move(message),
           .hint = std::move(hint)}};
}

}  // namespace

MadeBackend MakeBackend(const std::string& name) {
  if (name == "host") return runtime::host::MakeHostBackend();
  if (name == "cuda") {
#ifdef STEPCAST_CUDA
    auto backend = runtime::cuda::MakeCudaBackend();
    if (backend) return std::move(*backend);
    return tl::unexpected(
        Wrong("command.no-cuda", fmt::format("CUDA cannot be used: {}", backend.error().message),
              "check the driver with nvidia-smi, or use the CPUs: --backend host"));
#else
    return tl::unexpected(Wrong("command.no-cuda", "stepcast was built without CUDA",
                                "build stepcast with `bazel build --config=cuda "
                                "//src/cli:stepcast`, or use the CPUs: --backend host"));
#endif
  }
  return tl::unexpected(Wrong("command.unknown-backend",
                              fmt::format("unknown backend: {}", Quoted(name)),
                              "write --backend host or --backend cuda"));
}

std::string BackendNames() {
  std::string names = "host";
#ifdef STEPCAST_CUDA
  names += ", cuda";
#endif
  return names + (runtime::MpiSession::Available() ? ", MPI" : "");
}

}  // namespace stepcast::cli
