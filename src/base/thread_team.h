#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace stepcast {

// How many threads can run at once: the cores that this process may use. At least one.
int UsableCores();

// Threads that work together on one thing after another. They stay from one to the next, and their
// thread_local caches with them. One thread uses a team at a time.
class ThreadTeam {
 public:
  // As many of `threads` as the system grants, none included.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(threads_.size()); }

  // Every thread of the team calls `part` once, with its number from 0; it must stay until Join.
  void Begin(const std::function<void(int thread)>& part);
  // Returns when all threads are done; rethrows the exception of one of them.
  void Join();

 private:
  void Loop(int thread);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* part_ = nullptr;  // guarded by mutex_
  int working_ = 0;                                 // likewise
  std::int64_t run_ = 0;                            // likewise
  std::exception_ptr thrown_;                       // likewise
  bool ending_ = false;                             // likewise
  std::vector<std::thread> threads_;
};

// Calls `body` for each index from 0 to `count`, each once, on the calling thread and on those of
// the team. A thread takes the next index when it is done with one, for they may differ widely in
// cost. `worker` tells the threads apart: the caller is 0, those of the team 1 to its size. An
// exception ends the loop, and is rethrown.
void ForEachIndex(ThreadTeam& team, std::int64_t count,
                  const std::function<void(std::int64_t index, int worker)>& body);

}  // namespace stepcast
