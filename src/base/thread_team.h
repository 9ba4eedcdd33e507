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

// A team of threads that execute parallel tasks, one task at a time. The threads, and their
// thread_local caches, live as long as the team. Only one thread at a time may use a team.
class ThreadTeam {
 public:
  // Starts up to `threads` threads. The team is smaller, or empty, if the system refuses to create
  // threads.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(threads_.size()); }

  // Starts a task: every thread of the team calls `part` once, with its index, which counts from 0.
  // `part` must live until Join.
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

// Calls `body` once for each index from 0 to `count` - 1, on the calling thread and on the team's
// threads. Each thread gets its next index when it is idle, because the costs of indices may differ
// widely. `worker` is 0 for the calling thread, and 1 to team.size() for the team's threads. An
// exception ends the loop and is rethrown.
void ForEachIndex(ThreadTeam& team, std::int64_t count,
                  const std::function<void(std::int64_t index, int worker)>& body);

}  // namespace stepcast
