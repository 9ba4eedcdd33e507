#include <optional>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class NanotronRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    CheckTypes();
    if (request_.pipeline.value_or(1) > 1) CheckSchedule(ScheduleOf(request_));
  }

 private:
  // FP32GradientAccumulator (nanotron/optim/gradient_accumulator.py) refuses parameters in FP32,
  // and adds up and reduces in FP32. Without it (accumulate_grad_in_fp32: false) the optimizer's
  // states would have the parameters' 16 bits, which is not modelled.
  void CheckTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    if (SizeOf(computes) > 2) {
      Add("training.precision", "plan.dtype-not-of-framework",
          fmt::format(
              "nanotron's gradient accumulator needs 16-bit parameters, but precision is {}",
              Name(*request_.precision)),
          "write precision: bf16, or write framework: ddp or megatron");
      return;
    }
    const auto check = [&](const char* key, std::optional<DataType> given, DataType own,
                           const char* rule) {
      if (!given || *given == own) return;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("nanotron {} in {}, but {} is {}", rule, Name(own), key, Name(*given)),
          fmt::format("write {0}: {1}, or omit {0}", key, Name(own)));
    };
    check("parameter_dtype", request_.parameter_dtype, computes, "keeps parameters");
    check("gradient_dtype", request_.gradient_dtype, DataType::kFp32, "accumulates gradients");
    check("reduce_dtype", request_.reduce_dtype, DataType::kFp32, "reduces gradients");
  }

  void CheckSchedule(const RequestedSchedule& schedule) {
    if (schedule.name != "1f1b" && schedule.name != "gpipe") {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("nanotron runs only 1f1b and gpipe (afab), but schedule is {}",
                      schedule.name),
          "omit schedule and virtual_stages, or write framework: megatron or reference");
    } else if (schedule.name == "1f1b" && MicroBatches() &&
               *MicroBatches() < *request_.pipeline - 1) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format("nanotron's 1f1b needs at least {} micro-batches (the number of stages minus "
                      "1), but a step has only {}",
                      *request_.pipeline - 1, *MicroBatches()),
          "write a larger gradient_accumulation, or schedule: gpipe");
    }
  }
};

class NanotronFramework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    NanotronRules(request, facts, violations).Check();
  }

  void SetGradientTypes(const Request&, Training& training) const override {
    training.gradient_dtype = training.reduce_dtype = DataType::kFp32;
  }

  // nanotron/config/config.py: ddp_bucket_cap_mb = 25, which DDP is always given.
  void SetDefaults(const Request& request, const Training&, std::int64_t,
                   DataParallel& data_parallel) const override {
    if (data_parallel.zero_stage > 0) return;
    const Bytes* given = RequestedBucketSize(request);
    data_parallel.bucket_size = given != nullptr ? *given : kDefaultBucket;
    data_parallel.first_bucket_size = request.torch.value_or(Software().torch) >= Version{2, 0}
                                          ? *data_parallel.bucket_size
                                          : kDdpFirstBucket;
  }
};

}  // namespace

const FrameworkPolicy& NanotronPolicy() {
  static const NanotronFramework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
