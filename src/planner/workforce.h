#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/runtime/device.h"
#include "src/runtime/mailbox.h"

// Many independent pieces of work on all cores, of one machine or of several.
namespace stepcast::planner {

// What is to be done with one item. Items and results are bytes, so that they can go to other ranks
// and into a store (result_store.h). Called from several threads at once; equal items must give
// equal results on every rank.
using Work = std::function<std::string(const std::string& item)>;

// The items of one run, each made when its turn comes.
struct WorkList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // Called once for each item that was done, in any order, never from two threads at once. False:
  // enough; no further item is begun, and results that are under way may be dropped.
  std::function<bool(std::int64_t index, std::string result)> done;
};

class Workforce {
 public:
  virtual ~Workforce() = default;
  // Returns when all is done, or when `done` has had enough. May be called again and again, by one
  // thread. Errors: what ranks cannot send each other.
  virtual runtime::Attempt<void> Run(const WorkList& list) = 0;
};

// The threads of this process; 0: one for each core that it may use.
std::unique_ptr<Workforce> OwnThreads(Work work, int threads);

// The threads of all ranks, at rank 0: it works too, hands out items in small lots to whoever asks,
// and gets the results. Its end, the destructor's, ends Serve at the others. `mailbox` must outlive
// it and is used by nobody else.
std::unique_ptr<Workforce> AllRanks(runtime::Mailbox& mailbox, Work work, int threads);
// What the others do meanwhile.
runtime::Attempt<void> Serve(runtime::Mailbox& mailbox, const Work& work, int threads);

// How many threads a rank takes of a machine's cores that it shares with others: at least one.
int ThreadsOfRank(int local_ranks);

}  // namespace stepcast::planner
