#include "src/runtime/host/thread_transport.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/program/data_flow.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// The state shared by all ranks.
struct Hub;

// Synchronizes the members of one communicator.
class Meeting {
 public:
  Meeting(Hub& hub, int members) : hub_(hub), calls_(static_cast<std::size_t>(members)) {}

  Attempt<void> Run(int position, const CollectiveCall& call);
  Attempt<void> Exchange(int position, std::span<const MessageCall> messages);
  void WakeAll() {
    arrival_.notify_all();
    posted_.notify_all();
  }

 private:
  // Waits until every member is here.
  Attempt<void> Meet();
  void Work(int position) const;

  // A message that one end has posted, and its state. Both ends wait until it has moved.
  struct Posted {
    const MessageCall* call = nullptr;
    enum class State : std::uint8_t { kWaits, kMoves, kOver, kMismatched } state = State::kWaits;
  };
  // Removes and returns the other end of a message, if it has been posted.
  Posted* Take(int from, int to, program::MessageDirection direction);

  Hub& hub_;
  std::condition_variable arrival_;
  std::vector<CollectiveCall> calls_;  // by position
  int arrived_ = 0;
  std::uint64_t meetings_ = 0;
  // [sender, receiver, direction]: posted messages without their other end, in order.
  std::map<std::tuple<int, int, program::MessageDirection>, std::deque<Posted*>> open_;
  std::condition_variable posted_;
};

struct Hub {
  std::mutex mutex;  // guards all members and the meetings' counts
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<Meeting>> meetings;
  std::optional<std::string> abandoned;
};

Attempt<void> Meeting::Meet() {
  std::unique_lock lock(hub_.mutex);
  if (!hub_.abandoned) {
    if (++arrived_ == static_cast<int>(calls_.size())) {
      arrived_ = 0;
      ++meetings_;
      arrival_.notify_all();
      return {};
    }
    const std::uint64_t before = meetings_;
    arrival_.wait(lock, [&] { return meetings_ != before || hub_.abandoned; });
    if (meetings_ != before) return {};
  }
  return tl::unexpected(Failure{*hub_.abandoned});
}

Attempt<void> Meeting::Run(int position, const CollectiveCall& call) {
  calls_[static_cast<std::size_t>(position)] = call;
  STEPCAST_TRY(Meet());
  bool agree = true;
  for (const CollectiveCall& other : calls_) {
    agree = agree && other.kind == call.kind && other.type == call.type &&
            other.elements == call.elements && other.average == call.average &&
            other.root == call.root && other.loads == call.loads;
  }
  if (agree) Work(position);
  // Other members may read this rank's buffers until all are done.
  STEPCAST_TRY(Meet());
  if (!agree) {
    return tl::unexpected(Failure{"the members of the communicator called different collectives"});
  }
  return {};
}

Meeting::Posted* Meeting::Take(int from, int to, program::MessageDirection direction) {
  const auto found = open_.find({from, to, direction});
  if (found == open_.end() || found->second.empty()) return nullptr;
  Posted* const first = found->second.front();
  found->second.pop_front();
  return first;
}

