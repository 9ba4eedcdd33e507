#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/messaging/launch.h"
#include "src/messaging/mailbox.h"

// Runs many independent work items on all cores of one or several machines.
namespace stepcast::planner {

// A function that computes an item's result. Items and results are bytes, so that they can be sent
// to other ranks and stored (result_store.h). The function must be thread-safe and deterministic:
// equal items have equal results on every rank.
using Work = std::function<std::string(const std::string& item)>;

// The items of one run. Each item is created when its work starts.
struct WorkList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // Receives a finished item's result. Called once per item, in any order, never from two threads
  // at once. If the function returns false, the run ends: no further item is started, and results
  // in flight may be dropped.
  std::function<bool(std::int64_t index, std::string result)> done;
};

class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  // Runs the items. Returns when all items are done, or when `done` has returned false. May be
  // called repeatedly, but only by one thread. Errors: failed messages between ranks.
  virtual messaging::Attempt<void> Run(const WorkList& list) = 0;
};

// Returns a pool of `threads` threads of this process. 0: one thread per available core.
std::unique_ptr<WorkerPool> MakeThreadPool(Work work, int threads);

// Returns a pool on the threads of all ranks. Call this function on rank 0, which also runs items.
// Rank 0 sends small batches of items to the ranks that request them, and receives the results. The
// destructor makes RunWorker return on the other ranks. `mailbox` must outlive the pool, and only
// the pool may use `mailbox`.
std::unique_ptr<WorkerPool> MakeMpiPool(messaging::Mailbox& mailbox, Work work, int threads);
// Runs items on a rank other than 0: receives items and sends results until the pool on rank 0 is
// destroyed.
messaging::Attempt<void> RunWorker(messaging::Mailbox& mailbox, const Work& work, int threads);

// Returns the number of threads for a rank, at least one: the machine's cores divided by the number
// of ranks on the machine.
int ThreadsOfRank(int local_ranks);

}  // namespace stepcast::planner
