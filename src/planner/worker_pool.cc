#include "src/planner/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/base/thread_team.h"
#include "src/messaging/byte_stream.h"

namespace stepcast::planner {
namespace {

using messaging::Attempt;
using messaging::ByteReader;
using messaging::ByteWriter;
using messaging::Failure;
using messaging::Mailbox;
using messaging::Message;

int Threads(int threads) { return threads > 0 ? threads : UsableCores(); }

class ThreadPool final : public WorkerPool {
 public:
  // The thread that calls Run works as well.
  ThreadPool(Work work, int threads) : work_(std::move(work)), team_(Threads(threads) - 1) {}

  Attempt<void> Run(const WorkList& list) override {
    std::atomic<bool> enough{false};
    std::mutex reporting;
    ForEachIndex(team_, list.count, [&](std::int64_t index, int) {
      if (enough) return;
      std::string result = work_(list.item(index));
      const std::lock_guard lock(reporting);
      if (!enough && !list.done(index, std::move(result))) enough = true;
    });
    return {};
  }

 private:
  const Work work_;
  ThreadTeam team_;
};

// Messages between rank 0 and the workers. A worker sends results and the number of additional
// items it wants; rank 0 sends items, or none at the end. The worker's last message, after that, is
// empty.
std::string ToBytes(const std::vector<std::pair<std::int64_t, std::string>>& entries,
                    std::int64_t requested) {
  ByteWriter writer;
  writer.Signed(requested);
  writer.Number(entries.size());
  for (const auto& [index, bytes] : entries) {
    writer.Signed(index);
    writer.Text(bytes);
  }
  return writer.Take();
}

struct Entries {
  std::int64_t requested = 0;
  std::vector<std::pair<std::int64_t, std::string>> entries;
};

Attempt<Entries> ToEntries(const Message& message) {
  ByteReader reader(message.bytes);
  Entries result;
  result.requested = reader.Signed();
  result.entries.resize(reader.Count());
  for (auto& [index, bytes] : result.entries) {
    index = reader.Signed();
    bytes = reader.Text();
  }
  if (reader.bad() || !reader.at_end()) {
    return tl::unexpected(
        Failure{"a message cannot be read; the sender is rank " + std::to_string(message.from)});
  }
  return result;
}

constexpr std::chrono::microseconds kReceiveTimeout(1000);

// Starts as many threads as the system allows; throws std::system_error if it allows none.
template <typename Body>
void StartThreads(int count, std::vector<std::thread>& threads, const Body& body) {
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    try {
      threads.emplace_back(body);
    } catch (const std::system_error&) {
      if (threads.empty()) throw;
      return;  // the work takes longer
    }
  }
}

// The pool at rank 0.
class MpiPool final : public WorkerPool {
 public:
  MpiPool(Mailbox& mailbox, Work work, int threads)
      : mailbox_(mailbox),
        work_(std::move(work)),
        requested_(static_cast<std::size_t>(mailbox.ranks()), 0),
        team_(Threads(threads)) {
    STEPCAST_CHECK(mailbox.rank() == 0, "the rank that distributes the items must be rank 0");
    if (team_.size() == 0) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
  }

  ~MpiPool() override {
    // The watch reports ranks that cannot be reached.
    for (int rank = 1; rank < mailbox_.ranks(); ++rank) {
      if (!mailbox_.Send(rank, ToBytes({}, 0))) return;
    }
    for (int left = mailbox_.ranks() - 1; left > 0;) {
      const auto message = mailbox_.Receive(kReceiveTimeout);
      if (!message) return;
      if (*message && (*message)->bytes.empty()) --left;
    }
    [[maybe_unused]] const auto flushed = mailbox_.Flush();
  }

  Attempt<void> Run(const WorkList& list) override {
    next_ = 0;
    enough_ = false;
    std::int64_t finished = 0;  // guarded by reporting, as all calls of done
    std::mutex reporting;
    const auto report = [&](std::int64_t index, std::string result) {
      const std::lock_guard lock(reporting);
      ++finished;
      if (!enough_ && !list.done(index, std::move(result))) enough_ = true;
    };
    const std::function<void(int)> part = [&](int) {
      try {
        for (std::int64_t index = 0; !enough_ && (index = next_++) < list.count;) {
          report(index, work_(list.item(index)));
        }
      } catch (...) {
        enough_ = true;
        throw;
      }
    };
    team_.Begin(part);
    // The threads use variables of this function until Join, even after an exception here.
    Attempt<void> served;
    std::exception_ptr thrown;
    try {
      served = FeedWorkers(list, report, [&] {
        const std::lock_guard lock(reporting);
        return enough_ || finished == list.count;
      });
    } catch (...) {
      thrown = std::current_exception();
    }
    if (!served || thrown) enough_ = true;
    team_.Join();
    if (thrown) std::rethrow_exception(thrown);
    return served;
  }

