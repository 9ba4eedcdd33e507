#include "src/engine/pool_course.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rapidcheck/gtest.h"
#include "src/base/bytes.h"
#include "src/engine/caching_allocator.h"
#include "src/engine/segment_sizes.h"

namespace stepcast::engine {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

using Sizes = std::vector<std::int64_t>;
using Request = PoolRequests::Request;

PoolRequests OnePart(std::uint32_t blocks, std::vector<Request> requests) {
  PoolRequests all{.blocks = blocks, .requests = std::move(requests)};
  all.parts = {{.first = 0, .last = all.requests.size(), .kind = 0}};
  return all;
}

std::optional<std::int64_t> Taken(const PoolCourse& course, const Sizes& sizes, int rounds = 1,
                                  const Sizes& ends = {}) {
  PoolCourse::Room room;
  return course.Taken({.requests = sizes, .ends = ends}, rounds, room);
}

// Two blocks of one segment each, then one that fits into the first alone: two segments are taken,
// whatever the third is as long as it is larger than the second and not larger than the first. What
// it leaves is too small for anything.
TEST(PoolCourseTest, HoldsAsLongAsComparisonsComeOutTheSame) {
  const PoolRequests requests = OnePart(3, {{.block = 0, .size = 0},
                                            {.block = 1, .size = 1},
                                            {.block = 0, .size = 0, .free = true},
                                            {.block = 1, .size = 1, .free = true},
                                            {.block = 2, .size = 2},
                                            {.block = 2, .size = 2, .free = true}});
  const std::vector<std::uint8_t> all = {1, 1, 1};
  const Sizes sizes = {64 * kMiB, 32 * kMiB, 40 * kMiB};
  const PoolCourse course(requests, {.requests = sizes}, {.requests = all}, 1);
  EXPECT_EQ(Taken(course, sizes), 96 * kMiB);
  EXPECT_EQ(Taken(course, {64 * kMiB, 32 * kMiB, 64 * kMiB}), 96 * kMiB);
  EXPECT_EQ(Taken(course, {65 * kMiB, 34 * kMiB, 36 * kMiB}), (66 + 34) * kMiB);
  EXPECT_EQ(Taken(course, {64 * kMiB, 32 * kMiB, 65 * kMiB}), std::nullopt);  // a third segment
  EXPECT_EQ(Taken(course, {64 * kMiB, 32 * kMiB, 32 * kMiB}), std::nullopt);  // the other block
}

// What was said not to change must not.
TEST(PoolCourseTest, HoldsForTheSameConstantsOnly) {
  const PoolRequests requests =
      OnePart(1, {{.block = 0, .size = 0}, {.block = 0, .size = 0, .free = true}});
  const std::vector<std::uint8_t> none = {0};
  const Sizes sizes = {12 * kMiB};
  const PoolCourse course(requests, {.requests = sizes}, {.requests = none}, 1);
  EXPECT_EQ(Taken(course, {12 * kMiB}), 12 * kMiB);
  EXPECT_EQ(Taken(course, {14 * kMiB}), std::nullopt);
}

// 1.5 MiB are free behind a block that stays: a request of 1.25 takes no segment there, while one
// of 1.75 does.
TEST(PoolCourseTest, TakesWhatIsFreeAtTheEndsOfSegments) {
  const PoolRequests requests =
      OnePart(1, {{.block = 0, .size = 0}, {.block = 0, .size = 0, .free = true}});
  const std::vector<std::uint8_t> all = {1};
  const Sizes sizes = {5 * kMiB / 4}, ends = {3 * kMiB / 2};
  const PoolCourse course(requests, {.requests = sizes, .ends = ends},
                          {.requests = all, .ends = true}, 1);
  EXPECT_EQ(Taken(course, sizes, 1, ends), 0);
  EXPECT_EQ(Taken(course, {7 * kMiB / 4}, 1, ends), std::nullopt);
  EXPECT_EQ(Taken(course, {7 * kMiB / 4}, 1, {15 * kMiB / 8}), 0);
  EXPECT_EQ(Taken(course, sizes, 1, {}), std::nullopt);
}

// 64 and 40 MiB are free when a list of four tensors comes, behind 10 MiB that stay. Of 30 MiB each
// they find no room; of 20 they do, whatever that cuts them from; then the course says so for other
// sizes, too, of which other blocks take them.
TEST(PoolCourseTest, LeavesOutWhatComesAndGoesAndFindsRoom) {
  PoolRequests requests{.blocks = 6};
  for (const bool free : {false, true}) {
    requests.requests.push_back({.block = 0, .size = 0, .free = free});
    if (!free) requests.requests.push_back({.block = 1, .size = 1});
  }
  requests.requests.push_back({.block = 1, .size = 1, .free = true});
  requests.parts = {{.first = 0, .last = 4}};
  for (const bool free : {false, true}) {
    for (std::uint32_t i = 2; i < 6; ++i) {
      requests.requests.push_back({.block = i, .size = 2, .free = free});
    }
  }
  requests.parts.push_back({.first = 4, .last = 12, .kind = 1, .visit = true});
  const std::vector<std::uint8_t> changes = {0, 0, 1};
  const Sizes sizes = {64 * kMiB, 40 * kMiB, 20 * kMiB};
  const PoolCourse course(requests, {.requests = sizes}, {.requests = changes}, 4);
  EXPECT_EQ(Taken(course, sizes, 4), 104 * kMiB);
  EXPECT_EQ(Taken(course, {64 * kMiB, 40 * kMiB, 11 * kMiB}, 4), 104 * kMiB);
  EXPECT_EQ(Taken(course, {64 * kMiB, 40 * kMiB, 21 * kMiB}, 4), 104 * kMiB);
  EXPECT_EQ(Taken(course, {64 * kMiB, 40 * kMiB, 30 * kMiB}, 4), std::nullopt);
  // Made with such a size, it says what is taken then: one of 30 MiB goes into 40, two into 64.
  const Sizes large = {64 * kMiB, 40 * kMiB, 30 * kMiB};
  const PoolCourse with(requests, {.requests = large}, {.requests = changes}, 4);
  EXPECT_EQ(Taken(with, large, 4), 134 * kMiB);
}

// In the small pool it may take segments: 20 of 512 KiB beside 1 MiB of free memory in a segment of
// 2 MiB, of which four fit, are four more segments; and of 1 MiB nine.
TEST(PoolCourseTest, KnowsWhatAListTakesInTheSmallPool) {
  PoolRequests requests{.small = true, .blocks = 21};
  requests.requests = {{.block = 0, .size = 0}, {.block = 0, .size = 0, .free = true}};
  requests.parts = {{.first = 0, .last = 2}};
  for (const bool free : {false, true}) {
    for (std::uint32_t i = 1; i < 21; ++i) {
      requests.requests.push_back({.block = i, .size = 1, .free = free});
    }
  }
  requests.parts.push_back({.first = 2, .last = 42, .kind = 1, .visit = true});
  const std::vector<std::uint8_t> changes = {0, 1};
  const Sizes sizes = {kMiB / 4, kMiB / 2};
  const PoolCourse course(requests, {.requests = sizes}, {.requests = changes}, 4);
  EXPECT_EQ(Taken(course, sizes, 4), 5 * 2 * kMiB);
  EXPECT_EQ(Taken(course, {kMiB / 4, kMiB}, 4), 10 * 2 * kMiB);
  EXPECT_EQ(Taken(course, {kMiB / 4, kMiB / 4}, 4), 3 * 2 * kMiB);
}

// A random round of requests, in parts, and what the allocator itself says of it.
struct Round {
  PoolRequests requests;
  Sizes stay;  // blocks of 10 to 14 MiB that are allocated first and never freed: segments each