// Posts all ends; the later end of a message moves its bytes.
Attempt<void> Meeting::Exchange(int position, std::span<const MessageCall> messages) {
  using program::MessageDirection;
  std::vector<Posted> own(messages.size());
  std::vector<std::pair<Posted*, Posted*>> moved;  // sender, receiver
  std::unique_lock lock(hub_.mutex);
  for (std::size_t i = 0; i < messages.size() && !hub_.abandoned; ++i) {
    const MessageCall& message = messages[i];
    own[i].call = &message;
    const bool sends = message.direction == MessageDirection::kSend;
    const int from = sends ? position : message.peer;
    const int to = sends ? message.peer : position;
    Posted* const other =
        Take(from, to, sends ? MessageDirection::kReceive : MessageDirection::kSend);
    if (other == nullptr) {
      open_[{from, to, message.direction}].push_back(&own[i]);
    } else if (other->call->bytes != message.bytes) {
      own[i].state = other->state = Posted::State::kMismatched;
    } else {
      own[i].state = other->state = Posted::State::kMoves;
      moved.emplace_back(sends ? &own[i] : other, sends ? other : &own[i]);
    }
  }
  lock.unlock();
  for (const auto& [sender, receiver] : moved) {
    std::memmove(receiver->call->data, sender->call->data,
                 static_cast<std::size_t>(sender->call->bytes));
  }
  lock.lock();
  for (const auto& [sender, receiver] : moved) {
    sender->state = receiver->state = Posted::State::kOver;
  }
  posted_.notify_all();
  // After this call returns, no other member may read its buffers.
  const auto is = [&](Posted::State state) {
    return std::any_of(own.begin(), own.end(), [=](const auto& one) { return one.state == state; });
  };
  posted_.wait(lock, [&] {
    if (is(Posted::State::kMoves)) return false;
    return !is(Posted::State::kWaits) || is(Posted::State::kMismatched) || hub_.abandoned;
  });
  if (!is(Posted::State::kWaits) && !is(Posted::State::kMismatched)) return {};
  for (auto& [key, waiting] : open_) {
    std::erase_if(waiting, [&](const Posted* one) {
      return one >= own.data() && one < own.data() + own.size();
    });
  }
  if (is(Posted::State::kMismatched)) {
    return tl::unexpected(
        Failure{"the sender and the receiver of a message must use the same number of bytes, but "
                "their sizes differ"});
  }
  return tl::unexpected(Failure{*hub_.abandoned});
}

