#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace stepcast {

// Returns the number of cores that this process may use, at least one.
int UsableCores();

// A team of threads that execute parallel tasks, one task at a time. The threads and their
// thread_local caches exist as long as the team. Only one thread may use a team at a time.
class ThreadTeam {
 public:
  // Starts `threads` threads, or fewer (possibly none) if the system cannot create all of them.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(threads_.size()); }

  // Starts a task: every thread of the team calls `part` once, with its index from 0. `part` must
  // exist until Join.
  void Begin(const std::function<void(int thread)>& part);
  // Waits until all threads have finished the task. Rethrows an exception of a thread.
  void Join();

 private:
  void Loop(int thread);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* part_ = nullptr;  // guarded by mutex_
  int working_ = 0;                                 // guarded by mutex_
  std::int64_t run_ = 0;                            // guarded by mutex_
  std::exception_ptr thrown_;                       // guarded by mutex_
  bool ending_ = false;                             // guarded by mutex_
  std::vector<std::thread> threads_;
};

// Calls `body` once for each index from 0 to `count` - 1, on the calling thread and the team's
// threads. A thread gets the next index when it is idle, because costs may differ widely. `worker`
// is 0 for the calling thread, and 1 to team.size() for the team's threads. An exception ends the
// loop and is rethrown.
void ForEachIndex(ThreadTeam& team, std::int64_t count,
                  const std::function<void(std::int64_t index, int worker)>& body);

}  // namespace stepcast
