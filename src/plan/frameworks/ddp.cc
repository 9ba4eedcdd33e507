#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class DdpRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    CheckReducedTypes();
    CheckCommHook();
  }

 private:
  // DDP reduces gradients in the type in which they were computed. Types sent by its communication
  // hooks are not checked here.
  void CheckReducedTypes() {
    std::optional<DataType> parameters = request_.parameter_dtype;
    if (!parameters && request_.precision) parameters = ComputeType(*request_.precision);
    if (!parameters) return;
    const std::pair<const char*, std::optional<DataType>> types[] = {
        {"gradient_dtype", request_.gradient_dtype}, {"reduce_dtype", request_.reduce_dtype}};
    for (const auto& [key, type] : types) {
      if (!type || *type == *parameters) continue;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("ddp reduces gradients in the type of the parameters, {}, but {} is {}",
                      Name(*parameters), key, Name(*type)),
          fmt::format("write {0}: {1}, or omit {0}", key, Name(*parameters)));
    }
  }

  // A hook that casts to 16 bits needs gradients of more bits. PowerSGD multiplies matrices in
  // their own type, and must not start before the second step (torch's PowerSGDState).
  void CheckCommHook() {
    const CommHook hook = request_.comm_hook.value_or(CommHook::kNone);
    if (request_.powersgd && hook != CommHook::kPowerSgd) {
      Add("data_parallel.powersgd", "plan.comm-hook",
          fmt::format("powersgd needs comm_hook powerSGD, but comm_hook is {}", plan::Name(hook)),
          "write comm_hook: powerSGD, or remove powersgd");
    }
    std::optional<DataType> gradients = request_.parameter_dtype;
    if (!gradients && request_.precision) gradients = ComputeType(*request_.precision);
    const bool casts = hook == CommHook::kFp16Compress || hook == CommHook::kBf16Compress;
    if (casts && gradients && SizeOf(*gradients) <= 2) {
      Add("data_parallel.comm_hook", "plan.comm-hook",
          fmt::format("{} compresses fp32 gradients to 16 bits, but the gradients are not fp32: "
                      "parameter_dtype is {}",
                      plan::Name(hook), Name(*gradients)),
          "write parameter_dtype: fp32, or comm_hook: none");
    }
    if (hook != CommHook::kPowerSgd) return;
    if (request_.powersgd && request_.powersgd->start_iteration.value_or(2) < 2) {
      Add("data_parallel.powersgd.start_powerSGD_iter", "plan.comm-hook",
          fmt::format("PowerSGD can start only after DDP has rebuilt its buckets, but "
                      "start_powerSGD_iter is {}",
                      *request_.powersgd->start_iteration),
          "write start_powerSGD_iter: 2 or more");
    }
  }
};

class DdpFramework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    DdpRules(request, facts, violations).Check();
  }

  void SetDefaults(const Request& request, const Training&, std::int64_t,
                   DataParallel& data_parallel) const override {
    const Bytes* given = RequestedBucketSize(request);
    data_parallel.bucket_size = given != nullptr ? *given : kDefaultBucket;
    // torch/nn/parallel/distributed.py: since 2.0 a user's bucket_cap_mb also limits the first
    // bucket; before 2.0 the first bucket always had the small limit.
    const bool cap_holds_for_first =
        given != nullptr && request.torch.value_or(Software().torch) >= Version{2, 0};
    data_parallel.first_bucket_size = request.first_bucket_size.value_or(
        cap_holds_for_first ? *data_parallel.bucket_size : kDdpFirstBucket);
  }
};

}  // namespace

const FrameworkPolicy& DdpPolicy() {
  static const DdpFramework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
