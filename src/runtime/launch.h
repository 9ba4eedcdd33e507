#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/diagnostic.h"
#include "src/runtime/job.h"
#include "src/runtime/tcp_job.h"

// Which job this process belongs to, by the environment that its launcher left.
namespace stepcast::runtime {

enum class Launcher : std::uint8_t {
  kNone,  // nobody: this process runs all ranks, as threads
  kMpi,   // mpirun, or srun with PMI
  kTcp,   // torchrun, or whoever sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
};

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // as far as the environment says
  int ranks = 1;
  Rendezvous rendezvous;  // kTcp
};

// Null where a variable is not set.
using Environment = std::function<const char*(const char* name)>;

// MPI comes first: mpirun may pass on a shell's RANK. RANK without WORLD_SIZE is somebody else's.
// Errors: launch.missing-variable, launch.bad-variable.
Result<Launch> FindLaunch(const Environment& environment);

// Meets the other ranks. Not for kNone.
Attempt<std::unique_ptr<Job>> Join(const Launch& launch);

}  // namespace stepcast::runtime
