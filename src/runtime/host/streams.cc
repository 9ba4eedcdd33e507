#include "src/runtime/host/streams.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stepcast::runtime::host {

Streams::Streams(const Clock& clock, int streams, std::function<void(const Failure&)> on_failure)
    : clock_(clock), on_failure_(std::move(on_failure)) {
  for (int s = 0; s < streams; ++s) streams_.push_back(std::make_unique<Stream>());
  try {
    for (int s = 0; s < streams; ++s) {
      streams_[static_cast<std::size_t>(s)]->thread =
          std::thread([this, s] { Serve(static_cast<std::uint16_t>(s)); });
    }
  } catch (...) {
    End();
    throw;
  }
}

Streams::~Streams() { End(); }

void Streams::End() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    closing_ = true;
    for (const auto& stream : streams_) {
      stream->issue.notify_all();
      stream->finish.notify_all();
    }
  }
  for (const auto& stream : streams_) {
    if (stream->thread.joinable()) stream->thread.join();
  }
}

void Streams::ReportTo(Progress* progress) {
  const std::lock_guard lock(mutex_);
  progress_ = progress;
}

void Streams::Push(std::uint16_t index, Item item) {
  std::unique_lock lock(mutex_);
  if (outstanding_ >= kRunAhead && !stopped_) {
    host_wants_room_ = true;
    // Waits for more than one free place, so that host and stream do not alternate at every
    // operation.
    room_.wait(lock, [&] { return outstanding_ <= kRunAhead - kRunAhead / 8 || stopped_; });
    host_wants_room_ = false;
  }
  Stream& stream = *streams_[index];
  item.order = issued_++;
  ++stream.issued;
  ++outstanding_;
  stream.queue.push_back(std::move(item));
  if (stream.queue.size() == 1) stream.issue.notify_one();
}

void Streams::Issue(std::uint16_t stream, OperationId operation, Work work) {
  Item item;
  item.operation = operation;
  item.work = std::move(work);
  Push(stream, std::move(item));
}

void Streams::IssueWait(std::uint16_t stream, Position until, std::uint64_t call) {
  Item item;
  item.until = until;
  item.call = call;
  Push(stream, std::move(item));
}

Position Streams::Now(std::uint16_t stream) const {
  const std::lock_guard lock(mutex_);
  return {stream, streams_[stream]->issued};
}

std::uint64_t Streams::Finished(std::uint16_t stream) const {
  const std::lock_guard lock(mutex_);
  return streams_[stream]->finished;
}

void Streams::Await(std::unique_lock<std::mutex>& lock, Position position) {
  Stream& stream = *streams_[position.stream];
  ++stream.waiting;
  stream.finish.wait(lock, [&] { return stream.finished >= position.issued || closing_; });
  --stream.waiting;
}

void Streams::WaitFor(Position position) {
  std::unique_lock lock(mutex_);
  Await(lock, position);
}

void Streams::WaitForAll() {
  std::unique_lock lock(mutex_);
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Await(lock, {static_cast<std::uint16_t>(s), streams_[s]->issued});
  }
}

std::optional<Failure> Streams::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Streams::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  room_.notify_all();
}

void Streams::Finish(Stream& stream) {
  ++stream.finished;
  --outstanding_;
  if (stream.waiting > 0) stream.finish.notify_all();
  if (host_wants_room_ && (outstanding_ <= kRunAhead - kRunAhead / 8 || stopped_)) {
    room_.notify_all();
  }
}

void Streams::Report() {
  if (progress_ == nullptr) return;
  const Stream* longest = nullptr;
  for (const auto& stream : streams_) {
    if (stream->running.instruction == program::kNone) continue;
    if (longest == nullptr || stream->since < longest->since) longest = stream.get();
  }
  if (longest == nullptr) return;
  progress_->step.store(longest->running.step, std::memory_order_relaxed);
  progress_->instruction.store(longest->running.instruction, std::memory_order_relaxed);
}

void Streams::Serve(std::uint16_t index) {
  PrepareThreadForPreciseSleep();
  Stream& stream = *streams_[index];
  std::unique_lock lock(mutex_);
  while (true) {
    stream.issue.wait(lock, [&] { return !stream.queue.empty() || closing_; });
    if (stream.queue.empty()) return;
    Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (stopped_) {
      Finish(stream);
      continue;
    }
    if (!item.work) {
      if (streams_[item.until.stream]->finished < item.until.issued) {
        const Time start = clock_.Now();
        Await(lock, item.until);
        stream.waits.push_back({item.call, start, clock_.Now()});
      }
      Finish(stream);
      continue;
    }
    const bool counts = item.operation.instruction != program::kNone;
    const Time ready = clock_.Now();
    if (counts) {
      stream.running = item.operation;
      stream.since = ready;
      Report();
    }
    lock.unlock();
    Time start = ready;
    const Attempt<void> done = item.work(start);
    const Time end = clock_.Now();
    item.work = nullptr;
    lock.lock();
    if (counts) {
      stream.running = {};
      stream.ran.push_back({item.order, {item.operation, ready, start, end}});
      if (progress_ != nullptr) progress_->operations.fetch_add(1, std::memory_order_relaxed);
      Report();
    }
    if (!done && !failure_) {
      failure_ = done.error();
      stopped_ = true;
      room_.notify_all();
      lock.unlock();
      on_failure_(done.error());
      lock.lock();
    }
    Finish(stream);
  }
}

std::vector<OperationTimes> Streams::TakeTimes() {
  std::vector<Ran> ran;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_) {
      ran.insert(ran.end(), stream->ran.begin(), stream->ran.end());
      stream->ran.clear();
    }
  }
  std::sort(ran.begin(), ran.end(), [](const Ran& a, const Ran& b) {
    return std::tie(a.times.end, a.order) < std::tie(b.times.end, b.order);
  });
  std::vector<OperationTimes> times;
  times.reserve(ran.size());
  for (const Ran& one : ran) times.push_back(one.times);
  return times;
}

std::vector<WaitTimes> Streams::TakeWaits() {
  std::vector<WaitTimes> waits;
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    waits.insert(waits.end(), stream->waits.begin(), stream->waits.end());
    stream->waits.clear();
  }
  std::sort(waits.begin(), waits.end(), [](const WaitTimes& a, const WaitTimes& b) {
    return std::tie(a.end, a.call) < std::tie(b.end, b.call);
  });
  return waits;
}

}  // namespace stepcast::runtime::host
