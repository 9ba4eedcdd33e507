#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/program/instruction.h"
#include "tl/expected.hpp"

namespace stepcast::messaging {

// The reason why ranks cannot continue. `message` is one sentence, which names the failed operation
// if there is one.
struct Failure {
  std::string message;
  bool out_of_memory = false;
  // The failed operation. A device sets it if the operation was queued, so that it is not the
  // operation that was called. `message` does not name the queued operation.
  std::optional<program::OperationId> operation{};
};

template <typename T>
using Attempt = tl::expected<T, Failure>;

// Finds the job of this process from the environment variables that its launcher set.

enum class Launcher : std::uint8_t {
  kNone,  // no launcher: this process runs all ranks, as threads
  kMpi,   // mpirun, or srun with PMI
};

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // as stated by the environment
  int ranks = 1;
};

// A function that returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Returns the launch that the environment describes. MPI's variables take priority, because mpirun
// may pass on RANK from a shell. torchrun (RANK and WORLD_SIZE) starts a process for each rank
// without MPI. Ranks in separate processes need MPI to communicate. torchrun with more than one
// rank is therefore an error, launch.needs-mpi.
Result<Launch> FindLaunch(const Environment& environment);

}  // namespace stepcast::messaging