  std::int64_t Replayed(const Sizes& sizes, int rounds) const {
    CachingAllocator allocator(1, {.capacity = GiB(1000)});
    for (const std::int64_t size : stay) allocator.Allocate(0, Bytes(size));
    const Bytes before = allocator.reserved();
    std::vector<CachingAllocator::Block> blocks(requests.blocks);
    for (int round = 0; round < rounds; ++round) {
      for (const Request& request : requests.requests) {
        if (request.free) {
          allocator.Free(blocks[request.block]);
        } else {
          blocks[request.block] = *allocator.Allocate(0, Bytes(sizes[request.size]));
        }
      }
    }
    return (allocator.reserved() - before).count();
  }

  // What the blocks that stay leave of their segments, and is large enough for a block.
  Sizes Ends() const {
    Sizes ends;
    for (const std::int64_t size : stay) {
      const std::int64_t rest = SegmentSize(size) - size;
      if (rest > kSmallSize) ends.push_back(rest);
    }
    return ends;
  }
};

Round AnyRound(bool small, std::size_t sizes) {
  Round round;
  PoolRequests& all = round.requests;
  all.small = small;
  all.blocks = *rc::gen::inRange<std::uint32_t>(1, 12);
  std::vector<std::uint32_t> size_of(all.blocks);
  for (auto& size : size_of) size = static_cast<std::uint32_t>(*rc::gen::inRange<int>(0, sizes));
  std::vector<bool> live(all.blocks);
  const int calls = *rc::gen::inRange(1, 60);
  for (int i = 0; i < calls; ++i) {
    const auto block = *rc::gen::inRange<std::uint32_t>(0, all.blocks);
    all.requests.push_back({.block = block, .size = size_of[block], .free = live[block]});
    live[block] = !live[block];
  }
  for (std::uint32_t block = 0; block < all.blocks; ++block) {
    if (live[block]) all.requests.push_back({.block = block, .size = size_of[block], .free = true});
  }
  // The same once more, in two parts, and one of these twice.
  const std::size_t length = all.requests.size();
  all.parts = {{.first = 0, .last = length, .kind = 0}};
  if (*rc::gen::arbitrary<bool>()) {
    const std::vector<Request> once = all.requests;
    all.requests.insert(all.requests.end(), once.begin(), once.end());
    all.requests.insert(all.requests.end(), once.rbegin(), once.rend());
    for (std::size_t i = 2 * length; i < 3 * length; ++i) {
      all.requests[i].free = !all.requests[i].free;
    }
    all.parts.push_back({.first = length, .last = 2 * length, .kind = 0});
    all.parts.push_back({.first = 2 * length, .last = 3 * length, .kind = 2});
  }
  // A list that comes and goes, and what follows it.
  if (*rc::gen::arbitrary<bool>()) {
    const std::size_t first = all.requests.size();
    const auto count = *rc::gen::inRange<std::uint32_t>(1, 30);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto size = static_cast<std::uint32_t>(*rc::gen::inRange<int>(0, sizes));
      all.requests.push_back({.block = all.blocks + i, .size = size});
    }
    for (std::uint32_t i = count; i-- > 0;) {
      const Request& request = all.requests[first + i];
      all.requests.push_back({.block = request.block, .size = request.size, .free = true});
    }
    all.blocks += count;
    all.parts.push_back(
        {.first = first, .last = all.requests.size(), .kind = all.parts.size(), .visit = true});
    if (*rc::gen::arbitrary<bool>()) {
      const std::vector<Request> once(all.requests.begin(),
                                      all.requests.begin() + static_cast<std::ptrdiff_t>(length));
      all.parts.push_back({.first = all.requests.size(), .last = all.requests.size() + length});
      all.requests.insert(all.requests.end(), once.begin(), once.end());
    }
  }
  if (!small) {
    round.stay = *rc::gen::container<Sizes>(
        rc::gen::map(rc::gen::inRange<std::int64_t>(10 * 2048, 14 * 2048),
                     [](std::int64_t blocks) { return blocks * kMinBlockSize; }));
  }
  return round;
}

