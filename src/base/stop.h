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

  // Requests a stop at `time`, from a separate thread. Call this function at most once.
  void RequestAt(std::chrono::steady_clock::time_point time);

 private:
  std::atomic<bool> requested_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread timer_;
};

// The exception that StopPoint throws. Discard the unfinished work and all caches that it has
// partly filled.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped before the end"; }
};

// During the lifetime of this object, StopPoint checks the object's flag on this thread. Scopes may
// be nested; StopPoint checks only the innermost scope.
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

// The number of events after which an event loop calls StopPoint. An event takes tens of
// nanoseconds, so a call per event would be slow.
inline constexpr std::uint32_t kEventsBetweenStopPoints = 4096;

}  // namespace stepcast
