#include "src/runtime/cuda/operation_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/runtime/cuda/failure.h"

namespace stepcast::runtime::cuda {
namespace {

// cudaEventElapsedTime returns milliseconds in FP32.
Time FromMilliseconds(float milliseconds) {
  return Picoseconds(std::llround(static_cast<double>(milliseconds) * 1e9));
}

Time Since(std::chrono::steady_clock::time_point begin) {
  const auto passed = std::chrono::steady_clock::now() - begin;
  return Nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

}  // namespace

OperationClock::OperationClock(std::span<const cudaStream_t> streams)
    : streams_(streams), ends_(streams.size()) {}

OperationClock::~OperationClock() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

// The event's own time is known relative to the previous anchor.
Attempt<void> OperationClock::SetAnchor() {
  const bool first = anchor_ == nullptr;
  STEPCAST_TAKE(cudaEvent_t next, TakeEvent());
  // The event lies between two readings of the host's clock. Of three tries the narrowest interval
  // counts. Without a previous anchor there is one try, since the distance between tries is
  // unknown.
  HostClock::duration narrowest = HostClock::duration::max();
  HostClock::time_point best_host;
  Time best_device, last_device;
  Attempt<void> recorded;
  for (int attempt = 0; attempt < (first ? 1 : 3) && recorded; ++attempt) {
    const HostClock::time_point before = HostClock::now();
    recorded = Check(cudaEventRecord(next, streams_[0]), "setting the clock");
    while (recorded && Answered(cudaEventQuery(next)) == cudaErrorNotReady) {
    }
    const HostClock::time_point after = HostClock::now();
    float passed = 0;
    if (recorded && !first) {
      recorded = Check(cudaEventElapsedTime(&passed, anchor_, next), "setting the clock");
    }
    if (!recorded) break;
    // Later tries record the same event again, so its time is the last try's time. The middle of
    // the narrowest interval gives the offset between host and device.
    const Time at = anchor_time_ + FromMilliseconds(passed);
    if (after - before < narrowest) {
      narrowest = after - before;
      best_device = at;
      best_host = before + (after - before) / 2;
    }
    last_device = at;
  }
  if (!recorded) {
    free_events_.push_back(next);
    return recorded;
  }
  if (anchor_ != nullptr) free_events_.push_back(anchor_);
  anchor_ = next;
  anchor_host_ =
      best_host + std::chrono::nanoseconds((last_device - best_device).picoseconds() / 1000);
  anchor_time_ = last_device;
  return {};
}

Time OperationClock::Now() const { return anchor_time_ + Since(anchor_host_); }

Attempt<cudaEvent_t> OperationClock::TakeEvent() {
  // Reuses events of completed operations. If there are none, makes several new ones, so that the
  // device is queried rarely.
  if (free_events_.empty()) STEPCAST_TRY(CollectDone());
  constexpr int kSome = 64;
  for (int i = 0; free_events_.empty() || (0 < i && i < kSome); ++i) {
    cudaEvent_t made = nullptr;
    STEPCAST_TRY(Check(cudaEventCreateWithFlags(&made, cudaEventDefault), "making an event"));
    events_.push_back(made);
    free_events_.push_back(made);
  }
  cudaEvent_t event = free_events_.back();
  free_events_.pop_back();
  return event;
}

Attempt<OperationClock::Timed> OperationClock::Begin(OperationId operation, std::uint16_t stream) {
  Timed timed{.operation = operation};
  if (cudaEvent_t before = ends_[stream].event; before != nullptr) {
    // If the stream is idle by now, its last event would say when it became idle, not when this
    // operation began. In a graph, operations follow one another.
    const cudaError_t state = capturing_ ? cudaErrorNotReady : Answered(cudaEventQuery(before));
    if (state == cudaErrorNotReady) {
      pending_[ends_[stream].operation - collected_].lent = true;
      timed.ready = timed.start = before;
      return timed;
    }
    ends_[stream] = {};
  }
  STEPCAST_TAKE(cudaEvent_t event, TakeEvent());
  STEPCAST_TRY(Record(event, stream));
  timed.ready = timed.start = event;
  return timed;
}

Attempt<void> OperationClock::Waited(Timed& timed, std::uint16_t stream) {
  STEPCAST_TAKE(timed.start, TakeEvent());
  return Record(timed.start, stream);
}

Attempt<void> OperationClock::End(Timed timed, std::uint16_t stream) {
  STEPCAST_TAKE(timed.end, TakeEvent());
  STEPCAST_TRY(Record(timed.end, stream));
  ends_[stream] = {timed.end, collected_ + pending_.size()};
  pending_.push_back(timed);
  return {};
}

Attempt<void> OperationClock::Record(cudaEvent_t event, std::uint16_t stream) {
  // During a capture, an ordinary record is an edge of the graph and not a point in time.
  return Check(capturing_
                   ? cudaEventRecordWithFlags(event, streams_[stream], cudaEventRecordExternal)
                   : cudaEventRecord(event, streams_[stream]),
               "recording a time");
}

Attempt<void> OperationClock::CollectDone() {
  looked_ = HostClock::now();
  if (capturing_) return {};
  while (!pending_.empty()) {
    const Timed& timed = pending_.front();
    const cudaError_t state = Answered(cudaEventQuery(timed.end));
    if (state == cudaErrorNotReady) break;
    STEPCAST_TRY(Check(state, "querying completed operations"));
    STEPCAST_TRY(Collect(timed));
    free_events_.push_back(timed.start);
    if (timed.ready != timed.start) free_events_.push_back(timed.ready);
    if (!timed.lent) {
      free_events_.push_back(timed.end);
      // The event must not be lent any more.
      for (StreamEnd& end : ends_) {
        if (end.event == timed.end) end.event = nullptr;
      }
    }
    pending_.pop_front();
    ++collected_;
    if (progress_ != nullptr) ++progress_->operations;
  }
  if (progress_ == nullptr || pending_.empty()) return {};
  progress_->step = pending_.front().operation.step;
  progress_->instruction = pending_.front().operation.instruction;
  return {};
}

Attempt<void> OperationClock::CollectAll() {
  STEPCAST_TRY(CollectDone());
  STEPCAST_CHECK(pending_.empty(), "all issued operations must be complete");
  ends_.assign(ends_.size(), {});
  return {};
}

Attempt<void> OperationClock::CollectNowAndThen() {
  constexpr auto kOften = std::chrono::milliseconds(10);
  if (progress_ == nullptr || HostClock::now() - looked_ <= kOften) return {};
  return CollectDone();
}

Attempt<void> OperationClock::Collect(const Timed& timed) {
  const char* doing = "reading times";
  float start = 0;
  float length = 0;
  float waited = 0;
  STEPCAST_TRY(Check(cudaEventElapsedTime(&start, anchor_, timed.start), doing));
  STEPCAST_TRY(Check(cudaEventElapsedTime(&length, timed.start, timed.end), doing));
  if (timed.ready != timed.start) {
    STEPCAST_TRY(Check(cudaEventElapsedTime(&waited, timed.ready, timed.start), doing));
  }
  const Time begin = anchor_time_ + FromMilliseconds(start);
  times_.push_back({.operation = timed.operation,
                    .ready = begin - FromMilliseconds(waited),
                    .start = begin,
                    .end = begin + FromMilliseconds(length)});
  return {};
}

void OperationClock::CountReplay(std::size_t operations, std::uint32_t step) {
  if (progress_ == nullptr) return;
  progress_->operations += operations;
  progress_->step = step;
}

std::vector<OperationTimes> OperationClock::Take() {
  std::vector<OperationTimes> times = std::exchange(times_, {});
  // They are in order of issue.
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& a, const auto& b) { return a.end < b.end; });
  return times;
}

std::vector<OperationClock::Timed> OperationClock::EndCapture() {
  capturing_ = false;
  const std::vector<Timed> operations(pending_.begin(), pending_.end());
  pending_.clear();
  ends_.assign(ends_.size(), {});
  return operations;
}

}  // namespace stepcast::runtime::cuda