Sizes AnySizes(bool small, std::size_t count) {
  Sizes sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t blocks =
        small ? *rc::gen::inRange<std::int64_t>(1, 2049)
              : *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(2049, 4096),
                                rc::gen::inRange<std::int64_t>(2049, 20 * 2048),
                                rc::gen::inRange<std::int64_t>(2049, 100 * 2048));
    sizes.push_back(blocks * kMinBlockSize);
  }
  return sizes;
}

// More sizes of free blocks than a word has bits.
TEST(PoolCourseTest, TellsManySizesApart) {
  constexpr std::uint32_t kBlocks = 200;
  PoolRequests requests{.blocks = kBlocks};
  Sizes sizes;
  std::vector<std::uint8_t> changes;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    // 10 to 410 MiB, in no order, a segment each; every third one is free again at once.
    sizes.push_back((10 + 2 * (i * 37 % kBlocks)) * kMiB);
    changes.push_back(i % 2 == 0 ? 1 : 0);
    requests.requests.push_back({.block = i, .size = i});
    if (i % 3 == 0) requests.requests.push_back({.block = i, .size = i, .free = true});
  }
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    if (i % 3 != 0) requests.requests.push_back({.block = i, .size = i, .free = true});
  }
  requests.parts = {{.first = 0, .last = requests.requests.size()}};
  const Round round = {.requests = requests, .stay = {}};
  const PoolCourse course(requests, {.requests = sizes}, {.requests = changes}, 3);
  EXPECT_EQ(Taken(course, sizes, 3), round.Replayed(sizes, 3));
}

