#include "src/messaging/thread_mailbox.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace stepcast::messaging {
namespace {

struct Queues {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<Message>> by_rank;  // guarded by mutex
};

class ThreadMailbox final : public Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<Queues> queues, int rank)
      : queues_(std::move(queues)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(queues_->by_rank.size()); }

  Attempt<void> Send(int rank, std::string bytes) override {
    {
      const std::lock_guard lock(queues_->mutex);
      queues_->by_rank[static_cast<std::size_t>(rank)].push_back({rank_, std::move(bytes)});
    }
    queues_->changed.notify_all();
    return {};
  }

  Attempt<std::optional<Message>> Receive(std::chrono::microseconds timeout) override {
    std::unique_lock lock(queues_->mutex);
    std::deque<Message>& box = queues_->by_rank[static_cast<std::size_t>(rank_)];
    if (!queues_->changed.wait_for(lock, timeout, [&] { return !box.empty(); })) {
      return std::optional<Message>();
    }
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }

  Attempt<void> Flush() override { return {}; }

 private:
  const std::shared_ptr<Queues> queues_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Mailbox>> MakeThreadMailboxes(int ranks) {
  const auto queues = std::make_shared<Queues>();
  queues->by_rank.resize(static_cast<std::size_t>(ranks));
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  for (int rank = 0; rank < ranks; ++rank) {
    mailboxes.push_back(std::make_unique<ThreadMailbox>(queues, rank));
  }
  return mailboxes;
}

}  // namespace stepcast::messaging
