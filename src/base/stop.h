#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

// Stops long work early: at a deadline, or on request (Ctrl-C).
namespace stepcast {

// A request to stop, from any thread or signal handler. The request cannot be withdrawn.
class StopFlag {
 public:
  StopFlag() = default;
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void Request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // Requests a stop at `time`, from a separate thread. Call this function at most once.
  void RequestAt(std::chrono::steady_clock::time_point time);

 private:
  std::atomic<bool> requested_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread timer_;
};

// Thrown by StopPoint. The catcher must discard unfinished work and partly filled caches.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped before the end"; }
};

// During the scope's lifetime, StopPoint checks the scope's flag on this thread. Scopes may be
// nested; StopPoint checks only the innermost scope.
class StopScope {
 public:
  explicit StopScope(const StopFlag& flag);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopFlag* const outer_;
};

// Throws Stopped if the flag of this thread's innermost scope is set. Takes a few nanoseconds.
void StopPoint();

// The number of events between two StopPoint calls of an event loop. An event takes tens of
// nanoseconds, so a call per event would be slow.
inline constexpr std::uint32_t kEventsBetweenStopPoints = 4096;

}  // namespace stepcast
