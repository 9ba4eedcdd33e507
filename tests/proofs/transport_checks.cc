#include "tests/proofs/transport_checks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/program/data_flow.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// Integers from -3 to 3: sums are exact in bf16 in any order.
float Given(int member, std::int64_t element) {
  return static_cast<float>((element * 5 + member * 3) % 7 - 3);
}

// Large enough to be sent in pieces, and not a round number. ThreadSanitizer would take minutes,
// and does not check pieces.
#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kManyElements = 10'001;
constexpr std::int64_t kMoreElements = 10'003;
#else
constexpr std::int64_t kManyElements = 90'001;
// More pieces than may be in flight at once.
constexpr std::int64_t kMoreElements = 600'001;
#endif

struct Group {
  Channel& channel;
  std::vector<int> ranks;
  int position;
};

template <typename T>
std::string CheckOne(const Group& group, CollectiveKind kind, DataType type, std::int64_t part,
                     bool average, bool in_place, const AllToAllLoads& loads = {}) {
  const auto members = static_cast<std::int64_t>(group.ranks.size());
  const std::int64_t whole = part * members;
  const bool gathers = kind == CollectiveKind::kAllGather;
  const bool scatters = kind == CollectiveKind::kReduceScatter;
  const program::CollectiveParts parts = program::PartsOf(kind, whole, members);
  // One guard element at the end.
  const T guard = values::FromFp32<T>(99.0f);
  std::vector<T> source(static_cast<std::size_t>(whole) + 1, guard);
  std::vector<T> target(static_cast<std::size_t>(whole) + 1, guard);
  T* from = source.data();
  T* to = target.data();
  if (in_place) {
    to = scatters ? from + part * group.position : from;
    if (gathers) from += part * group.position;
  }
  for (std::int64_t i = 0; i < parts.sent; ++i) {
    from[i] = values::FromFp32<T>(Given(group.ranks[group.position], i));
  }
  const Attempt<void> done = group.channel.Run({kind, type, average, whole, from, to, 0, loads});
  if (!done) return done.error().message;
  for (std::int64_t i = 0; i < parts.received; ++i) {
    float expected = 0;
    if (gathers) {
      expected = Given(group.ranks[i / part], i % part);
    } else if (kind == CollectiveKind::kBroadcast) {
      expected = Given(group.ranks[0], i);
    } else if (kind == CollectiveKind::kAllToAll) {
      const int from = program::AllToAllSender(group.position, static_cast<int>(i / part),
                                               static_cast<int>(members));
      // Elements that are not sent keep their values.
      const bool sent = i % part < ElementsSent(loads, part, type, from, group.position);
      expected = sent ? Given(group.ranks[static_cast<std::size_t>(from)], i) : 99.0f;
    } else {
      const std::int64_t element = scatters ? part * group.position + i : i;
      for (const int member : group.ranks) expected += Given(member, element);
      if (average) expected /= static_cast<float>(members);
      expected = values::ToFp32(values::FromFp32<T>(expected));
    }
    if (values::ToFp32(to[i]) != expected) {
      return fmt::format("{} of {} elements in {}{}{}: element {} is {}, not {}", Name(kind), whole,
                         Name(type), average ? ", average" : "", in_place ? ", in place" : "", i,
                         values::ToFp32(to[i]), expected);
    }
  }
  if (values::ToFp32(source.back()) != 99.0f || values::ToFp32(target.back()) != 99.0f) {
    return fmt::format("{} wrote beyond the end of its buffer", Name(kind));
  }
  return "";
}

// The bytes of the n-th message from one member to another.
std::byte ByteOf(const Group& group, int from, int to, int number, std::int64_t at) {
  return static_cast<std::byte>(group.ranks[static_cast<std::size_t>(from)] * 31 + to * 7 +
                                number * 3 + at % 251);
}

// Checks an exchange of messages of these sizes with members at these distances; each member
// receives from the members at the opposite distances.
std::string CheckExchange(const Group& group, const std::vector<int>& distances,
                          const std::vector<std::int64_t>& sizes) {
  using program::MessageDirection;
  const auto members = static_cast<int>(group.ranks.size());
  std::vector<MessageCall> calls;
  std::vector<std::vector<std::byte>> data;
  const auto add = [&](MessageDirection direction, int peer, int number) {
    const std::int64_t size = sizes[static_cast<std::size_t>(number)];
    // One guard byte at the end.
    std::vector<std::byte>& bytes =
        data.emplace_back(static_cast<std::size_t>(size) + 1, std::byte{99});
    if (direction == MessageDirection::kSend) {
      for (std::int64_t at = 0; at < size; ++at) {
        bytes[static_cast<std::size_t>(at)] = ByteOf(group, group.position, peer, number, at);
      }
    }
    calls.push_back({.direction = direction, .peer = peer, .bytes = size, .data = bytes.data()});
  };
  for (const int distance : distances) {
    for (int number = 0; number < static_cast<int>(sizes.size()); ++number) {
      add(MessageDirection::kSend, (group.position + distance) % members, number);
      add(MessageDirection::kReceive, (group.position - distance + members) % members, number);
    }
  }
  if (const Attempt<void> done = group.channel.Exchange(calls); !done) return done.error().message;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const bool received = calls[c].direction == MessageDirection::kReceive;
    const int number = static_cast<int>(c / 2 % sizes.size());
    if (data[c].back() != std::byte{99}) return "an exchange wrote beyond the end of a buffer";
    for (std::int64_t at = 0; received && at < calls[c].bytes; ++at) {
      if (calls[c].data[at] != ByteOf(group, calls[c].peer, group.position, number, at)) {
        return fmt::format("byte {} of {} of message {} from member {} is wrong", at,
                           calls[c].bytes, number, calls[c].peer);
      }
    }
  }
  return "";
}

