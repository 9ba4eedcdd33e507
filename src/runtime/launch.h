#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "src/base/diagnostic.h"
#include "src/runtime/job.h"

// Which job this process belongs to, by the environment that its launcher left.
namespace stepcast::runtime {

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

// Ends the process, with status 1 and a sentence on stderr, unless it is destroyed in time: MPI
// waits forever for a rank that does not come, or is stopped on the way, and before ranks have met
// none watches over another (watch.h). Rank 0 speaks first, so that as a rule it alone does.
class StartLimit {
 public:
  static constexpr std::chrono::milliseconds kDefault = std::chrono::seconds(120);
  explicit StartLimit(const Launch& launch, std::chrono::milliseconds limit = kDefault);
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

// Meets the other ranks. Not for kNone.
Attempt<std::unique_ptr<Job>> Join(const Launch& launch);

}  // namespace stepcast::runtime
