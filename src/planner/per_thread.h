#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace stepcast::planner {

// Creates one object of type T for each thread that calls Own, at the thread's first call. Owns all
// objects.
template <typename T>
class PerThread {
 public:
  explicit PerThread(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  // Returns the calling thread's object, which no other thread uses.
  T& Own() {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<T>& own = of_thread_[std::this_thread::get_id()];
    if (own == nullptr) own = make_();
    return *own;
  }

 private:
  const std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::unordered_map<std::thread::id, std::unique_ptr<T>> of_thread_;  // guarded by mutex_
};

}  // namespace stepcast::planner
