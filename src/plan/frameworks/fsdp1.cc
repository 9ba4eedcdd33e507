#include <optional>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class Fsdp1Rules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    CheckReleases();
    if (request_.cpu_offload.value_or(false)) CheckOffload();
  }

 private:
  // torch/distributed/fsdp/fully_sharded_data_parallel.py of each release.
  void CheckReleases() {
    const auto check = [&](bool used, const char* setting, Version first) {
      if (!used || !IsOlderThan(first) || IsOlderThan({1, 12})) return;
      Add(fmt::format("data_parallel.{}", setting), "plan.version-without-setting",
          fmt::format("fsdp1's {} was introduced in torch {}.{} and does not exist in {}.{}",
                      setting, first.major, first.minor, request_.torch->major,
                      request_.torch->minor),
          fmt::format("write torch {}.{} or later, or omit {}", first.major, first.minor, setting));
    };
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    check(data && request_.shard_group_size && *request_.shard_group_size < *data,
          "shard_group_size", {2, 0});
    check(request_.forward_prefetch.value_or(false), "forward_prefetch", {1, 13});
    check(request_.limit_all_gathers.value_or(false), "limit_all_gathers", {1, 13});
    check(request_.use_orig_params.value_or(false), "use_orig_params", {2, 0});
  }

  void CheckOffload() {
    // torch/distributed/fsdp/fully_sharded_data_parallel.py, the docstring's list of limitations.
    if (request_.gradient_accumulation.value_or(1) > 1 &&
        !request_.accumulate_unsharded.value_or(false)) {
      Add("data_parallel.cpu_offload", "plan.cpu-offload",
          fmt::format("with cpu_offload, fsdp1 can reduce accumulated gradients only once per step "
                      "(no_sync): gradient_accumulation is {}",
                      *request_.gradient_accumulation),
          "write accumulate_unsharded: true, or gradient_accumulation: 1");
    }
  }
};

class Fsdp1Framework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    Fsdp1Rules(request, facts, violations).Check();
  }

  // FSDP casts reduced gradients to the type of the sharded parameters.
  void SetGradientTypes(const Request& request, Training& training) const override {
    training.gradient_dtype = training.parameter_dtype;
    training.reduce_dtype = request.reduce_dtype.value_or(
        RunsAutocast(request) ? training.parameter_dtype : ComputeType(training.precision));
  }

  // Without resharding it is ZeRO stage 2: parameters stay whole during the step. Defaults of
  // torch.distributed.fsdp.FullyShardedDataParallel: BACKWARD_PRE since 2.0 (pytorch/pytorch pull
  // request 88428), limit_all_gathers since 2.1 (104900).
  void SetDefaults(const Request& request, const Training&, std::int64_t,
                   DataParallel& data_parallel) const override {
    data_parallel.reshard_after_forward =
        request.reshard_after_forward.value_or(ReshardAfterForward(data_parallel.zero_stage == 3));
    const Version torch = request.torch.value_or(Software().torch);
    data_parallel.backward_prefetch = request.backward_prefetch.value_or(
        torch >= Version{2, 0} ? BackwardPrefetch::kPre : BackwardPrefetch::kNone);
    data_parallel.limit_all_gathers = request.limit_all_gathers.value_or(torch >= Version{2, 1});
  }
};

}  // namespace

const FrameworkPolicy& Fsdp1Policy() {
  static const Fsdp1Framework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
