#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "src/messaging/launch.h"
#include "src/runtime/job.h"

// How a process started by a launcher joins the other ranks of its job.
namespace stepcast::runtime {

// Ends the process with status 1 and a sentence on stderr, unless the object is destroyed before
// the limit. MPI waits forever for a missing rank, and no watch runs before ranks have joined
// (watch.h). Rank 0 has the shortest limit, so usually only rank 0 prints.
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

// Joins the other ranks. Requires a launcher other than kNone.
Attempt<std::unique_ptr<Job>> Join(const messaging::Launch& launch);

}  // namespace stepcast::runtime
