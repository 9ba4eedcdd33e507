#include "src/forecast/pool_courses.h"

#include <utility>

namespace stepcast::forecast {
namespace {

constexpr std::size_t kMostCourses = 64;

std::uint64_t HashOf(const engine::PoolRequests& requests) {
  std::uint64_t hash = requests.parts.size();
  for (const engine::PoolRequests::Request& request : requests.requests) {
    const std::uint64_t word = std::uint64_t{request.block} << 32 | request.size << 1 |
                               static_cast<std::uint64_t>(request.free);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

// The rows of sweeps come in the same order for each plan: the course that was found after the last
// one is likely to hold next.
std::int64_t PoolCourses::Pool::Taken(const engine::PoolSizes& sizes,
                                      const engine::PoolChanges& changes, int rounds) {
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    const std::size_t at = (last_ + i) % courses_.size();
    const auto taken = courses_[at].Taken(sizes, rounds, room_);
    if (!taken) continue;
    last_ = at;
    return *taken;
  }
  engine::PoolCourse course(requests_, sizes, changes, rounds);
  const std::int64_t taken = *course.Taken(sizes, rounds, room_);
  if (courses_.size() < kMostCourses) {
    last_ = courses_.size();
    courses_.push_back(std::move(course));
  } else {
    last_ = oldest_;
    oldest_ = (oldest_ + 1) % kMostCourses;
    courses_[last_] = std::move(course);
  }
  return taken;
}

std::shared_ptr<PoolCourses::Pool> PoolCourses::Of(engine::PoolRequests requests) {
  const std::uint64_t hash = HashOf(requests);
  const auto [begin, end] = pools_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    if (known->second->requests() == requests) return known->second;
  }
  if (requests_ + requests.requests.size() > kMostRequests) {
    pools_.clear();
    requests_ = 0;
  }
  requests_ += requests.requests.size();
  auto pool = std::make_shared<Pool>(std::move(requests));
  pools_.emplace(hash, pool);
  return pool;
}

}  // namespace stepcast::forecast
