#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/time.h"
#include "src/runtime/device.h"
#include "src/runtime/host/clock.h"

namespace stepcast::runtime::host {

// A position in the queue of a stream: the end of all work that was issued earlier.
struct Position {
  std::uint16_t stream = 0;
  std::uint64_t issued = 0;
};

// Streams on CPUs. Each stream is a thread that runs its queue in order. Idle and waiting threads
// sleep. Only the host thread may issue or wait.
//
// After a failure, all queues are emptied at once, so that no thread waits forever.
class Streams {
 public:
  // A function that the stream's thread runs. If the work waits for something outside its stream,
  // the function may set `start` to the time at which the work begins after this wait.
  using Work = std::function<Attempt<void>(Time& start)>;

  // The number of queued operations at which the issuing thread waits, as in CUDA.
  static constexpr std::uint64_t kRunAhead = 1024;

  // Starts the threads. If work fails, the first thread with a failure calls `on_failure` once.
  Streams(const Clock& clock, int streams, std::function<void(const Failure&)> on_failure);
  // Waits for running work and drops work that has not begun.
  ~Streams();

  // Updates `progress` with the number of finished operations and the longest-running operation.
  void ReportTo(Progress* progress);

  // Issues work on the stream. If the instruction of `operation` is kNone, the times are not
  // recorded.
  void Issue(std::uint16_t stream, OperationId operation, Work work);
  // Issues a wait on the stream. TakeWaits returns `call` with the times of this wait.
  void IssueWait(std::uint16_t stream, Position until, std::uint64_t call);

  Position Now(std::uint16_t stream) const;  // position after all work issued so far
  std::uint64_t Finished(std::uint16_t stream) const;
  void WaitFor(Position position);
  void WaitForAll();

  // Returns the first failure of any work, or no value.
  std::optional<Failure> failure() const;
  // Drops work that has not begun, like a failure.
  void Stop();

  // Returns the operations that ran since the last call, ordered by end and then by issue.
  std::vector<OperationTimes> TakeTimes();
  std::vector<WaitTimes> TakeWaits();

 private:
  struct Item {
    std::uint64_t order = 0;  // order of issue over all streams
    OperationId operation;
    Work work;  // empty: a wait
    Position until;
    std::uint64_t call = 0;
  };
  struct Ran {
    std::uint64_t order;
    OperationTimes times;
  };
  struct Stream {
    std::deque<Item> queue;
    std::uint64_t issued = 0;
    std::uint64_t finished = 0;
    std::condition_variable issue;   // signals new work
    std::condition_variable finish;  // signals that `finished` grew
    int waiting = 0;                 // number of threads waiting for `finish`
    OperationId running;             // instruction kNone: no operation
    Time since;
    std::vector<Ran> ran;
    std::vector<WaitTimes> waits;
    std::thread thread;
  };

  void Serve(std::uint16_t index);
  void End();  // ends the threads
  void Await(std::unique_lock<std::mutex>& lock, Position position);
  void Push(std::uint16_t stream, Item item);
  void Finish(Stream& stream);
  void Report();

  const Clock& clock_;
  std::function<void(const Failure&)> on_failure_;
  Progress* progress_ = nullptr;
  mutable std::mutex mutex_;  // guards all data
  std::vector<std::unique_ptr<Stream>> streams_;
  std::uint64_t issued_ = 0;
  std::uint64_t outstanding_ = 0;
  std::condition_variable room_;
  bool host_wants_room_ = false;
  bool stopped_ = false;
  bool closing_ = false;
  std::optional<Failure> failure_;
};

}  // namespace stepcast::runtime::host
