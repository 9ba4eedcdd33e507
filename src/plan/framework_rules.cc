// What each framework can do: its stages, its types, settings of its own.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class FrameworkRules : public Rules {
 public:
  using Rules::Rules;

  void CheckFramework() {
    if (!request_.framework) return;
    const char* name = plan::Name(*request_.framework);
    CheckStage(name);
    switch (*request_.framework) {
      case Framework::kDdp:
        CheckReducedTypes(name);
        return;
      case Framework::kMegatron:
        CheckMegatron();
        return;
      case Framework::kDeepSpeed:
        CheckDeepSpeedTypes();
        CheckDeepSpeedSettings();
        return;
      case Framework::kNanotron:
        CheckNanotronTypes();
        return;
      case Framework::kReference:
      case Framework::kFsdp1:
      case Framework::kFsdp2:
        return;
    }
  }

 private:
  void CheckStage(const char* name) {
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    const int stage = request_.zero_stage.value_or(traits.first_stage);
    if (stage >= traits.first_stage && stage <= traits.last_stage) return;
    Add("data_parallel.zero_stage", "plan.stage-not-of-framework",
        fmt::format("{} {}, not zero_stage {}", name, traits.stages, stage),
        fmt::format("write {}", traits.other_stage));
  }

  void CheckMegatron() {
    CheckMegatronTypes();
    if (request_.overlap_param_gather_with_optimizer_step.value_or(false)) CheckGatherInUpdate();
    if (request_.pipeline.value_or(1) > 1) CheckMegatronMessages(*request_.pipeline);
    if (request_.overlap_param_gather.value_or(false) && !request_.overlap.value_or(true)) {
      Add("data_parallel.overlap_param_gather", "plan.overlap",
          "megatron gathers parameters in the next forward only where gradients are reduced "
          "during backward, overlap is false and overlap_param_gather is true",
          "write overlap: true, or overlap_param_gather: false");
    }
  }

  // megatron/core/pipeline_parallel/schedules.py, and the versions of p2p_communication.py. Two
  // neighbours that are one rank would take activations for gradients in a batch.
  void CheckMegatronMessages(std::int64_t stages) {
    const bool interleaves = ScheduleOf(request_).virtual_stages > 1;
    const bool overlaps = request_.overlap_p2p_comm.value_or(interleaves);
    const auto refuse = [&](const char* key, const char* rule, const char* hint) {
      Add(fmt::format("data_parallel.{}", key), "plan.overlap", rule, hint);
    };
    if (overlaps && !interleaves) {
      refuse("overlap_p2p_comm",
             "megatron overlaps messages with virtual stages alone, overlap_p2p_comm is true and "
             "virtual_stages is 1",
             "write parallelism.virtual_stages: 2 or more, or leave it out");
    }
    if (!overlaps && interleaves && stages == 2) {
      refuse(
          "overlap_p2p_comm",
          "megatron interleaves two stages with overlapping messages alone, and overlap_p2p_comm "
          "is false",
          "write parallelism.pipeline: 3 or more, or overlap_p2p_comm: true");
    }
    if (overlaps && request_.scatter_gather_tensors_in_pipeline.value_or(false)) {
      refuse("scatter_gather_tensors_in_pipeline",
             "versions of megatron that overlap messages send them whole, and "
             "scatter_gather_tensors_in_pipeline is true",
             "write overlap_p2p_comm: false, or scatter_gather_tensors_in_pipeline: false");
    }
  }

  // megatron/training/arguments.py.
  void CheckGatherInUpdate() {
    const auto refuse = [&](const char* rule, const char* hint) {
      Add("data_parallel.overlap_param_gather_with_optimizer_step", "plan.overlap",
          fmt::format("{}, and overlap_param_gather_with_optimizer_step is true", rule), hint);
    };
    if (ScheduleOf(request_).virtual_stages == 1) {
      refuse("the first virtual stage is updated before the others, virtual_stages is 1",
             "write virtual_stages: 2 or more, or leave it out");
    }
    if (!request_.overlap_param_gather.value_or(request_.overlap.value_or(true))) {
      refuse("overlap_param_gather is false", "write overlap_param_gather: true, or leave it out");
    }
    if (request_.optimizer_cpu_offload.value_or(false)) {
      refuse("the host updates all parameters, optimizer_cpu_offload is true",
             "write optimizer_cpu_offload: false, or leave it out");
    }
  }

  // Parameters in the type of the computation, no autocast; main gradients are reduced as they are.
  void CheckMegatronTypes() {
    if (!request_.precision) return;
    const DataType kept = ComputeType(*request_.precision);
    if (request_.parameter_dtype && *request_.parameter_dtype != kept) {
      Add("training.parameter_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron keeps parameters in the type that it computes in, {}, and "
                      "parameter_dtype is {}",
                      Name(kept), Name(*request_.parameter_dtype)),
          fmt::format("write parameter_dtype: {}, or leave it out", Name(kept)));
    }
    if (request_.gradient_dtype && *request_.gradient_dtype != kept &&
        *request_.gradient_dtype != DataType::kFp32) {
      Add("training.gradient_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron's main gradients are fp32 or of the parameters' type, {}, and "
                      "gradient_dtype is {}",
                      Name(kept), Name(*request_.gradient_dtype)),
          fmt::format("write gradient_dtype: fp32 or {}", Name(kept)));
    }
    const DataType gradient =
        request_.gradient_dtype.value_or(kept == DataType::kBf16 ? DataType::kFp32 : kept);
    if (request_.reduce_dtype && *request_.reduce_dtype != gradient) {
      Add("training.reduce_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron reduces its main gradients as they are, gradient_dtype is {} and "
                      "reduce_dtype is {}",
                      Name(gradient), Name(*request_.reduce_dtype)),
          fmt::format("write reduce_dtype: {}, or leave it out", Name(gradient)));
    }
  }

  // FP32GradientAccumulator (nanotron/optim/gradient_accumulator.py) refuses parameters in FP32,
  // and adds up and reduces in FP32. Without it (accumulate_grad_in_fp32: false) the optimizer's
  // states would have the parameters' 16 bits, which is not modelled.
  void CheckNanotronTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    if (SizeOf(computes) > 2) {
      Add("training.precision", "plan.dtype-not-of-framework",
          fmt::format("nanotron's gradient accumulator takes parameters of 16 bits, and precision "
                      "is {}",
                      Name(*request_.precision)),
          "write precision: bf16, or framework: ddp or megatron");
      return;
    }
    const auto check = [&](const char* key, std::optional<DataType> given, DataType own,
                           const char* rule) {
      if (!given || *given == own) return;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("nanotron {} in {}, and {} is {}", rule, Name(own), key, Name(*given)),
          fmt::format("write {}: {}, or leave it out", key, Name(own)));
    };
    check("parameter_dtype", request_.parameter_dtype, computes, "keeps parameters");
    check("gradient_dtype", request_.gradient_dtype, DataType::kFp32, "adds gradients up");
    check("reduce_dtype", request_.reduce_dtype, DataType::kFp32, "reduces gradients");
  }

  // These frameworks reduce what they computed; what DDP's communication hooks send is their
  // affair.
  void CheckReducedTypes(std::string_view name) {
    std::optional<DataType> parameters = request_.parameter_dtype;
    if (!parameters && request_.precision) parameters = ComputeType(*request_.precision);
    if (!parameters) return;
    const std::pair<const char*, std::optional<DataType>> types[] = {
        {"gradient_dtype", request_.gradient_dtype}, {"reduce_dtype", request_.reduce_dtype}};
    for (const auto& [key, type] : types) {
      if (!type || *type == *parameters) continue;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("{} reduces gradients in the parameters' type, parameter_dtype is {} and {} "
                      "is {}",
                      name, Name(*parameters), key, Name(*type)),
          fmt::format("write {}: {}, or leave it out", key, Name(*parameters)));
    }
  }

  void CheckDeepSpeedSettings() {
    if (!request_.deepspeed) return;
    const DeepSpeedRequest& deepspeed = *request_.deepspeed;
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (const auto ranks = deepspeed.hpz_partition_size) {
      if (*ranks < 1 || (data && *data % *ranks != 0)) {
        Add("data_parallel.deepspeed.zero_hpz_partition_size", "plan.shard-group",
            fmt::format("zero_hpz_partition_size {} does not divide data {}", *ranks,
                        data.value_or(1)),
            "use a divisor of the data axis, such as the GPUs of a node");
      }
    }
    if (deepspeed.quantized_gradients.value_or(false) && !deepspeed.reduce_scatter.value_or(true)) {
      Add("data_parallel.deepspeed.zero_quantized_gradients", "plan.quantized-gradients",
          "zero_quantized_gradients is true and reduce_scatter is false",
          "leave reduce_scatter out: quantised gradients are exchanged instead of all-reduced");
    }
    for (const auto& setting : kDeepSpeedOffload) {
      const auto device = deepspeed.*setting.given;
      if (!device || *device == OffloadDevice::kNone) continue;
      const std::string key = fmt::format("data_parallel.deepspeed.{}", setting.key);
      const std::string what = fmt::format("{} is {}", setting.key, Name(*device));
      if (request_.zero_stage && !setting.HasEffect(*request_.zero_stage)) {
        Add(key, "plan.offload-stage",
            fmt::format("{}, and zero_stage is {}", what, *request_.zero_stage),
            fmt::format("write zero_stage: {}, or leave {} out", 3, setting.key));
      } else if (*device == OffloadDevice::kNvme && request_.zero_stage.value_or(3) != 3) {
        Add(key, "plan.offload-stage",
            fmt::format("{}, and zero_stage is {}", what, *request_.zero_stage),
            "only stage 3 has a way to NVMe; write cpu");
      }
      if (facts_.host_memory && !*facts_.host_memory) {
        Add(key, "plan.no-host-memory",
            fmt::format("{}, and the cluster's topology does not say what memory its hosts have",
                        what),
            "add node.host with memory and memory_bandwidth to the topology");
      } else if (*device == OffloadDevice::kNvme && facts_.nvme && !*facts_.nvme) {
        Add(key, "plan.no-nvme",
            fmt::format("{}, and the cluster's topology does not describe NVMe drives", what),
            "add node.host.nvme with capacity, read and write to the topology, or write cpu");
      }
    }
  }

  // DeepSpeed computes in the type that it keeps, and accumulates in that or, at stages 1 and 3, in
  // FP32 (deepspeed/runtime/zero/stage_1_and_2.py: what stage 2 adds up are the gradients
  // themselves).
  void CheckDeepSpeedTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    const auto refuse = [&](const char* key, DataType type, std::string_view rule,
                            std::string_view allowed) {
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("deepspeed {}, {} is {}", rule, key, Name(type)),
          fmt::format("write {}: {}, or leave it out", key, allowed));
    };
    if (request_.parameter_dtype && *request_.parameter_dtype != computes) {
      refuse("parameter_dtype", *request_.parameter_dtype,
             fmt::format("keeps parameters in the type that it computes in, {}", Name(computes)),
             Name(computes));
    }
    if (!request_.gradient_dtype || *request_.gradient_dtype == computes) return;
    if (request_.zero_stage == 0 || request_.zero_stage == 2) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             fmt::format("adds gradients up in the parameters' type at stages 0 and 2, {}",
                         Name(computes)),
             Name(computes));
    } else if (*request_.gradient_dtype != DataType::kFp32) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             "adds gradients up in the parameters' type or in fp32", "fp32");
    }
  }
};

}  // namespace

void CheckFramework(const Request& request, const Facts& facts,
                    std::vector<Violation>& violations) {
  FrameworkRules(request, facts, violations).CheckFramework();
}

}  // namespace stepcast::plan
