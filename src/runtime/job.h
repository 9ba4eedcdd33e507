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
  int local_rank = 0;  // index among the ranks of its node
  int local_ranks = 1;
  int node = 0;  // nodes are numbered in the order of their lowest ranks
  int nodes = 1;
  std::string host;  // the node's host name
};

class Job {
 public:
  virtual ~Job() = default;
  virtual const Place& place() const = 0;

  // Communication among all ranks. All ranks call these methods in the same order. If a rank has
  // ended, the methods return a Failure with this rank.
  virtual Attempt<void> Barrier() = 0;
  // On rank 0, returns the bytes of every rank, by rank. On other ranks, the result is empty.
  virtual Attempt<std::vector<std::string>> Gather(std::string bytes) = 0;
  // Returns the bytes of rank 0. The argument of other ranks is ignored.
  virtual Attempt<std::string> Broadcast(std::string bytes) = 0;
};

// The part of a rank's placement that is known before it is connected to the other ranks.
struct RankPlacement {
  std::string host;
  int local_rank = -1;  // set by the launcher; -1: unknown
};

// Returns the host name of this machine.
std::string HostName();

// Returns the placements of all ranks, indexed by rank. Ranks with one host name share a node.
// Local ranks from the launcher are not changed. Two ranks with the same host name and local rank
// are on two nodes, because containers may share a host name.
std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks);

// A job whose ranks are threads of this process, for runs without a launcher.

// Creates one job for each rank, indexed by rank. Each thread uses one job. The destruction of a
// job announces that its rank has ended: ranks that wait for this rank, now or later, get a Failure
// with this rank.
std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks);

// Ends the process with status 1 and a sentence on stderr, unless the object is destroyed within a
// time limit. Needed because MPI waits forever for a missing rank, and the watch (watch.h) starts
// only after all ranks have joined. Rank 0 has the shortest limit, so usually only rank 0 prints.
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
