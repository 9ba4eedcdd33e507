#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/program/instruction.h"
#include "tl/expected.hpp"

namespace stepcast::messaging {

// Why ranks cannot go on: one sentence, naming the operation where there is one.
struct Failure {
  std::string message;
  bool out_of_memory = false;
  // From a device: the queued operation that failed, which `message` then does not name, where it
  // is not the one that the call was for.
  std::optional<program::OperationId> operation{};
};

template <typename T>
using Attempt = tl::expected<T, Failure>;

// Which job this process belongs to, by the environment that its launcher left.

enum class Launcher : std::uint8_t {
  kNone,  // no launcher: this process runs all ranks, as threads
  kMpi,   // mpirun, or srun with PMI
};

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // as far as the environment says
  int ranks = 1;
};

// Null where a variable is not set.
using Environment = std::function<const char*(const char* name)>;

// MPI comes first: mpirun may pass on a shell's RANK. torchrun (RANK and WORLD_SIZE) starts a
// process for each rank without MPI, by which ranks in processes of their own communicate: with
// more than one rank that is an error, launch.needs-mpi.
Result<Launch> FindLaunch(const Environment& environment);

}  // namespace stepcast::messaging
