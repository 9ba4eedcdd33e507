#include "src/runtime/host/communicator.h"

#include <cstring>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/program/data_flow.h"
#include "src/runtime/host/value_effects.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

void Convert(const std::byte* from, DataType from_type, std::byte* to, DataType to_type,
             std::int64_t count) {
  values::WithStorageType(from_type, [&](auto from_storage) {
    values::WithStorageType(to_type, [&](auto to_storage) {
      using To = decltype(to_storage);
      const auto* source = reinterpret_cast<const decltype(from_storage)*>(from);
      To* target = reinterpret_cast<To*>(to);
      for (std::int64_t i = 0; i < count; ++i) {
        target[i] = values::FromFp32<To>(values::ToFp32(source[i]));
      }
    });
  });
}

// A member's values in a check: -1, 0 or 1, so that sums over 256 members are exact in bf16.
float Known(int position, std::int64_t element) {
  return static_cast<float>((element * 7 + position * 5 + element / 11) % 3 - 1);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Channel> channel, int members)
    : channel_(std::move(channel)), members_(members) {}

bool Communicator::AwaitTurn(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  turn_.wait(lock, [&] { return finished_ == ticket || closed_; });
  return !closed_;
}

void Communicator::EndTurn() {
  const std::lock_guard lock(mutex_);
  ++finished_;
  turn_.notify_all();
}

void Communicator::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  turn_.notify_all();
}

Attempt<std::byte*> Communicator::Reserve(int slot, std::int64_t bytes) {
  std::vector<std::byte>& memory = staging_[slot];
  if (memory.size() < static_cast<std::size_t>(bytes)) {
    try {
      // 0x3e3e is 0.19 in bf16 and fp32, 1.6 in fp16.
      memory.assign(static_cast<std::size_t>(bytes), std::byte{0x3e});
    } catch (const std::bad_alloc&) {
      return tl::unexpected(Failure{
          fmt::format("out of memory: a collective needs {} bytes for staging buffers", bytes),
          true});
    }
  }
  return memory.data();
}

Attempt<void> Communicator::Run(const program::Collective& collective, std::int64_t elements,
                                Side source, Side target) {
  const DataType type = collective.data_type;
  const auto [sent, received] = program::PartsOf(collective.kind, elements, members_);
  CollectiveCall call{collective.kind, type,        collective.average, elements,
                      source.data,     target.data, collective.root,    collective.loads};
  if (source.type != type) {
    STEPCAST_TAKE(std::byte * staged, Reserve(0, sent * SizeOf(type)));
    Convert(source.data, source.type, staged, type, sent);
    call.source = staged;
  }
  if (target.type != type) {
    STEPCAST_TAKE(call.target, Reserve(1, received * SizeOf(type)));
  }
  STEPCAST_TRY(channel_->Run(call));
  if (target.type != type) {
    Convert(static_cast<const std::byte*>(call.target), type, target.data, target.type, received);
  }
  return {};
}

Attempt<void> Communicator::Exchange(std::span<const MessageCall> messages) {
  return channel_->Exchange(messages);
}

Attempt<void> Communicator::RunEmpty(const program::Collective& collective) {
  const std::int64_t size = SizeOf(collective.data_type);
  const std::int64_t elements = collective.bytes.count() / size / members_ * members_;
  STEPCAST_TAKE(std::byte * source, Reserve(0, elements * size));
  STEPCAST_TAKE(std::byte * target, Reserve(1, elements * size));
  return channel_->Run({collective.kind, collective.data_type, collective.average, elements, source,
                        target, collective.root, collective.loads});
}

Attempt<void> Communicator::CheckSums(const program::Collective& collective, int position) {
  if (collective.data_type == DataType::kFp8) {
    return tl::unexpected(Failure{"the host backend has no collectives for fp8"});
  }
  Attempt<void> right = CheckOnStaging(collective, position);
  // Frees the staging memory, which has the size of the largest collective; steps may not need it.
  for (std::vector<std::byte>& memory : staging_) std::vector<std::byte>().swap(memory);
  return right;
}

Attempt<void> Communicator::CheckOnStaging(const program::Collective& collective, int position) {
  const DataType type = collective.data_type;
  const std::int64_t size = SizeOf(type);
  const std::int64_t elements = collective.bytes.count() / size / members_ * members_;
  const program::CollectiveParts parts = program::PartsOf(collective.kind, elements, members_);
  const std::int64_t sent = parts.sent, received = parts.received;
  STEPCAST_TAKE(std::byte * source, Reserve(0, elements * size));
  STEPCAST_TAKE(std::byte * target, Reserve(1, elements * size));

  std::int64_t wrong = 0;
  std::string example;
  Attempt<void> done;
  values::WithStorageType(type, [&](auto storage) {
    using T = decltype(storage);
    T* from = reinterpret_cast<T*>(source);
    T* to = reinterpret_cast<T*>(target);
    for (std::int64_t i = 0; i < sent; ++i) from[i] = values::FromFp32<T>(Known(position, i));
    done = channel_->Run({collective.kind, type, collective.average, elements, from, to,
                          collective.root, collective.loads});
    if (!done) return;
    const std::int64_t part = elements / members_;
    const float divisor = collective.average ? static_cast<float>(members_) : 1.0f;
    for (std::int64_t i = 0; i < received; ++i) {
      float expected = 0;
      switch (collective.kind) {
        case CollectiveKind::kAllReduce:
          for (int member = 0; member < members_; ++member) expected += Known(member, i);
          expected = values::ToFp32(values::FromFp32<T>(expected / divisor));
          break;
        case CollectiveKind::kReduceScatter:
          for (int member = 0; member < members_; ++member) {
            expected += Known(member, part * position + i);
          }
          expected = values::ToFp32(values::FromFp32<T>(expected / divisor));
          break;
        case CollectiveKind::kAllGather:
          expected = Known(static_cast<int>(i / part), i % part);
          break;
        case CollectiveKind::kBroadcast:
          expected = Known(collective.root, i);
          break;
        case CollectiveKind::kAllToAll: {
          const int sender =
              program::AllToAllSender(position, static_cast<int>(i / part), members_);
          if (i % part >= ElementsSent(collective.loads, part, type, sender, position)) continue;
          expected = Known(sender, i);
          break;
        }
        default:
          STEPCAST_CHECK(false, "a step program must contain only supported collectives");
      }
      const float got = values::ToFp32(to[i]);
      if (got == expected) continue;
      if (wrong++ == 0) example = fmt::format("element {} is {}, not {}", i, got, expected);
    }
  });
  if (!done) return done;
  if (wrong > 0) {
    return tl::unexpected(
        Failure{fmt::format("{} of {} elements are wrong: {}", wrong, received, example)});
  }
  return {};
}

}  // namespace stepcast::runtime::host
