#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

// Ends long work early: at a deadline, or when somebody asks for it (Ctrl-C).
namespace stepcast {

// Whether work is to end. Any thread, and a signal handler, may ask; it cannot be taken back.
class StopFlag {
 public:
  StopFlag() = default;
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void Request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // Requests it at a time, from a thread of its own. At most once.
  void RequestAt(std::chrono::steady_clock::time_point time);

 private:
  std::atomic<bool> requested_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread timer_;
};

// StopPoint throws this. The work is abandoned, and its half-filled caches must be dropped.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped before the end"; }
};

// While one lives, StopPoint on this thread heeds the flag. Scopes nest; the innermost holds.
class StopScope {
 public:
  explicit StopScope(const StopFlag& flag);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopFlag* const outer_;
};

// Throws Stopped if a flag of this thread's scope says so. Some nanoseconds.
void StopPoint();

// Loops over events, which take tens of nanoseconds each, call it once for so many.
inline constexpr std::uint32_t kEventsBetweenStopPoints = 4096;

}  // namespace stepcast
