#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/runtime/device.h"

// Measures with CUDA events when operations begin and end on a GPU (resolution: half a
// microsecond). Time zero is an event recorded when the clock was created. SetAnchor aligns host
// and device clocks to within a few microseconds; between anchors they may drift by a few parts per
// million.
//
// Every operation has an event before it and an event after it. Two consecutive operations share
// the event between them if no wait is between the operations, and if the stream has not reached
// the event when the host issues the second operation. A collective that waits for its communicator
// has a third event, before that wait. An event takes about a microsecond on the host and on the
// stream, so measured times of steps with very small kernels are too long.
namespace stepcast::runtime::cuda {

class OperationClock {
 public:
  // An operation whose times are not known yet. `ready` may equal `start`, and may be the `end`
  // event of the stream's previous operation.
  struct Timed {
    OperationId operation;
    cudaEvent_t ready = nullptr, start = nullptr, end = nullptr;
    bool lent = false;  // `end` is also the beginning of another operation
  };

  // Creates a clock for `streams`, which must outlive the clock.
  explicit OperationClock(std::span<const cudaStream_t> streams);
  OperationClock(const OperationClock&) = delete;
  OperationClock& operator=(const OperationClock&) = delete;
  ~OperationClock();

  // Sets the anchor. The device must be idle. Call this function before any other method.
  Attempt<void> SetAnchor();
  Time Now() const;

  // Measures an operation. Call Begin just before the operation is issued. If the stream must then
  // wait, call Waited: the operation is ready before the wait and starts after the wait.
  Attempt<Timed> Begin(OperationId operation, std::uint16_t stream);
  Attempt<void> Waited(Timed& timed, std::uint16_t stream);
  Attempt<void> End(Timed timed, std::uint16_t stream);
  // Call this function after untimed work is issued. Otherwise, the next operation would begin at
  // the end of the previous timed operation.
  void Interrupt(std::uint16_t stream) { ends_[stream] = {}; }

  // Collects the times of completed operations, in the order of issue, and updates the progress.
  Attempt<void> CollectDone();
  // Collects all times. All issued work must be done.
  Attempt<void> CollectAll();
  // Calls CollectDone from time to time, if progress is reported.
  Attempt<void> CollectNowAndThen();
  std::vector<OperationTimes> Take();  // sorted by end
  // Sets the object in which progress is reported. Null: progress is not reported.
  void ReportTo(Progress* progress) { progress_ = progress; }

  // Between BeginCapture and EndCapture, operations become part of a graph, whose events record
  // times at every replay. EndCapture returns the operations in the order of issue. Collect reads
  // an operation's times from a completed replay.
  void BeginCapture() { capturing_ = true; }
  std::vector<Timed> EndCapture();
  Attempt<void> Collect(const Timed& timed);
  void CountReplay(std::size_t operations, std::uint32_t step);

  // Returns an event that the clock owns and that lives as long as the clock.
  Attempt<cudaEvent_t> TakeEvent();

 private:
  using HostClock = std::chrono::steady_clock;
  // The last timed operation of a stream. `event` is null before the first operation and after
  // untimed work (Interrupt).
  struct StreamEnd {
    cudaEvent_t event = nullptr;
    std::uint64_t operation = 0;  // counted over all streams
  };

  Attempt<void> Record(cudaEvent_t event, std::uint16_t stream);

  std::span<const cudaStream_t> streams_;
  cudaEvent_t anchor_ = nullptr;
  Time anchor_time_;
  HostClock::time_point anchor_host_;  // the host's time at the anchor
  std::vector<cudaEvent_t> events_;    // all events of the clock
  std::vector<cudaEvent_t> free_events_;
  std::deque<Timed> pending_;    // operations in order of issue
  std::uint64_t collected_ = 0;  // number of operations before the operations of pending_
  std::vector<StreamEnd> ends_;  // [stream]
  std::vector<OperationTimes> times_;
  Progress* progress_ = nullptr;
  HostClock::time_point looked_;  // time of the last call of CollectDone
  bool capturing_ = false;
};

}  // namespace stepcast::runtime::cuda
