#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "src/messaging/launch.h"
#include "src/runtime/job.h"

// How a process that a launcher started meets the other ranks of its job.
namespace stepcast::runtime {

// Ends the process, with status 1 and a sentence on stderr, unless it is destroyed in time: MPI
// waits forever for a rank that does not come, or is stopped on the way, and before ranks have met
// none watches over another (watch.h). Rank 0 speaks first, so that as a rule it alone does.
class StartLimit {
 public:
  static constexpr std::chrono::milliseconds kDefault = std::chrono::seconds(120);
  explicit StartLimit(const messaging::Launch& launch, std::chrono::milliseconds limit = kDefault);
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

// Meets the other ranks. Not for kNone.
Attempt<std::unique_ptr<Job>> Join(const messaging::Launch& launch);

}  // namespace stepcast::runtime
