#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/messaging/launch.h"
#include "src/runtime/device.h"

// The ranks of a run, and their communication at start-up and when results are collected. Ranks are
// processes started by mpirun or srun (MPI), or threads of one process.
namespace stepcast::runtime {

// The placement of a rank on a node.
struct Place {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // among the ranks of its node
  int local_ranks = 1;
  int node = 0;  // nodes are numbered in the order of their lowest ranks
  int nodes = 1;
  std::string host;  // the node's host name
};

class Job {
 public:
  virtual ~Job() = default;
  virtual const Place& place() const = 0;

  // Communication among all ranks. All ranks call these methods in the same order. If a rank is
  // gone, the methods fail and name that rank.
  virtual Attempt<void> Barrier() = 0;
  // At rank 0, returns the bytes of every rank, by rank. At other ranks, the result is empty.
  virtual Attempt<std::vector<std::string>> Gather(std::string bytes) = 0;
  // Returns the bytes of rank 0. The argument of other ranks is ignored.
  virtual Attempt<std::string> Broadcast(std::string bytes) = 0;
};

// The information about a rank's placement that the rank has before it is connected to the other
// ranks.
struct RankPlacement {
  std::string host;
  int local_rank = -1;  // from its launcher; -1: unknown
};

// Returns the host name of this machine.
std::string HostName();

// Returns the places of all ranks, indexed by rank. Ranks on one host share a node. Local ranks
// given by the launcher are kept. Two ranks on one host with the same local rank are assigned to
// two nodes, because containers may share a host name.
std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks);

// A job whose ranks are threads of this process. It is used if no launcher started several
// processes.

// Creates one job for each rank, indexed by rank. Each job is for one thread. Destroying a job
// announces that its rank is gone. Ranks that wait for this rank, then or later, get a Failure that
// names it.
std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks);

// Ends the process with status 1 and a sentence on stderr, unless the object is destroyed before
// the limit. It exists because MPI waits forever for a missing rank, and no watch runs before ranks
// have joined (watch.h). Rank 0 has the shortest limit, so usually only rank 0 prints the sentence.
class StartLimit {
 public:
  static constexpr std::chrono::milliseconds kDefault = std::chrono::seconds(120);
  explicit StartLimit(const messaging::Launch& launch, std::chrono::milliseconds limit = kDefault);
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

}  // namespace stepcast::runtime
