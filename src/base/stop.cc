#include "src/base/stop.h"

namespace stepcast {
namespace {

thread_local const StopFlag* innermost = nullptr;

}  // namespace

StopFlag::~StopFlag() {
  if (!timer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  timer_.join();
}

void StopFlag::RequestAt(std::chrono::steady_clock::time_point time) {
  timer_ = std::thread([this, time] {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, time, [this] { return ending_; });
    if (!ending_) Request();
  });
}

StopScope::StopScope(const StopFlag& flag) : outer_(innermost) { innermost = &flag; }
StopScope::~StopScope() { innermost = outer_; }

void StopPoint() {
  if (innermost != nullptr && innermost->requested()) throw Stopped();
}

}  // namespace stepcast
