#include "src/runtime/job.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::runtime {
namespace {

struct Node {
  std::string host;
  std::set<int> local_ranks;
};

}  // namespace

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks) {
  std::vector<Node> nodes;
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlacement& own = ranks[rank];
    std::size_t node = 0;
    while (node < nodes.size() &&
           (nodes[node].host != own.host ||
            (own.local_rank >= 0 && nodes[node].local_ranks.contains(own.local_rank)))) {
      ++node;
    }
    if (node == nodes.size()) nodes.push_back({own.host, {}});
    int local_rank = own.local_rank;
    if (local_rank < 0) {
      for (local_rank = 0; nodes[node].local_ranks.contains(local_rank); ++local_rank) {
      }
    }
    nodes[node].local_ranks.insert(local_rank);
    places.push_back({.rank = static_cast<int>(rank),
                      .ranks = static_cast<int>(ranks.size()),
                      .local_rank = local_rank,
                      .local_ranks = 1,
                      .node = static_cast<int>(node),
                      .nodes = 1,
                      .host = own.host});
  }
  for (Place& place : places) {
    place.local_ranks =
        static_cast<int>(nodes[static_cast<std::size_t>(place.node)].local_ranks.size());
    place.nodes = static_cast<int>(nodes.size());
  }
  return places;
}

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
    STEPCAST_TRY(meetings_->Meet(place_.rank, {}));
    return {};
  }
  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    auto met = meetings_->Meet(place_.rank, std::move(bytes));
    if (met && place_.rank != 0) met->clear();
    return met;
  }
  Attempt<std::string> Broadcast(std::string bytes) override {
    STEPCAST_TAKE(auto met, meetings_->Meet(place_.rank,
                                            place_.rank == 0 ? std::move(bytes) : std::string()));
    return std::move(met.front());
  }

 private:
  std::shared_ptr<MeetingPlace> meetings_;
  Place place_;
};

}  // namespace

std::vector<std::unique_ptr<Job>> MakeThreadJobs(int ranks) {
  STEPCAST_CHECK(ranks >= 1, "a job must have at least one rank");
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

StartLimit::StartLimit(const messaging::Launch& launch, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kAfterRank0(2000);
  const auto own = launch.rank == 0 ? limit : limit + kAfterRank0;
  const std::string sentence = fmt::format(
      "stepcast: rank {} on '{}': some of the {} ranks have not started within {} s\n", launch.rank,
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

}  // namespace stepcast::runtime
