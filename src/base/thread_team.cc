#include "src/base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

namespace stepcast {

int UsableCores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  // The machine has more cores than a cpu_set_t can count.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadTeam::ThreadTeam(int threads) {
  threads_.reserve(static_cast<std::size_t>(std::max(0, threads)));
  for (int thread = 0; thread < threads; ++thread) {
    try {
      threads_.emplace_back([this, thread] { Loop(thread); });
    } catch (const std::system_error&) {
      return;  // the work takes longer
    }
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Begin(const std::function<void(int)>& part) {
  {
    const std::lock_guard lock(mutex_);
    part_ = &part;
    working_ = size();
    ++run_;
  }
  changed_.notify_all();
}

void ThreadTeam::Join() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return working_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadTeam::Loop(int thread) {
  std::unique_lock lock(mutex_);
  for (std::int64_t run = 0;;) {
    changed_.wait(lock, [&] { return ending_ || run_ != run; });
    if (ending_) return;
    run = run_;
    const std::function<void(int)>& part = *part_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      part(thread);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown) thrown_ = thrown;
    if (--working_ == 0) changed_.notify_all();
  }
}

void ForEachIndex(ThreadTeam& team, std::int64_t count,
                  const std::function<void(std::int64_t index, int worker)>& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&](int worker) {
    try {
      for (std::int64_t index = 0; (index = next++) < count;) body(index, worker);
    } catch (...) {
      next = count;
      throw;
    }
  };
  const std::function<void(int)> of_team = [&](int thread) { work(thread + 1); };
  team.Begin(of_team);
  std::exception_ptr thrown;
  try {
    work(0);
  } catch (...) {
    thrown = std::current_exception();
  }
  // The team uses this function's variables until Join, even after an exception.
  try {
    team.Join();
  } catch (...) {
    if (!thrown) thrown = std::current_exception();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace stepcast
