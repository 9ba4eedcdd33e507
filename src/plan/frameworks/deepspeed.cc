#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"
#include "src/plan/request.h"

namespace stepcast::plan {
namespace {

class DeepSpeedRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    if (request_.tensor.value_or(1) > 1) CheckTensor();
    if (request_.pipeline.value_or(1) > 1) CheckPipeline(ScheduleOf(request_));
    CheckTypes();
    if (facts_.experts > 0) CheckExperts();
    if (request_.deepspeed) CheckSettings(*request_.deepspeed);
  }

 private:
  void CheckTensor() {
    if (request_.zero_stage.value_or(0) >= 2) {
      Add("parallelism.tensor", "plan.axis-not-supported-with",
          fmt::format("tensor parallelism with deepspeed is modelled only at zero_stage 0 and 1, "
                      "but zero_stage is {}",
                      *request_.zero_stage),
          "write zero_stage: 1, or tensor: 1");
    }
    if (request_.sequence_parallel.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.axis-not-of-framework",
          "Megatron-DeepSpeed has no sequence parallelism over tensor-parallel ranks, but "
          "sequence_parallel is true",
          "write sequence_parallel: false, or framework: megatron");
    }
  }

  // deepspeed/runtime/pipe/engine.py and schedule.py.
  void CheckPipeline(const RequestedSchedule& schedule) {
    if (request_.zero_stage.value_or(0) >= 2) {
      Add("data_parallel.zero_stage", "plan.axis-not-of-framework",
          fmt::format(
              "DeepSpeed's pipelines do not support ZeRO-2 and ZeRO-3, but zero_stage is {}",
              *request_.zero_stage),
          "write zero_stage: 1 or 0, or write parallelism.pipeline: 1");
    }
    if (schedule.name != "1f1b" || request_.listed_schedule != nullptr) {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("DeepSpeed's pipelines run only 1f1b, but schedule is {}", schedule.name),
          "omit schedule and virtual_stages, or write framework: megatron or reference");
    }
    if (request_.overlap.value_or(false)) {
      Add("data_parallel.overlap", "plan.overlap",
          "DeepSpeed's pipelines reduce gradients only after the last backward, but overlap is "
          "true",
          "write overlap: false, or omit overlap");
    }
    if (request_.deepspeed && request_.deepspeed->offload_optimizer.value_or(
                                  OffloadDevice::kNone) != OffloadDevice::kNone) {
      Add("data_parallel.deepspeed.offload_optimizer", "plan.axis-not-supported-with",
          "offload_optimizer is not modelled with DeepSpeed's pipelines",
          "write offload_optimizer: none, or parallelism.pipeline: 1");
    }
  }

  // DeepSpeed computes in the type of the parameters. It accumulates in that or, at stages 1 and 3,
  // in FP32 (deepspeed/runtime/zero/stage_1_and_2.py: stage 2 adds up the gradients themselves).
  void CheckTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    const auto refuse = [&](const char* key, DataType type, std::string_view rule,
                            std::string_view allowed) {
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("{}, but {} is {}", rule, key, Name(type)),
          fmt::format("write {0}: {1}, or omit {0}", key, allowed));
    };
    if (request_.parameter_dtype && *request_.parameter_dtype != computes) {
      refuse("parameter_dtype", *request_.parameter_dtype,
             fmt::format("deepspeed keeps parameters in the data type of the computation, {}",
                         Name(computes)),
             Name(computes));
    }
    if (!request_.gradient_dtype || *request_.gradient_dtype == computes) return;
    if (request_.zero_stage == 0 || request_.zero_stage == 2) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             fmt::format(
                 "at stages 0 and 2, deepspeed accumulates gradients in the parameters' type, {}",
                 Name(computes)),
             Name(computes));
    } else if (*request_.gradient_dtype != DataType::kFp32) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             "deepspeed accumulates gradients in the parameters' type or in fp32", "fp32");
    }
  }

  void RefuseWithExperts(const char* key, std::string message, std::string hint) {
    Add(key, "plan.experts-not-supported-with", std::move(message), std::move(hint));
  }

  // Layers that share out experts: DeepSpeed's own and AutoEP's.
  void CheckExperts() {
    using model::ExpertImplementation;
    const ExpertImplementation implementation = ImplementationOf(request_);
    const bool slots = implementation == ExpertImplementation::kDeepSpeed;
    if (implementation == ExpertImplementation::kTorchtitan) {
      RefuseWithExperts(
          "experts.implementation",
          "only fsdp2 shards torchtitan's layers, but implementation is torchtitan",
          "write implementation: autoep, which uses torchtitan's layers, or framework: fsdp2");
      return;
    }
    if (!slots) CheckWithoutSlots();
    if (implementation == ExpertImplementation::kTransformers) {
      if (request_.expert.value_or(1) == 1) return;
      RefuseWithExperts(
          "parallelism.expert",
          fmt::format(
              "with implementation: transformers, every rank has all experts, but expert is {}",
              *request_.expert),
          "write expert: 1, or write experts.implementation: deepspeed or autoep");
      return;
    }
    if (slots) CheckSlots();
    CheckWithExpertGroups(model::Name(implementation));
  }

  // deepspeed/moe/sharded_moe.py, TopKGate and MOELayer; deepspeed/moe/experts.py.
  void CheckSlots() {
    if (facts_.expert_biases) {
      RefuseWithExperts("experts.implementation",
                        "the gate of DeepSpeed's MoE layer has no bias, but the model's gate has a "
                        "bias",
                        "write implementation: autoep");
    }
    if (request_.router_dtype.value_or(DataType::kFp32) != DataType::kFp32) {
      RefuseWithExperts("experts.router_dtype",
                        fmt::format("the gate of DeepSpeed's MoE layer computes in fp32, but "
                                    "router_dtype is {}",
                                    Name(*request_.router_dtype)),
                        "omit router_dtype");
    }
    const auto products = request_.expert_products.value_or(model::ExpertProducts::kLooped);
    if (products != model::ExpertProducts::kLooped) {
      RefuseWithExperts("experts.products",
                        fmt::format("DeepSpeed's MoE layer runs the experts one after "
                                    "another (looped), but products is {}",
                                    model::Name(products)),
                        "omit products, or write implementation: autoep");
    }
  }

  void CheckWithoutSlots() {
    for (const auto& [key, given] :
         {std::pair("capacity_factor", request_.capacity_factor.has_value()),
          std::pair("min_capacity", request_.min_capacity.has_value())}) {
      if (!given) continue;
      RefuseWithExperts("experts.implementation",
                        fmt::format("only DeepSpeed's MoE layer has an expert capacity, "
                                    "but {} is set for implementation {}",
                                    key, model::Name(ImplementationOf(request_))),
                        fmt::format("write implementation: deepspeed, or omit {}", key));
    }
    if (request_.expert_products == model::ExpertProducts::kStreams) {
      RefuseWithExperts(
          "experts.products",
          "only Transformer Engine runs experts on several streams, but products is streams",
          "write experts.products: grouped or looped");
    }
  }

  // deepspeed/runtime/engine.py, _configure_zero_optimizer; stage_1_and_2.py,
  // _configure_moe_settings.
  void CheckWithExpertGroups(const char* layer) {
    if (request_.zero_stage.value_or(0) == 3) {
      const bool own = ImplementationOf(request_) == model::ExpertImplementation::kDeepSpeed;
      RefuseWithExperts("data_parallel.zero_stage",
                        own ? "DeepSpeed's MoE layer does not support ZeRO-3 ('MoE not "
                              "supported with Stage 3'), but zero_stage is 3"
                            : "AutoEP with ZeRO-3 is not modelled, but zero_stage is 3",
                        "write zero_stage: 2 or 1, or write experts.implementation: transformers "
                        "with expert: 1");
    }
    if (request_.deepspeed && !request_.deepspeed->reduce_scatter.value_or(true)) {
      RefuseWithExperts(
          "data_parallel.deepspeed.reduce_scatter",
          "ZeRO-1 and ZeRO-2 with expert groups need reduce_scatter, but reduce_scatter is false",
          "omit reduce_scatter");
    }
    if (request_.pipeline.value_or(1) > 1) {
      RefuseWithExperts("parallelism.pipeline",
                        fmt::format("experts of implementation {} are not modelled in DeepSpeed's "
                                    "pipelines: pipeline is {}",
                                    layer, *request_.pipeline),
                        "write pipeline: 1, or framework: megatron");
    }
    if (request_.deepspeed && request_.deepspeed->offload_optimizer.value_or(
                                  OffloadDevice::kNone) != OffloadDevice::kNone) {
      RefuseWithExperts("data_parallel.deepspeed.offload_optimizer",
                        "offload_optimizer is not supported yet for the states of expert groups",
                        "write offload_optimizer: none, or experts.implementation: transformers "
                        "with expert: 1");
    }
  }

  void CheckSettings(const DeepSpeedRequest& deepspeed) {
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (const auto ranks = deepspeed.hpz_partition_size) {
      if (*ranks < 1 || (data && *data % *ranks != 0)) {
        Add("data_parallel.deepspeed.zero_hpz_partition_size", "plan.shard-group",
            fmt::format("zero_hpz_partition_size {} is not a divisor of data {}", *ranks,
                        data.value_or(1)),
            "set zero_hpz_partition_size to a divisor of parallelism.data, such as the number of "
            "GPUs of a node");
      }
    }
    if (deepspeed.quantized_gradients.value_or(false) && !deepspeed.reduce_scatter.value_or(true)) {
      Add("data_parallel.deepspeed.zero_quantized_gradients", "plan.quantized-gradients",
          "zero_quantized_gradients needs reduce_scatter, but reduce_scatter is false",
          "omit reduce_scatter, which is true by default");
    }
    for (const auto& setting : kDeepSpeedOffload) {
      const auto device = deepspeed.*setting.given;
      if (!device || *device == OffloadDevice::kNone) continue;
      const std::string key = fmt::format("data_parallel.deepspeed.{}", setting.key);
      if (request_.zero_stage && !setting.HasEffect(*request_.zero_stage)) {
        Add(key, "plan.offload-stage",
            fmt::format("{} is {}, but zero_stage {} does not support this offloading", setting.key,
                        Name(*device), *request_.zero_stage),
            fmt::format("write zero_stage: {}, or omit {}", 3, setting.key));
      } else if (*device == OffloadDevice::kNvme && request_.zero_stage.value_or(3) != 3) {
        Add(key, "plan.offload-stage",
            fmt::format("{} is {}, but only stage 3 can use NVMe: zero_stage is {}", setting.key,
                        Name(*device), *request_.zero_stage),
            fmt::format("write {}: cpu, or zero_stage: 3", setting.key));
      }
      if (facts_.host_memory && !*facts_.host_memory) {
        Add(key, "plan.no-host-memory",
            fmt::format("{} is {}, but the cluster's topology does not describe the memory of its "
                        "hosts",
                        setting.key, Name(*device)),
            "choose a topology that describes hosts, such as --cluster dgx-h100 instead of --gpus. "
            "In your own topology file, add node.host with memory and memory_bandwidth");
      } else if (*device == OffloadDevice::kNvme && facts_.nvme && !*facts_.nvme) {
        Add(key, "plan.no-nvme",
            fmt::format("{} is {}, but the cluster's topology does not describe NVMe drives",
                        setting.key, Name(*device)),
            fmt::format("add node.host.nvme with capacity, read and write to the topology, or "
                        "write {}: cpu",
                        setting.key));
      }
    }
  }
};

class DeepSpeedFramework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    DeepSpeedRules(request, facts, violations).Check();
  }

  // DeepSpeed overlaps by default only at stage 3 (deepspeed/runtime/zero/config.py).
  void SetDefaults(const Request& request, const Training&, std::int64_t,
                   DataParallel& data_parallel) const override {
    if (!request.overlap || data_parallel.zero_stage == 0) {
      data_parallel.overlap = data_parallel.zero_stage == 3;
    }
    data_parallel.deepspeed = Complete(request.deepspeed.value_or(DeepSpeedRequest()));
  }
};

}  // namespace

const FrameworkPolicy& DeepSpeedPolicy() {
  static const DeepSpeedFramework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
