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

// The order in which operations of all GPUs run: random, within what streams and events allow.
// Operations run one at a time, only inside calls of host threads. A call that forgot to wait
// therefore finds its operation not done.
//
// Times are virtual: the duration of an operation does not depend on its emulation. It begins when
// its predecessors have ended and the host has issued it, by the host's clock. The host sees its
// end when that clock has reached it.
namespace emulated {

using Nanoseconds = std::int64_t;

struct Operation {
  int gpu = 0;
  // Given the beginning, returns the end; nothing means that Schedule::End will be called. An empty
  // function ends at once.
  std::function<std::optional<Nanoseconds>(Nanoseconds begin)> work{};

  bool done = false;
  Nanoseconds begin = 0, end = 0;
  int awaited = 0;  // number of unfinished operations before it
  std::vector<std::shared_ptr<Operation>> next{};
};
using OperationRef = std::shared_ptr<Operation>;

class Schedule {
 public:
  static Schedule& Get();

  // All functions below require this mutex, which a thread may lock again.
  std::recursive_mutex& mutex() { return mutex_; }

  // `before` may contain nulls and finished operations.
  void Submit(const OperationRef& operation, const std::vector<OperationRef>& before);
  void End(Operation& operation, Nanoseconds when);

  // Runs operations, and lets other threads run, until `is_true`.
  void RunUntil(const std::function<bool()>& is_true);
  // Runs some operations: those that happen to be done when a host queries.
  void RunSome();
  int Outstanding(int gpu) const { return running_[static_cast<std::size_t>(gpu)]; }

 private:
  Schedule();
  bool RunOne();

  std::recursive_mutex mutex_;
  std::mt19937 random_;
  std::vector<OperationRef> ready_;
  std::map<Operation*, OperationRef> begun_;  // operations that another one ends
  std::vector<int> running_;                  // by GPU: number submitted and not done
};

// Whether the host sees that it is done; null counts as done.
bool IsSeen(const OperationRef& operation);

// Counts the call, and returns whether it is to fail (emulation.h).
bool CallFails(const char* name);

// Ends the program: the call is a mistake that a GPU would not forgive, or not report.
[[noreturn]] void Die(const std::string& mistake);

// Loads code at its first run on a GPU, which waits until the GPU is idle. It is a mistake if a
// collective is in flight, since the collective may wait for a partner that waits for this GPU.
void Load(int gpu, const std::string& code);
void CollectiveSubmitted(const OperationRef& collective);

// An operation that does `work` in the stream (a cudaStream_t), or becomes part of the graph into
// which the stream is captured.
struct Task {
  std::function<std::optional<Nanoseconds>(Operation& self, Nanoseconds begin)> work;
  bool collective = false;
};
void Enqueue(void* stream, Task task);
int CurrentGpu();

}  // namespace emulated
