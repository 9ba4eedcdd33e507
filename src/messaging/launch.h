#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/program/instruction.h"
#include "tl/expected.hpp"

namespace stepcast::messaging {

// Why ranks cannot continue. `message` is a sentence, which usually includes the failed operation.
struct Failure {
  std::string message;
  bool out_of_memory = false;
  // The failed operation, if it is not in `message`. Set by devices for queued operations, whose
  // failures are reported by a later call.
  std::optional<program::OperationId> operation{};
};

template <typename T>
using Attempt = tl::expected<T, Failure>;

// Detects this process's job from environment variables of the launcher.

enum class Launcher : std::uint8_t {
  kNone,  // no launcher: all ranks are threads of this process
  kMpi,   // mpirun, or srun with PMI
};

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // rank of this process, from the environment variables
  int ranks = 1;
};

// Returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Returns the launcher, this process's rank and the number of ranks, as the environment specifies
// them. MPI's variables have priority, because mpirun may forward a shell's RANK variable. torchrun
// (RANK and WORLD_SIZE) starts processes without MPI, which cannot communicate. If torchrun has
// started more than one rank, the function therefore returns the error launch.needs-mpi.
Result<Launch> FindLaunch(const Environment& environment);

}  // namespace stepcast::messaging
