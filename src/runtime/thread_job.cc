#include "src/runtime/thread_job.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/rank_placement.h"

namespace stepcast::runtime {
namespace {

// Where the threads meet. Each meeting exchanges the bytes of every rank. It ends when the last
// rank has come, and the next one begins only after that.
class MeetingPlace {
 public:
  explicit MeetingPlace(int ranks)
      : brought_(static_cast<std::size_t>(ranks)),
        arrivals_(static_cast<std::size_t>(ranks)),
        gone_(static_cast<std::size_t>(ranks)) {}

  // Returns the bytes of all ranks, by rank, at rank 0, and only rank 0's bytes at the others.
  Attempt<std::vector<std::string>> Meet(int rank, std::string bytes) {
    const auto own = static_cast<std::size_t>(rank);
    std::unique_lock lock(mutex_);
    brought_[own] = std::move(bytes);
    const std::uint64_t meeting = ++arrivals_[own];
    if (Complete(meeting)) {
      from_rank_0_ = brought_[0];
      all_ = std::move(brought_);
      brought_.assign(arrivals_.size(), {});
      done_ = meeting;
      changed_.notify_all();
    }
    while (done_ < meeting) {
      for (std::size_t other = 0; other < gone_.size(); ++other) {
        if (gone_[other] && arrivals_[other] < meeting) {
          return tl::unexpected(Failure{fmt::format("rank {} has ended", other)});
        }
      }
      changed_.wait(lock);
    }
    if (rank == 0) return std::move(all_);
    return std::vector<std::string>{from_rank_0_};
  }

  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    gone_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  bool Complete(std::uint64_t meeting) const {
    for (const std::uint64_t arrived : arrivals_) {
      if (arrived < meeting) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> brought_;     // to the current meeting, by rank
  std::vector<std::uint64_t> arrivals_;  // number of meetings that each rank came to
  std::vector<bool> gone_;
  std::uint64_t done_ = 0;  // meetings that are over
  // Results of the last meeting. Rank 0 cannot come to the next one before it has taken `all_`. A
  // slower rank may still read `from_rank_0_`, but no later meeting ends without it.
  std::vector<std::string> all_;
  std::string from_rank_0_;
};

class ThreadJob final : public Job {
 public:
  ThreadJob(std::shared_ptr<MeetingPlace> meetings, Place place)
      : meetings_(std::move(meetings)), place_(std::move(place)) {}
  ~ThreadJob() override { meetings_->Leave(place_.rank); }

  const Place& place() const override { return place_; }

  Attempt<void> Barrier() override {
    if (auto met = meetings_->Meet(place_.rank, {}); !met) return tl::unexpected(met.error());
    return {};
  }
  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    auto met = meetings_->Meet(place_.rank, std::move(bytes));
    if (met && place_.rank != 0) met->clear();
    return met;
  }
  Attempt<std::string> Broadcast(std::string bytes) override {
    auto met = meetings_->Meet(place_.rank, place_.rank == 0 ? std::move(bytes) : std::string());
    if (!met) return tl::unexpected(met.error());
    return std::move(met->front());
  }

 private:
  std::shared_ptr<MeetingPlace> meetings_;
  Place place_;
};

}  // namespace

std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks) {
  STEPCAST_CHECK(ranks >= 1, "a job has a rank");
  const auto meetings = std::make_shared<MeetingPlace>(ranks);
  const std::string host = HostName();
  std::vector<std::unique_ptr<Job>> jobs;
  for (int rank = 0; rank < ranks; ++rank) {
    jobs.push_back(std::make_unique<ThreadJob>(
        meetings,
        Place{
            .rank = rank, .ranks = ranks, .local_rank = rank, .local_ranks = ranks, .host = host}));
  }
  return jobs;
}

}  // namespace stepcast::runtime