// The allocator says the same: of the sizes that a course was made with, and of others, larger or
// smaller by a little, if the course says anything of them.
RC_GTEST_PROP(PoolCourseProperty, IsWhatTheAllocatorDoes, (bool small)) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  Round round = AnyRound(small, count);
  const Sizes sizes = AnySizes(small, count);
  std::vector<std::uint8_t> change;
  for (std::size_t i = 0; i < count; ++i) change.push_back(*rc::gen::inRange<std::uint8_t>(0, 2));
  const bool ends_change = *rc::gen::arbitrary<bool>();
  const int rounds = *rc::gen::inRange(1, 5);
  const PoolCourse course(round.requests, {.requests = sizes, .ends = round.Ends()},
                          {.requests = change, .ends = ends_change}, rounds);
  RC_ASSERT(Taken(course, sizes, rounds, round.Ends()) == round.Replayed(sizes, rounds));
  int said = 0;
  for (int other = 0; other < 20; ++other) {
    Sizes others = sizes;
    for (std::size_t i = 0; i < count; ++i) {
      if (change[i] == 0) continue;
      const int most = *rc::gen::elementOf(std::vector<int>{1, 20, 500});
      others[i] += kMinBlockSize * *rc::gen::inRange(-most, most + 1);
      others[i] = small ? std::clamp(others[i], kMinBlockSize, kSmallSize)
                        : std::max(others[i], kSmallSize + kMinBlockSize);
    }
    Round moved = round;
    if (ends_change) {
      for (std::int64_t& stay : moved.stay) {
        stay = std::max(10 * kMiB, stay + kMinBlockSize * *rc::gen::inRange(-100, 101));
      }
    }
    const int more = rounds + *rc::gen::inRange(0, 2);
    const auto taken = Taken(course, others, more, moved.Ends());
    if (!taken) continue;
    ++said;
    RC_ASSERT(*taken == moved.Replayed(others, more));
  }
  RC_TAG(said > 0 ? "held for other sizes" : "never held");
}

}  // namespace
}  // namespace stepcast::engine
