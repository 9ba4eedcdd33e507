#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/engine/pool_course.h"

namespace stepcast::forecast {

// What is known of the courses that pools of the caching allocator take. Programs whose requests to
// a pool are the same, but for sizes, share it: those of many plans, for a pool sees little of a
// plan. Requests are compared in full.
class PoolCourses {
 public:
  class Pool {
   public:
    explicit Pool(engine::PoolRequests requests) : requests_(std::move(requests)) {}

    const engine::PoolRequests& requests() const { return requests_; }
    // The segments that the pool takes in so many rounds, in bytes.
    std::int64_t Taken(const engine::PoolSizes& sizes, const engine::PoolChanges& changes,
                       int rounds);

   private:
    engine::PoolRequests requests_;
    std::vector<engine::PoolCourse> courses_;
    std::size_t last_ = 0;    // the one that held last
    std::size_t oldest_ = 0;  // once there are as many as are kept
    engine::PoolCourse::Room room_;
  };

  std::shared_ptr<Pool> Of(engine::PoolRequests requests);

 private:
  // Beyond so many requests all is forgotten that no plan holds: 48 MiB, courses not counted.
  static constexpr std::size_t kMostRequests = std::size_t{4} << 20;

  std::unordered_multimap<std::uint64_t, std::shared_ptr<Pool>> pools_;  // by hash
  std::size_t requests_ = 0;
};

}  // namespace stepcast::forecast
