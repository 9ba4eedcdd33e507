#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/program/instruction.h"
#include "tl/expected.hpp"

namespace stepcast::messaging {

// Why ranks cannot continue. `message` is a sentence that contains the failed operation, if there
// is one.
struct Failure {
  std::string message;
  bool out_of_memory = false;
  // The failed operation. Devices set it for queued operations, whose failure is reported by a
  // later call. In this case, `message` does not contain the operation.
  std::optional<program::OperationId> operation{};
};

template <typename T>
using Attempt = tl::expected<T, Failure>;

// Detects the job of this process from environment variables of the launcher.

enum class Launcher : std::uint8_t {
  kNone,  // no launcher: all ranks are threads of this process
  kMpi,   // mpirun, or srun with PMI
};

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // as in the environment variables
  int ranks = 1;
};

// Returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Returns the launch that the environment describes. MPI's variables have priority, because mpirun
// may pass on RANK from a shell. torchrun (RANK and WORLD_SIZE) starts processes without MPI, but
// ranks in separate processes need MPI to communicate. torchrun with more than one rank is
// therefore the error launch.needs-mpi.
Result<Launch> FindLaunch(const Environment& environment);

}  // namespace stepcast::messaging