std::string CheckExchanges(const Group& group) {
  const auto members = static_cast<int>(group.ranks.size());
  std::vector<int> all;
  for (int distance = 0; distance < members; ++distance) all.push_back(distance);
  for (const auto& distances : {std::vector{1 % members}, std::vector{members - 1}, all}) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
             {1}, {4 * kManyElements}, {7, 1, 200'000, 3}, {4 * kMoreElements, 61'440}}) {
      std::string wrong = CheckExchange(group, distances, sizes);
      if (!wrong.empty()) return wrong;
    }
  }
  // Messages pass from the first member to the last one by one: each waits for the previous one.
  if (members == 1) return "";
  std::vector<std::byte> token(70'000);
  const auto size = static_cast<std::int64_t>(token.size());
  const MessageCall receive = {program::MessageDirection::kReceive,
                               (group.position + members - 1) % members, size, token.data()};
  const MessageCall send = {program::MessageDirection::kSend, (group.position + 1) % members, size,
                            token.data()};
  if (group.position == 0) token.assign(token.size(), std::byte{1});
  const MessageCall* order[] = {&receive, &send};
  if (group.position == 0) std::swap(order[0], order[1]);
  for (const MessageCall* call : order) {
    if (const Attempt<void> done = group.channel.Exchange({call, 1}); !done) {
      return done.error().message;
    }
    if (call == &receive) {
      for (std::byte& byte : token) byte = static_cast<std::byte>(static_cast<int>(byte) + 1);
    }
  }
  const int expected = group.position == 0 ? members + 1 : group.position + 1;
  return token.back() == static_cast<std::byte>(expected) ? ""
                                                          : "a token arrived with a wrong "
                                                            "value";
}

// Checks an all-to-all of expert rows with uneven loads, in both directions.
std::string CheckUneven(const Group& group) {
  const auto members = static_cast<std::int64_t>(group.ranks.size());
  for (const auto first : {AllToAllLoads::First::kReceivesMost, AllToAllLoads::First::kSendsMost}) {
    for (const double load : {1.5, static_cast<double>(members)}) {
      const AllToAllLoads loads = AllToAllLoads::Of(load, members, first);
      for (const std::int64_t part : {std::int64_t{1}, std::int64_t{5}, kManyElements}) {
        std::string wrong = CheckOne<float>(group, CollectiveKind::kAllToAll, DataType::kFp32, part,
                                            false, false, loads);
        if (!wrong.empty()) return wrong + ", with uneven loads";
      }
    }
  }
  return "";
}

std::string CheckGroup(const Group& group) {
  if (std::string wrong = CheckExchanges(group); !wrong.empty()) return wrong;
  if (std::string wrong = CheckUneven(group); !wrong.empty()) return wrong;
  for (const CollectiveKind kind : kProgramCollectiveKinds) {
    const bool sums = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
    for (const DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
      for (const std::int64_t part :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, kManyElements}) {
        for (const bool average : {false, true}) {
          if (average && !sums) continue;
          for (const bool in_place : {false, true}) {
            if (in_place && kind == CollectiveKind::kAllToAll) continue;
            std::string wrong = values::WithStorageType(type, [&](auto storage) {
              return CheckOne<decltype(storage)>(group, kind, type, part, average, in_place);
            });
            if (!wrong.empty()) return wrong;
          }
        }
      }
    }
    std::string wrong = CheckOne<float>(group, kind, DataType::kFp32, kMoreElements, false,
                                        /*in_place=*/kind != CollectiveKind::kAllToAll);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string CheckTransport(Transport& transport, int rank, int ranks) {
  std::vector<int> all, alternate;
  for (int r = 0; r < ranks; ++r) {
    // In reverse, so that the group's order differs from the ranks' order.
    all.insert(all.begin(), r);
    if (r % 2 == rank % 2) alternate.push_back(r);
  }
  std::vector<std::unique_ptr<Channel>> channels;
  std::vector<Group> groups;
  for (const auto& [name, members] :
       {std::pair("all", all), std::pair("again", all), std::pair("alternate", alternate)}) {
    Attempt<std::unique_ptr<Channel>> channel = transport.Open(name, members);
    if (!channel) return channel.error().message;
    channels.push_back(*std::move(channel));
    const auto found = std::find(members.begin(), members.end(), rank);
    groups.push_back({*channels.back(), members, static_cast<int>(found - members.begin())});
  }
  // All groups at the same time, each on its own thread.
  std::vector<std::string> wrong(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    threads.emplace_back([&, g] { wrong[g] = CheckGroup(groups[g]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : wrong) {
    if (!what.empty()) return what;
  }
  return "";
}

}  // namespace stepcast::runtime::host
