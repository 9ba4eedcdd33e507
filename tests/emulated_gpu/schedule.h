#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

// The order in which operations of all GPUs run: any that streams and events allow, chosen by
// chance. Nothing runs by itself: operations run, one at a time, inside the calls of host threads,
// which makes a call that forgot to wait find its operation not done.
//
// Times are virtual: how long an operation lasts has nothing to do with how long its emulation
// takes. It begins when those before it have ended and the host has issued it, by the host's clock,
// and the host sees its end when that clock has come there.
namespace emulated {

using Nanoseconds = std::int64_t;

struct Operation {
  int gpu = 0;
  // Given when it begins, says when it ends; nothing: Schedule::End will be called. None: at once.
  std::function<std::optional<Nanoseconds>(Nanoseconds begin)> work{};

  bool done = false;
  Nanoseconds begin = 0, end = 0;
  int awaited = 0;  // operations before it that are not done
  std::vector<std::shared_ptr<Operation>> next{};
};
using OperationRef = std::shared_ptr<Operation>;

class Schedule {
 public:
  static Schedule& Get();

  // Everything below is called with this held; it is taken again by threads that have it.
  std::recursive_mutex& mutex() { return mutex_; }

  // `before` may hold nulls and operations that are done.
  void Submit(const OperationRef& operation, const std::vector<OperationRef>& before);
  void End(Operation& operation, Nanoseconds when);

  // Runs operations, and lets other threads run, until `is_true`.
  void RunUntil(const std::function<bool()>& is_true);
  // Some, at most: what happens to be done when a host asks.
  void RunSome();
  int Outstanding(int gpu) const { return running_[static_cast<std::size_t>(gpu)]; }

 private:
  Schedule();
  bool RunOne();

  std::recursive_mutex mutex_;
  std::mt19937 random_;
  std::vector<OperationRef> ready_;
  std::map<Operation*, OperationRef> begun_;  // that another one ends
  std::vector<int> running_;                  // by GPU: submitted and not done
};

// Whether the host sees that it is done; null: yes.
bool IsSeen(const OperationRef& operation);

// Counts the call, and says whether it is to fail (emulation.h).
bool CallFails(const char* name);

// Ends the program: what was called for is a mistake that a GPU would not forgive, or not report.
[[noreturn]] void Die(const std::string& mistake);

// What runs on a GPU for the first time is loaded, which waits until the GPU is idle. A collective
// in flight may wait for a partner that waits for this GPU: that is a mistake.
void Load(int gpu, const std::string& code);
void CollectiveSubmitted(const OperationRef& collective);

// A GPU's operation that does `work` in the stream (a cudaStream_t), or becomes part of the graph
// that the stream is captured into.
struct Task {
  std::function<std::optional<Nanoseconds>(Operation& self, Nanoseconds begin)> work;
  bool collective = false;
};
void Enqueue(void* stream, Task task);
int CurrentGpu();

}  // namespace emulated
