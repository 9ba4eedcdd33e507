#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/runtime/device.h"
#include "src/runtime/progress.h"

// When operations began and ended on a GPU, by CUDA events (half a microsecond fine). The clock's
// zero is an event recorded when it was made. Host and device are brought together by SetAnchor, to
// within some microseconds; in between they may drift by some millionths.
//
// Every operation is timed by an event behind it and one in front of it, which is the one behind
// the operation before as long as the stream has not reached that when the host issues this one and
// has nothing to wait for in between; a collective by a third, in front of its wait for the
// communicator, if it has one. An event costs the host about a microsecond and the stream about as
// much between two operations, which otherwise follow one another a little closer: measured steps
// of very small kernels are longer by it.
namespace stepcast::runtime::cuda {

class OperationClock {
 public:
  // An operation whose times are not known yet. `ready` may be `start`, and the first of the two
  // the `end` of the operation before in the stream.
  struct Timed {
    OperationId operation;
    cudaEvent_t ready = nullptr, start = nullptr, end = nullptr;
    bool lent = false;  // `end` is also another one's beginning
  };

  // `streams` outlive the clock.
  explicit OperationClock(std::span<const cudaStream_t> streams);
  OperationClock(const OperationClock&) = delete;
  OperationClock& operator=(const OperationClock&) = delete;
  ~OperationClock();

  // The device must be idle. Requires the first call before any other one.
  Attempt<void> SetAnchor();
  Time Now() const;

  // The operation is issued next. After Begin the stream may be made to wait, which Waited says:
  // the operation is ready before and starts after it.
  Attempt<Timed> Begin(OperationId operation, std::uint16_t stream);
  Attempt<void> Waited(Timed& timed, std::uint16_t stream);
  Attempt<void> End(Timed timed, std::uint16_t stream);
  // Something that is not timed was issued: what comes next does not begin where the last ended.
  void Interrupt(std::uint16_t stream) { ends_[stream] = {}; }

  // Takes the times of what is done, in order of issue, and tells `progress` how far the device is.
  Attempt<void> CollectDone();
  // All that was issued is done.
  Attempt<void> CollectAll();
  // The same, if it is a while since the last time and there is a callback.
  Attempt<void> CollectNowAndThen();
  std::vector<OperationTimes> Take();  // by their ends
  // Null: no callback.
  void ReportTo(Progress* progress) { progress_ = progress; }

  // Between BeginCapture and EndCapture operations become part of a graph, whose events record
  // times at every replay. EndCapture gives them out, in order of issue; Collect takes the times of
  // one that a replay, which is done, has run.
  void BeginCapture() { capturing_ = true; }
  std::vector<Timed> EndCapture();
  Attempt<void> Collect(const Timed& timed);
  void CountReplay(std::size_t operations, std::uint32_t step);

  // An event that lives as long as the clock.
  Attempt<cudaEvent_t> TakeEvent();

 private:
  using HostClock = std::chrono::steady_clock;
  // A stream's last operation, if nothing came after it.
  struct StreamEnd {
    cudaEvent_t event = nullptr;
    std::uint64_t operation = 0;  // counted over all of the device's
  };

  Attempt<void> Record(cudaEvent_t event, std::uint16_t stream);

  std::span<const cudaStream_t> streams_;
  cudaEvent_t anchor_ = nullptr;
  Time anchor_time_;
  HostClock::time_point anchor_host_;  // the host's time at the anchor
  std::vector<cudaEvent_t> events_;    // all of them
  std::vector<cudaEvent_t> free_events_;
  std::deque<Timed> pending_;    // in order of issue
  std::uint64_t collected_ = 0;  // operations before those
  std::vector<StreamEnd> ends_;  // by stream
  std::vector<OperationTimes> times_;
  Progress* progress_ = nullptr;
  HostClock::time_point looked_;  // when CollectDone was last called
  bool capturing_ = false;
};

}  // namespace stepcast::runtime::cuda