 private:
  template <typename Report, typename Over>
  Attempt<void> FeedWorkers(const WorkList& list, const Report& report, const Over& over) {
    for (int rank = 1; rank < mailbox_.ranks(); ++rank) {
      STEPCAST_TRY(SendItems(list, rank));
    }
    while (!over()) {
      STEPCAST_TAKE(const auto message, mailbox_.Receive(kReceiveTimeout));
      if (!message) continue;
      const int from = message->from;
      STEPCAST_TAKE(auto entries, ToEntries(*message));
      for (auto& [index, result] : entries.entries) {
        // Results of a run that was stopped early may still arrive.
        if (index >= first_ && index < first_ + list.count) {
          report(index - first_, std::move(result));
        }
      }
      requested_[static_cast<std::size_t>(from)] += entries.requested;
      STEPCAST_TRY(SendItems(list, from));
    }
    first_ += list.count;
    return {};
  }

  // Sends at most as many items as the rank has asked for, and fewer towards the end, so that all
  // ranks end at about the same time.
  Attempt<void> SendItems(const WorkList& list, int rank) {
    std::int64_t& requested = requested_[static_cast<std::size_t>(rank)];
    const std::int64_t left = enough_ ? 0 : std::max<std::int64_t>(list.count - next_, 0);
    const std::int64_t batch =
        std::min(requested, std::max<std::int64_t>(left / (2 * mailbox_.ranks()), 1));
    std::vector<std::pair<std::int64_t, std::string>> items;
    if (left == 0) return {};
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::int64_t index = next_++;
      if (index >= list.count) break;
      items.emplace_back(first_ + index, list.item(index));
    }
    if (items.empty()) return {};
    requested -= static_cast<std::int64_t>(items.size());
    return mailbox_.Send(rank, ToBytes(items, 0));
  }

  Mailbox& mailbox_;
  const Work work_;
  std::vector<std::int64_t> requested_;  // by rank: items asked for and not yet sent
  std::int64_t first_ = 0;               // items of earlier runs: indices are unique over all runs
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> enough_{false};
  ThreadTeam team_;  // of rank 0; destroyed first: its threads use the members above
};

// The threads of another rank.
class WorkerThreads {
 public:
  WorkerThreads(const Work& work, int threads) {
    StartThreads(threads, threads_, [this, &work] { Loop(work); });
  }

  ~WorkerThreads() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      items_.clear();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Add(std::vector<std::pair<std::int64_t, std::string>> items) {
    {
      const std::lock_guard lock(mutex_);
      for (auto& item : items) items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  std::vector<std::pair<std::int64_t, std::string>> TakeResults() {
    const std::lock_guard lock(mutex_);
    if (thrown_) std::rethrow_exception(thrown_);
    return std::exchange(results_, {});
  }

  // Returns whether a thread has waited for items since the last call.
  bool TakeIdle() {
    const std::lock_guard lock(mutex_);
    return std::exchange(idle_, false);
  }

 private:
  void Loop(const Work& work) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (items_.empty()) idle_ = true;
      changed_.wait(lock, [this] { return ending_ || !items_.empty(); });
      if (items_.empty()) return;
      auto [index, item] = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      std::string result;
      std::exception_ptr thrown;
      try {
        result = work(item);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown) thrown_ = thrown;
      results_.emplace_back(index, std::move(result));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::int64_t, std::string>> items_;     // guarded by mutex_
  std::vector<std::pair<std::int64_t, std::string>> results_;  // likewise
  std::exception_ptr thrown_;                                  // likewise
  bool idle_ = false;                                          // likewise
  bool ending_ = false;                                        // likewise
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<WorkerPool> MakeThreadPool(Work work, int threads) {
  return std::make_unique<ThreadPool>(std::move(work), threads);
}

std::unique_ptr<WorkerPool> MakeMpiPool(Mailbox& mailbox, Work work, int threads) {
  return std::make_unique<MpiPool>(mailbox, std::move(work), threads);
}

Attempt<void> RunWorker(Mailbox& mailbox, const Work& work, int threads) {
  const std::int64_t most = std::int64_t{1024} * Threads(threads);
  std::int64_t stock = std::int64_t{2} * Threads(threads);  // items to have at hand
  std::int64_t expected = 0;                                // asked for or at hand
  WorkerThreads workers(work, Threads(threads));
  for (;;) {
    auto results = workers.TakeResults();
    expected -= static_cast<std::int64_t>(results.size());
    // Items that take less time than a message need a larger stock.
    if (workers.TakeIdle() && !results.empty()) stock = std::min(2 * stock, most);
    const std::int64_t requested = std::max<std::int64_t>(stock - expected, 0);
    if (requested > 0 || !results.empty()) {
      expected += requested;
      STEPCAST_TRY(mailbox.Send(0, ToBytes(results, requested)));
    }
    STEPCAST_TAKE(const auto message, mailbox.Receive(kReceiveTimeout));
    if (!message) continue;
    STEPCAST_TAKE(auto entries, ToEntries(*message));
    if (entries.entries.empty()) break;
    workers.Add(std::move(entries.entries));
  }
  STEPCAST_TRY(mailbox.Send(0, ""));
  return mailbox.Flush();
}

int ThreadsOfRank(int local_ranks) {
  // Launchers often bind a rank to some of the cores, and other processes may use these too.
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::min(Threads(0), std::max(1, cores / std::max(1, local_ranks)));
}

}  // namespace stepcast::planner
