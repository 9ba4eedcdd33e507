#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/messaging/launch.h"
#include "src/messaging/mailbox.h"

// Many independent items of work on all cores, of one machine or of several.
namespace stepcast::planner {

// Computes an item's result. Items and results are bytes, so that they can go to other ranks and
// into a store (result_store.h). Called from several threads at once; equal items must give equal
// results on every rank.
using Work = std::function<std::string(const std::string& item)>;

// The items of one run, each made when its turn comes.
struct WorkList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // Called once for each finished item, in any order, never from two threads at once. False ends
  // the run: no further item is begun, and results in flight may be dropped.
  std::function<bool(std::int64_t index, std::string result)> done;
};

class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  // Returns when all items are done, or `done` has returned false. May be called repeatedly, by one
  // thread. Errors: messages between ranks that failed.
  virtual messaging::Attempt<void> Run(const WorkList& list) = 0;
};

// On the threads of this process; 0: one for each core that it may use.
std::unique_ptr<WorkerPool> MakeThreadPool(Work work, int threads);

// On the threads of all ranks; made at rank 0, which works too, sends items in small batches to the
// ranks that ask for them, and receives their results. The destructor makes RunWorker return on the
// other ranks. `mailbox` must outlive it and have no other user.
std::unique_ptr<WorkerPool> MakeMpiPool(messaging::Mailbox& mailbox, Work work, int threads);
// The other ranks' part: receives items and returns results until rank 0's pool is destroyed.
messaging::Attempt<void> RunWorker(messaging::Mailbox& mailbox, const Work& work, int threads);

// A rank's part of the machine's cores, which it shares with the other local ranks: at least one.
int ThreadsOfRank(int local_ranks);

}  // namespace stepcast::planner
