#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class ReferenceRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    if (request_.pipeline.value_or(1) > 1 && request_.zero_stage.value_or(0) >= 2) {
      CheckPipeline(ScheduleOf(request_));
    }
  }

 private:
  // The gathers of stage 3 follow the order of a stage's layers, so they need one chunk.
  void CheckPipeline(const RequestedSchedule& schedule) {
    if (schedule.virtual_stages > 1 && *request_.zero_stage == 3) {
      Add("parallelism.virtual_stages", "plan.axis-not-supported-with",
          "virtual stages are supported only at zero_stage 0 to 2, but zero_stage is 3",
          "write virtual_stages: 1, or zero_stage: 2");
    } else if (schedule.splits_backward) {
      Add("parallelism.schedule", "plan.axis-not-supported-with",
          fmt::format("schedules that split backward are supported only at zero_stage 0 and 1, but "
                      "zero_stage is {}",
                      *request_.zero_stage),
          "write schedule: 1f1b, or zero_stage: 1");
    }
    if (facts_.tied_embeddings) {
      Add("data_parallel.zero_stage", "plan.tied-across-stages",
          fmt::format("the first and the last stage must sum complete gradients of the tied "
                      "embedding, but zero_stage {} shards these gradients",
                      *request_.zero_stage),
          "write zero_stage: 0 or 1, or use a model without tied embeddings");
    }
  }
};

// Whether `reference` reduces in every micro-batch: it then keeps no full gradients from one
// micro-batch to the next. With a single bucket, all of them would exist besides the earlier
// shards.
bool ReducesEachMicroBatch(const Training& training, const DataParallel& data_parallel) {
  const bool once =
      data_parallel.zero_stage < 2 ? data_parallel.no_sync : data_parallel.accumulate_unsharded;
  return data_parallel.zero_stage <= 2 && training.gradient_accumulation > 1 && !once;
}

class ReferenceFramework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    ReferenceRules(request, facts, violations).Check();
  }

  void SetDefaults(const Request& request, const Training& training, std::int64_t,
                   DataParallel& data_parallel) const override {
    if (const Bytes* given = RequestedBucketSize(request)) {
      data_parallel.bucket_size = *given;
    } else if (data_parallel.zero_stage <= 2 &&
               (data_parallel.overlap || ReducesEachMicroBatch(training, data_parallel))) {
      data_parallel.bucket_size = kDefaultBucket;
    }
    data_parallel.first_bucket_size =
        request.first_bucket_size ? request.first_bucket_size : data_parallel.bucket_size;
  }
};

}  // namespace

const FrameworkPolicy& ReferencePolicy() {
  static const ReferenceFramework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
