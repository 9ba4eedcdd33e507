#include "src/runtime/host/transport_checks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// Whole numbers from -3 to 3: sums are exact in bf16 in any order.
float Given(int member, std::int64_t element) {
  return static_cast<float>((element * 5 + member * 3) % 7 - 3);
}

// Large enough for a transport to send in pieces, and of no even number; ThreadSanitizer, which
// looks at threads and not at pieces, would take minutes.
#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kManyElements = 10'001;
constexpr std::int64_t kMoreElements = 10'003;
#else
constexpr std::int64_t kManyElements = 90'001;
// More pieces than are under way at once.
constexpr std::int64_t kMoreElements = 600'001;
#endif

struct Group {
  Channel& channel;
  std::vector<int> ranks;
  int position;
};

template <typename T>
std::string CheckOne(const Group& group, CollectiveKind kind, DataType type, std::int64_t part,
                     bool average, bool in_place) {
  const auto members = static_cast<std::int64_t>(group.ranks.size());
  const std::int64_t whole = part * members;
  const bool gathers = kind == CollectiveKind::kAllGather;
  const bool scatters = kind == CollectiveKind::kReduceScatter;
  const std::int64_t sent = gathers ? part : whole;
  const std::int64_t received = scatters ? part : whole;
  // One more element at the end that nobody may touch.
  const T guard = values::FromFp32<T>(99.0f);
  std::vector<T> source(static_cast<std::size_t>(whole) + 1, guard);
  std::vector<T> target(static_cast<std::size_t>(whole) + 1, guard);
  T* from = source.data();
  T* to = target.data();
  if (in_place) {
    to = scatters ? from + part * group.position : from;
    if (gathers) from += part * group.position;
  }
  for (std::int64_t i = 0; i < sent; ++i) {
    from[i] = values::FromFp32<T>(Given(group.ranks[group.position], i));
  }
  const Attempt<void> done = group.channel.Run({kind, type, average, whole, from, to});
  if (!done) return done.error().message;
  for (std::int64_t i = 0; i < received; ++i) {
    float expected = 0;
    if (gathers) {
      expected = Given(group.ranks[i / part], i % part);
    } else if (kind == CollectiveKind::kBroadcast) {
      expected = Given(group.ranks[0], i);
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
    return fmt::format("{} wrote beyond its end", Name(kind));
  }
  return "";
}

std::string CheckGroup(const Group& group) {
  for (const CollectiveKind kind : kProgramCollectiveKinds) {
    const bool sums = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
    for (const DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
      for (const std::int64_t part :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, kManyElements}) {
        for (const bool average : {false, true}) {
          if (average && !sums) continue;
          for (const bool in_place : {false, true}) {
            std::string wrong = values::WithStorageType(type, [&](auto storage) {
              return CheckOne<decltype(storage)>(group, kind, type, part, average, in_place);
            });
            if (!wrong.empty()) return wrong;
          }
        }
      }
    }
    std::string wrong =
        CheckOne<float>(group, kind, DataType::kFp32, kMoreElements, false, /*in_place=*/true);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string CheckTransport(Transport& transport, int rank, int ranks) {
  std::vector<int> all, alternate;
  for (int r = 0; r < ranks; ++r) {
    // From the last to the first: the group's order is not that of the ranks.
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
  // At the same time, each from a thread of its own.
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
