#include "src/runtime/thread_mailbox.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace stepcast::runtime {
namespace {

struct Office {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<Letter>> boxes;  // guarded by mutex
};

class ThreadMailbox final : public Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<Office> office, int rank)
      : office_(std::move(office)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(office_->boxes.size()); }

  Attempt<void> Post(int rank, std::string bytes) override {
    {
      const std::lock_guard lock(office_->mutex);
      office_->boxes[static_cast<std::size_t>(rank)].push_back({rank_, std::move(bytes)});
    }
    office_->changed.notify_all();
    return {};
  }

  Attempt<std::optional<Letter>> Receive(std::chrono::microseconds patience) override {
    std::unique_lock lock(office_->mutex);
    std::deque<Letter>& box = office_->boxes[static_cast<std::size_t>(rank_)];
    if (!office_->changed.wait_for(lock, patience, [&] { return !box.empty(); })) {
      return std::optional<Letter>();
    }
    Letter letter = std::move(box.front());
    box.pop_front();
    return letter;
  }

  Attempt<void> Flush() override { return {}; }

 private:
  const std::shared_ptr<Office> office_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Mailbox>> MakeThreadMailboxes(int ranks) {
  const auto office = std::make_shared<Office>();
  office->boxes.resize(static_cast<std::size_t>(ranks));
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  for (int rank = 0; rank < ranks; ++rank) {
    mailboxes.push_back(std::make_unique<ThreadMailbox>(office, rank));
  }
  return mailboxes;
}

}  // namespace stepcast::runtime
