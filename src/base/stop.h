#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

// Ends long work early: at a deadline, or on request (Ctrl-C).
namespace stepcast {

// A request to stop. Any thread or signal handler may make the request. The request cannot be
// withdrawn.
class StopFlag {
 public:
  StopFlag() = default;
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void Request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // Requests a stop at a given time, from a separate thread. Call this function at most once.
  void RequestAt(std::chrono::steady_clock::time_point time);

 private:
  std::atomic<bool> requested_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread timer_;
};

// The exception that StopPoint throws. The work is abandoned, and caches that the work has partly
// filled must be dropped.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped before the end"; }
};

// While an object of this class lives, StopPoint on this thread checks the object's flag. Scopes
// may be nested; only the innermost scope is checked.
class StopScope {
 public:
  explicit StopScope(const StopFlag& flag);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopFlag* const outer_;
};

// Throws Stopped if the flag of this thread's scope is set. A call takes a few nanoseconds.
void StopPoint();

// The number of events after which a loop over events calls StopPoint. One event takes only tens of
// nanoseconds, so calling it for each event would be slow.
inline constexpr std::uint32_t kEventsBetweenStopPoints = 4096;

}  // namespace stepcast
