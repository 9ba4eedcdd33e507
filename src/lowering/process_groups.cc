#include "src/lowering/process_groups.h"

namespace stepcast::lowering {
namespace {

std::vector<int> Ranks(std::int64_t first, std::int64_t count, std::int64_t stride) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ranks.push_back(static_cast<int>(first + i * stride));
  return ranks;
}

}  // namespace

std::vector<int> Neighbours(int rank, std::int64_t count) {
  return Ranks(rank / count * count, count, 1);
}

std::vector<int> Strided(int rank, std::int64_t stride, std::int64_t all) {
  return Ranks(rank % stride, all / stride, stride);
}

ProcessGroups ProcessGroupsOf(const plan::Plan& plan, int rank) {
  const std::int64_t data = plan.parallelism.data;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return {.rank = rank,
          .data = Ranks(0, data, 1),
          .shard = Neighbours(rank, shard),
          .replica = Ranks(rank % shard, data / shard, shard)};
}

}  // namespace stepcast::lowering
