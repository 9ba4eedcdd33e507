#include "src/runtime/join.h"

#include <unistd.h>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/mpi_job.h"
#include "src/runtime/rank_placement.h"

namespace stepcast::runtime {

using messaging::Launch;
using messaging::Launcher;

StartLimit::StartLimit(const Launch& launch, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kAfterRank0(2000);
  const auto own = launch.rank == 0 ? limit : limit + kAfterRank0;
  const std::string sentence = fmt::format(
      "stepcast: rank {} on '{}': not all of {} ranks have started within {} s\n", launch.rank,
      HostName(), launch.ranks, std::chrono::duration<double>(own).count());
  thread_ = std::thread([this, own, sentence] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, own, [this] { return met_; })) return;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, sentence.data(), sentence.size());
    ::_exit(1);
  });
}

StartLimit::~StartLimit() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Attempt<std::unique_ptr<Job>> Join(const Launch& launch) {
  STEPCAST_CHECK(launch.launcher != Launcher::kNone, "a launcher has started this process");
  return JoinMpi();
}

}  // namespace stepcast::runtime