template <typename T>
void Reduce(const std::vector<CollectiveCall>& calls, std::int64_t begin, std::int64_t end,
            T* const* targets, std::size_t target_count, std::int64_t target_begin, bool average) {
  constexpr std::int64_t kBlock = 2048;
  std::array<float, kBlock> sums;
  std::array<T, kBlock> rounded;
  const float divisor = static_cast<float>(calls.size());
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const T* first = static_cast<const T*>(calls[0].source) + at;
    for (std::int64_t i = 0; i < count; ++i) sums[i] = values::ToFp32(first[i]);
    for (std::size_t member = 1; member < calls.size(); ++member) {
      const T* source = static_cast<const T*>(calls[member].source) + at;
      for (std::int64_t i = 0; i < count; ++i) sums[i] += values::ToFp32(source[i]);
    }
    if (average) {
      for (std::int64_t i = 0; i < count; ++i) sums[i] /= divisor;
    }
    for (std::int64_t i = 0; i < count; ++i) rounded[i] = values::FromFp32<T>(sums[i]);
    for (std::size_t t = 0; t < target_count; ++t) {
      std::memcpy(targets[t] + (at - begin) + target_begin, rounded.data(),
                  static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

void CopyUnlessSame(void* target, const void* source, std::int64_t bytes) {
  if (target != source && bytes > 0) {
    std::memmove(target, source, static_cast<std::size_t>(bytes));
  }
}

void Meeting::Work(int position) const {
  const auto members = static_cast<std::int64_t>(calls_.size());
  const auto own = static_cast<std::size_t>(position);
  const CollectiveCall& call = calls_[own];
  const std::int64_t size = SizeOf(call.type);
  switch (call.kind) {
    case CollectiveKind::kAllReduce: {
      // Only this member accesses these elements of any buffer.
      const std::int64_t begin = call.elements * position / members;
      const std::int64_t end = call.elements * (position + 1) / members;
      values::WithStorageType(call.type, [&](auto storage) {
        using T = decltype(storage);
        std::vector<T*> targets;
        for (const CollectiveCall& other : calls_) targets.push_back(static_cast<T*>(other.target));
        Reduce<T>(calls_, begin, end, targets.data(), targets.size(), begin, call.average);
      });
      break;
    }
    case CollectiveKind::kReduceScatter: {
      const std::int64_t part = call.elements / members;
      values::WithStorageType(call.type, [&](auto storage) {
        using T = decltype(storage);
        T* target = static_cast<T*>(call.target);
        Reduce<T>(calls_, part * position, part * (position + 1), &target, 1, 0, call.average);
      });
      break;
    }
    case CollectiveKind::kAllGather: {
      const std::int64_t bytes = call.elements / members * size;
      for (const CollectiveCall& other : calls_) {
        CopyUnlessSame(static_cast<char*>(other.target) + bytes * position, call.source, bytes);
      }
      break;
    }
    case CollectiveKind::kBroadcast:
      CopyUnlessSame(call.target, calls_[static_cast<std::size_t>(call.root)].source,
                     call.elements * size);
      break;
    case CollectiveKind::kAllToAll: {
      const std::int64_t room = call.elements / members;
      for (int part = 0; part + 1 < static_cast<int>(members); ++part) {
        const int from = program::AllToAllSender(position, part, static_cast<int>(members));
        const auto* source =
            static_cast<const char*>(calls_[static_cast<std::size_t>(from)].source);
        const std::int64_t at = part * room * size;
        CopyUnlessSame(static_cast<char*>(call.target) + at, source + at,
                       size * ElementsSent(call.loads, room, call.type, from, position));
      }
      break;
    }
    default:
      STEPCAST_CHECK(false, "a step program must contain only supported collectives");
  }
}

class ThreadChannel : public Channel {
 public:
  ThreadChannel(std::shared_ptr<Hub> hub, Meeting& meeting, int position)
      : hub_(std::move(hub)), meeting_(meeting), position_(position) {}

  Attempt<void> Run(const CollectiveCall& call) override { return meeting_.Run(position_, call); }
  Attempt<void> Exchange(std::span<const MessageCall> messages) override {
    return meeting_.Exchange(position_, messages);
  }

 private:
  std::shared_ptr<Hub> hub_;
  Meeting& meeting_;
  int position_;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  Attempt<std::unique_ptr<Channel>> Open(const std::string& name,
                                         const std::vector<int>& ranks) override {
    const auto found = std::find(ranks.begin(), ranks.end(), rank_);
    STEPCAST_CHECK(found != ranks.end(), "a rank must open only communicators that it belongs to");
    const std::lock_guard lock(hub_->mutex);
    std::unique_ptr<Meeting>& meeting = hub_->meetings[{name, ranks}];
    if (meeting == nullptr) {
      meeting = std::make_unique<Meeting>(*hub_, static_cast<int>(ranks.size()));
    }
    return std::make_unique<ThreadChannel>(hub_, *meeting, static_cast<int>(found - ranks.begin()));
  }

  void Abandon(const std::string& why) override {
    const std::lock_guard lock(hub_->mutex);
    if (!hub_->abandoned) hub_->abandoned = why;
    for (auto& [key, meeting] : hub_->meetings) meeting->WakeAll();
  }

  std::string Description() const override { return "threads of one process"; }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
};

std::mutex registry_mutex;
std::map<std::string, std::weak_ptr<Hub>>& Registry() {
  static std::map<std::string, std::weak_ptr<Hub>> registry;
  return registry;
}

}  // namespace

Attempt<std::unique_ptr<Transport>> ConnectThreads(Job& job) {
  const Place& place = job.place();
  // Rank 0 registers the hub under a unique name. A rank that finds the name is in this process.
  std::shared_ptr<Hub> hub;
  std::string name;
  if (place.rank == 0) {
    hub = std::make_shared<Hub>();
    std::random_device random;
    name = fmt::format("{}:{:08x}{:08x}{:08x}", getpid(), random(), random(), random());
    const std::lock_guard lock(registry_mutex);
    std::erase_if(Registry(), [](const auto& entry) { return entry.second.expired(); });
    Registry()[name] = hub;
  }
  STEPCAST_TAKE(std::string heard, job.Broadcast(name));
  if (place.rank != 0) {
    const std::lock_guard lock(registry_mutex);
    const auto found = Registry().find(heard);
    if (found != Registry().end()) hub = found->second.lock();
  }
  STEPCAST_TAKE(const std::vector<std::string> found, job.Gather(hub != nullptr ? "y" : "n"));
  const bool all = std::all_of(found.begin(), found.end(),
                               [](const std::string& answer) { return answer == "y"; });
  STEPCAST_TAKE(const std::string together, job.Broadcast(all ? "y" : "n"));
  if (together != "y") return nullptr;
  return std::make_unique<ThreadTransport>(std::move(hub), place.rank);
}

}  // namespace stepcast::runtime::host
