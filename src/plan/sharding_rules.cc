// Rules about buckets, shards and hooks of data parallelism.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

class ShardingRules : public Rules {
 public:
  using Rules::Rules;

  void CheckBuckets() {
    if (!request_.bucket_size || std::holds_alternative<Bytes>(*request_.bucket_size)) return;
    if (!request_.framework || !request_.zero_stage) return;
    if (TraitsOf(*request_.framework).textbook && request_.zero_stage == 3) return;
    if (!Has(*request_.framework, "bucket_size")) return;  // already said
    Add("data_parallel.bucket_size", "plan.bucket",
        fmt::format("bucket_size: unit needs framework: reference with zero_stage: 3, but "
                    "zero_stage is {} and framework is {}",
                    *request_.zero_stage, plan::Name(*request_.framework)),
        "write a bucket_size such as 25 MiB");
  }

  void CheckShards() {
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.shard_group_size || !data || *data % *request_.shard_group_size == 0) return;
    Add("data_parallel.shard_group_size", "plan.shard-group",
        fmt::format("shard_group_size {} is not a divisor of data {}", *request_.shard_group_size,
                    *data),
        "set shard_group_size to a divisor of parallelism.data, such as the number of GPUs of a "
        "node");
  }

  void CheckReshard() {
    if (!request_.reshard_after_forward || !request_.framework) return;
    if (!Has(*request_.framework, "reshard_after_forward")) return;  // already said
    const bool* whether = std::get_if<bool>(&*request_.reshard_after_forward);
    const bool reshards =
        whether != nullptr ? *whether : std::get<std::int64_t>(*request_.reshard_after_forward) > 1;
    if (IsFsdp(*request_.framework) && request_.zero_stage == 2 && reshards) {
      const std::string value =
          whether != nullptr
              ? "true"
              : fmt::format("{}", std::get<std::int64_t>(*request_.reshard_after_forward));
      Add("data_parallel.reshard_after_forward", "plan.reshard",
          fmt::format("at zero_stage 2, {} keeps complete parameters after forward, but "
                      "reshard_after_forward is {}",
                      plan::Name(*request_.framework), value),
          "write zero_stage: 3, or reshard_after_forward: false");
      return;
    }
    if (whether != nullptr) return;
    const std::int64_t ranks = std::get<std::int64_t>(*request_.reshard_after_forward);
    if (ranks == 1) return;  // nothing is shared: false
    const std::optional<std::int64_t> shard = request_.shard_group_size
                                                  ? request_.shard_group_size
                                                  : DataDegree(request_, facts_.devices);
    if (!shard) return;
    // Ranks with parts of a sequence also share the states.
    const std::int64_t context = request_.context.value_or(1);
    if (*shard * context % ranks != 0) {
      Add("data_parallel.reshard_after_forward", "plan.reshard",
          fmt::format("reshard_after_forward {} is not a divisor of shard_group_size {}{}", ranks,
                      *shard, context == 1 ? "" : fmt::format(" times context {}", context)),
          "write reshard_after_forward: true or false, or a divisor such as the number of GPUs of "
          "a node");
      return;
    }
    // The parts belong to neighbouring ranks, which with tensor parallelism have parts of different
    // layers.
    if (request_.tensor.value_or(1) == 1 || ranks == *shard * context) return;
    Add("data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
        fmt::format("with tensor parallelism, reshard_after_forward must be true or false, not a "
                    "number: tensor is {} and reshard_after_forward is {}",
                    *request_.tensor, ranks),
        "write reshard_after_forward: true or false, or write parallelism.tensor: 1");
  }
};

}  // namespace

void CheckSharding(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  ShardingRules rules(request, facts, violations);
  rules.CheckBuckets();
  rules.CheckShards();
  rules.CheckReshard();
}

}  // namespace stepcast::plan
