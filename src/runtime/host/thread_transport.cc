#include "src/runtime/host/thread_transport.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// What all ranks share.
struct Hub;

// Where the members of one communicator meet.
class Meeting {
 public:
  Meeting(Hub& hub, int members) : hub_(hub), calls_(static_cast<std::size_t>(members)) {}

  Attempt<void> Run(int position, const CollectiveCall& call);
  void WakeAll() { arrival_.notify_all(); }

 private:
  // Waits until every member is here.
  Attempt<void> Meet();
  void Work(int position) const;

  Hub& hub_;
  std::condition_variable arrival_;
  std::vector<CollectiveCall> calls_;  // by position
  int arrived_ = 0;
  std::uint64_t meetings_ = 0;
};

struct Hub {
  std::mutex mutex;  // guards all of this and the meetings' counts
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
  if (Attempt<void> met = Meet(); !met) return met;
  bool agree = true;
  for (const CollectiveCall& other : calls_) {
    agree = agree && other.kind == call.kind && other.type == call.type &&
            other.elements == call.elements && other.average == call.average;
  }
  if (agree) Work(position);
  // Buffers are others' to read until all are done.
  if (Attempt<void> met = Meet(); !met) return met;
  if (!agree) {
    return tl::unexpected(
        Failure{"the members of the communicator are at collectives that differ"});
  }
  return {};
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
      // Nobody but this member reads or writes these elements of any buffer.
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
      CopyUnlessSame(call.target, calls_[0].source, call.elements * size);
      break;
    default:
      STEPCAST_CHECK(false, "step programs hold no other collective");
  }
}

class ThreadChannel : public Channel {
 public:
  ThreadChannel(std::shared_ptr<Hub> hub, Meeting& meeting, int position)
      : hub_(std::move(hub)), meeting_(meeting), position_(position) {}

  Attempt<void> Run(const CollectiveCall& call) override { return meeting_.Run(position_, call); }

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
    STEPCAST_CHECK(found != ranks.end(), "a rank opens communicators that it belongs to");
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
  // Rank 0 puts a hub under a name that no other process has; who finds it is in this process.
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
  Attempt<std::string> heard = job.Broadcast(name);
  if (!heard) return tl::unexpected(heard.error());
  if (place.rank != 0) {
    const std::lock_guard lock(registry_mutex);
    const auto found = Registry().find(*heard);
    if (found != Registry().end()) hub = found->second.lock();
  }
  const Attempt<std::vector<std::string>> found = job.Gather(hub != nullptr ? "y" : "n");
  if (!found) return tl::unexpected(found.error());
  const bool all = std::all_of(found->begin(), found->end(),
                               [](const std::string& answer) { return answer == "y"; });
  const Attempt<std::string> together = job.Broadcast(all ? "y" : "n");
  if (!together) return tl::unexpected(together.error());
  if (*together != "y") return nullptr;
  return std::make_unique<ThreadTransport>(std::move(hub), place.rank);
}

}  // namespace stepcast::runtime::host
