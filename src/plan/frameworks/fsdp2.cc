#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class Fsdp2Rules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    if (request_.pipeline.value_or(1) > 1) CheckPipeline(*request_.pipeline, ScheduleOf(request_));
    if (facts_.experts > 0) CheckExperts();
    if (request_.optimizer == Optimizer::kMuon) CheckMuon();
    const std::int64_t ranks = request_.context.value_or(1);
    if (facts_.predicts_further && ranks > 1) {
      Add("parallelism.context", "plan.axis-not-supported-with",
          fmt::format("torchtitan does not support multi-token prediction with context "
                      "parallelism: context is {}",
                      ranks),
          "write context: 1, or write framework: megatron, or use a model without multi-token "
          "prediction");
    }
  }

 private:
  // torch/distributed/pipelining/{schedules,stage}.py, torchtitan/distributed/pipeline_parallel.py.
  void CheckPipeline(std::int64_t stages, const RequestedSchedule& schedule) {
    const parallel::NamedSchedule* named = schedule.named;
    if (named != nullptr && named->splits_backward && !named->two_copies && named->name != "zb_v" &&
        named->name != "dualpipe_v") {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("torch.distributed.pipelining splits backward only in zb_v and dualpipe_v, "
                      "but schedule is {}",
                      schedule.name),
          "write schedule: zb_v or dualpipe_v, or write framework: reference");
    }
    if (schedule.name == "1f1b" && MicroBatches() && *MicroBatches() < stages) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format("PyTorch's 1f1b needs at least {} micro-batches, one per stage, but a step "
                      "has only {}",
                      stages, *MicroBatches()),
          "write a larger gradient_accumulation, or schedule: gpipe");
    }
    if (facts_.tied_embeddings) {
      Add("parallelism.pipeline", "plan.tied-across-stages",
          fmt::format("torchtitan does not sum the gradients of a tied embedding across the first "
                      "and last stage: pipeline is {}",
                      stages),
          "use a model without tied embeddings, or write framework: megatron");
    }
    if (!request_.accumulate_unsharded.value_or(true)) {
      Add("data_parallel.accumulate_unsharded", "plan.axis-not-of-framework",
          "torch.distributed.pipelining reduces gradients only after the last micro-batch, but "
          "accumulate_unsharded is false",
          "omit accumulate_unsharded");
    }
    if (request_.cpu_offload.value_or(false)) {
      Add("data_parallel.cpu_offload", "plan.axis-not-supported-with",
          "cpu_offload is not modelled in pipelines of fsdp2",
          "write cpu_offload: false, or parallelism.pipeline: 1");
    }
  }

  // dion/muon.py of microsoft/dion@0c205499: muon_update_batch_async, _create_muon_tasks.
  void CheckMuon() {
    constexpr const char* kCode = "plan.optimizer-not-of-framework";
    if (request_.tensor.value_or(1) > 1) {
      Add("parallelism.tensor", kCode,
          fmt::format("Dion's Muon needs matrices that are sharded along one dimension only, but "
                      "parallelism.tensor is {}",
                      *request_.tensor),
          "write tensor: 1, or optimizer: adamw");
    }
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!data) return;
    const std::int64_t ranks =
        request_.context.value_or(1) * request_.shard_group_size.value_or(*data);
    for (const std::int64_t rows : facts_.matrix_rows) {
      if (rows % ranks == 0) continue;
      Add("training.optimizer", kCode,
          fmt::format("Dion's Muon exchanges equal parts of each matrix, but the {} rows of a "
                      "matrix are not divisible by {} ranks",
                      rows, ranks),
          "set shard_group_size to a divisor of the number of rows of each matrix, or write "
          "optimizer: adamw");
      return;
    }
  }

  void CheckExperts() {
    const auto implementation = request_.expert_implementation;
    if (implementation == model::ExpertImplementation::kDeepSpeed ||
        implementation == model::ExpertImplementation::kAutoEp) {
      Add("experts.implementation", "plan.experts-not-supported-with",
          fmt::format("fsdp2 shards only the layers of torchtitan and transformers, but "
                      "implementation is {}",
                      model::Name(*implementation)),
          "write implementation: torchtitan, or framework: deepspeed");
    }
    if (implementation == model::ExpertImplementation::kTransformers &&
        request_.expert.value_or(1) > 1) {
      Add("parallelism.expert", "plan.experts-not-supported-with",
          fmt::format(
              "with implementation: transformers, every rank has all experts, but expert is {}",
              *request_.expert),
          "write expert: 1, or experts.implementation: torchtitan");
    }
    const auto refuse = [&](const char* key, std::string message, const char* hint) {
      Add(key, "plan.experts-not-supported-with", std::move(message), hint);
    };
    if (request_.tensor.value_or(1) > 1 && request_.expert.value_or(1) == 1) {
      Add("parallelism.expert", "plan.experts-not-supported-with",
          "without expert parallelism, torchtitan divides each expert among tensor-parallel ranks, "
          "which is not modelled: expert is 1",
          "write expert: 2 or more, or write tensor: 1");
    }
    if (request_.dispatcher && model::SendsTokensOnce(*request_.dispatcher)) {
      refuse("experts.dispatcher",
             fmt::format("torchtitan's dispatcher {} is not modelled",
                         model::Name(*request_.dispatcher)),
             "write dispatcher: all_to_all, or framework: megatron");
    }
    if (request_.dispatcher == model::Dispatcher::kAllGather) {
      refuse("experts.dispatcher",
             "torchtitan sends rows only by all-to-all, but dispatcher is all_gather",
             "write dispatcher: all_to_all");
    }
  }
};

class Fsdp2Framework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    Fsdp2Rules(request, facts, violations).Check();
  }

  // FSDP casts reduced gradients to the type of the sharded parameters.
  void SetGradientTypes(const Request& request, Training& training) const override {
    training.gradient_dtype = training.parameter_dtype;
    training.reduce_dtype = request.reduce_dtype.value_or(ComputeType(training.precision));
  }

  // Without resharding it is ZeRO stage 2: parameters stay whole during the step.
  // torchtitan/distributed/fsdp.py: in a pipeline, parameters stay gathered between micro-batches
  // by default, and torch.distributed.pipelining reduces gradients once a step (stage.py,
  // _post_backward).
  void SetDefaults(const Request& request, const Training&, std::int64_t,
                   DataParallel& data_parallel) const override {
    const bool pipeline = request.pipeline.value_or(1) > 1;
    data_parallel.reshard_after_forward = request.reshard_after_forward.value_or(
        ReshardAfterForward(data_parallel.zero_stage == 3 && !pipeline));
    data_parallel.accumulate_unsharded = data_parallel.accumulate_unsharded || pipeline;
  }
};

}  // namespace

const FrameworkPolicy& Fsdp2Policy() {
  static const Fsdp2Framework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
