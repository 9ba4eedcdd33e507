#include "src/lowering/process_groups.h"

namespace stepcast::lowering {

std::vector<int> Ranks(std::int64_t count, std::int64_t stride) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ranks.push_back(static_cast<int>(i * stride));
  return ranks;
}

ProcessGroups ProcessGroupsOf(const plan::Plan& plan) {
  const std::int64_t data = plan.parallelism.data;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return {.data = Ranks(data), .shard = Ranks(shard), .replica = Ranks(data / shard, shard)};
}

}  // namespace stepcast::lowering
