// Buckets, shards and hooks of data parallelism.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class ShardingRules : public Rules {
 public:
  using Rules::Rules;

  void CheckBuckets() {
    if (!request_.bucket_size || std::holds_alternative<Bytes>(*request_.bucket_size)) return;
    if (!request_.framework || !request_.zero_stage) return;
    if (Is(Framework::kReference) && request_.zero_stage == 3) return;
    if (!Has(*request_.framework, "bucket_size")) return;  // already said
    Add("data_parallel.bucket_size", "plan.bucket",
        fmt::format("a bucket per unit belongs to stage 3 of reference, not to stage {} of {}",
                    *request_.zero_stage, plan::Name(*request_.framework)),
        "write a size such as 25 MiB");
  }

  void CheckShards() {
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.shard_group_size || !data || *data % *request_.shard_group_size == 0) return;
    Add("data_parallel.shard_group_size", "plan.shard-group",
        fmt::format("shard_group_size {} does not divide data {}", *request_.shard_group_size,
                    *data),
        "use a divisor of the data axis, such as the GPUs of a node");
  }

  void CheckReshard() {
    if (!request_.reshard_after_forward || !request_.framework) return;
    if (!Has(*request_.framework, "reshard_after_forward")) return;  // already said
    const bool* whether = std::get_if<bool>(&*request_.reshard_after_forward);
    const bool reshards =
        whether != nullptr ? *whether : std::get<std::int64_t>(*request_.reshard_after_forward) > 1;
    if (Is(Framework::kFsdp2) && request_.zero_stage == 2 && reshards) {
      const std::string value =
          whether != nullptr
              ? "true"
              : fmt::format("{}", std::get<std::int64_t>(*request_.reshard_after_forward));
      Add("data_parallel.reshard_after_forward", "plan.reshard",
          fmt::format("stage 2 of fsdp2 keeps parameters whole after forward, zero_stage is 2 and "
                      "reshard_after_forward is {}",
                      value),
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
    // Ranks that have parts of a sequence share the states as well.
    const std::int64_t context = request_.context.value_or(1);
    if (*shard * context % ranks != 0) {
      Add("data_parallel.reshard_after_forward", "plan.reshard",
          fmt::format("reshard_after_forward {} does not divide shard_group_size {}{}", ranks,
                      *shard, context == 1 ? "" : fmt::format(" times context {}", context)),
          "use a divisor, such as the GPUs of a node, or true or false");
      return;
    }
    // The parts are of neighbouring ranks, which with tensor parallelism have other layers' parts.
    if (request_.tensor.value_or(1) == 1 || ranks == *shard * context) return;
    Add("data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
        fmt::format("parts that are kept after forward are modelled among neighbouring ranks, "
                    "which share out layers here: tensor is {} and reshard_after_forward is {}",
                    *request_.tensor, ranks),
        "write reshard_after_forward: true or false, or parallelism.tensor: 1");
  }

  // A hook that casts makes nothing smaller than it is; PowerSGD multiplies matrices in their own
  // type and needs two steps before its first (torch's PowerSGDState refuses less).
  void CheckCommHook() {
    if (!Is(Framework::kDdp)) return;
    const CommHook hook = request_.comm_hook.value_or(CommHook::kNone);
    if (request_.powersgd && hook != CommHook::kPowerSgd) {
      Add("data_parallel.powersgd", "plan.comm-hook",
          fmt::format("powersgd is given, and comm_hook is {}", plan::Name(hook)),
          "write comm_hook: powerSGD, or remove powersgd");
    }
    std::optional<DataType> gradients = request_.parameter_dtype;
    if (!gradients && request_.precision) gradients = ComputeType(*request_.precision);
    const bool casts = hook == CommHook::kFp16Compress || hook == CommHook::kBf16Compress;
    if (casts && gradients && SizeOf(*gradients) <= 2) {
      Add("data_parallel.comm_hook", "plan.comm-hook",
          fmt::format("{} halves gradients in fp32, and ddp's are in parameter_dtype {}",
                      plan::Name(hook), Name(*gradients)),
          "write parameter_dtype: fp32, or comm_hook: none");
    }
    if (hook != CommHook::kPowerSgd) return;
    if (request_.powersgd && request_.powersgd->start_iteration.value_or(2) < 2) {
      Add("data_parallel.powersgd.start_powerSGD_iter", "plan.comm-hook",
          fmt::format(
              "PowerSGD begins after DDP has rebuilt its buckets, start_powerSGD_iter is {}",
              *request_.powersgd->start_iteration),
          "use at least 2");
    }
  }
};

}  // namespace

void CheckSharding(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  ShardingRules rules(request, facts, violations);
  rules.CheckBuckets();
  rules.CheckShards();
  rules.CheckReshard();
  rules.CheckCommHook();
}

}  // namespace stepcast::plan
