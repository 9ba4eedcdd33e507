#include <algorithm>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/frameworks/frameworks.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

// megatron/core/distributed/distributed_data_parallel.py: elements of a bucket, for `ranks` ranks
// that reduce together.
std::int64_t BucketElements(std::int64_t ranks) {
  return std::max<std::int64_t>(40'000'000, 1'000'000 * ranks);
}

class MegatronRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    CheckTypes();
    if (request_.overlap_param_gather_with_optimizer_step.value_or(false)) CheckGatherInUpdate();
    if (request_.pipeline.value_or(1) > 1) CheckPipeline(*request_.pipeline, ScheduleOf(request_));
    CheckConnections();
    CheckAttention();
    if (request_.optimizer == Optimizer::kMuon) CheckMuon();
    if (request_.dispatch_dtype == DataType::kFp8) CheckDispatch();
    if (request_.overlap_param_gather.value_or(false) && !request_.overlap.value_or(true)) {
      Add("data_parallel.overlap_param_gather", "plan.overlap",
          "overlap_param_gather needs gradients that are reduced during backward, but overlap is "
          "false",
          "write overlap: true, or overlap_param_gather: false");
    }
  }

 private:
  // megatron/core/optimizer/muon.py, get_megatron_muon_optimizer.
  void CheckMuon() {
    constexpr const char* kCode = "plan.optimizer-not-of-framework";
    if (request_.zero_stage.value_or(0) != 0) {
      Add("data_parallel.zero_stage", kCode,
          fmt::format("Megatron-LM's muon does not support the distributed optimizer (dist_muon, "
                      "which distributes complete matrices, is not modelled): zero_stage is {}",
                      *request_.zero_stage),
          "write zero_stage: 0, or optimizer: adamw");
    }
    if (request_.precision == DataType::kFp16) {
      Add("training.precision", kCode,
          "Megatron-LM's muon does not support fp16, but precision is fp16",
          "write precision: bf16, or optimizer: adamw");
    }
  }

  // deep_ep/buffers/legacy.py: dispatch takes a pair of values and scales.
  void CheckDispatch() {
    constexpr const char* kKey = "experts.dispatch_dtype";
    constexpr const char* kCode = "plan.experts-not-supported-with";
    if (request_.dispatcher != model::Dispatcher::kDeepEp) {
      Add(kKey, kCode, "only DeepEP sends rows in 8 bits, but dispatch_dtype is fp8",
          "write dispatcher: deepep, or dispatch_dtype: bf16");
    }
    if (request_.precision && *request_.precision != DataType::kFp8) {
      Add(kKey, kCode,
          fmt::format("dispatch_dtype fp8 needs 8-bit matrix multiplications, but precision is {}",
                      Name(*request_.precision)),
          "write training.precision: fp8, or dispatch_dtype: bf16");
    }
  }

  // megatron/core/pipeline_parallel/schedules.py, and the versions of p2p_communication.py. If both
  // neighbours are the same rank, a batch of messages could confuse activations with gradients.
  void CheckPipeline(std::int64_t stages, const RequestedSchedule& schedule) {
    const bool interleaves = schedule.virtual_stages > 1;
    const bool standard = schedule.name == (interleaves ? kInterleaved : "1f1b");
    if (!standard || request_.listed_schedule != nullptr) {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          interleaves
              ? fmt::format("with virtual stages, megatron supports only {}, but schedule is {}",
                            kInterleaved, schedule.name)
              : fmt::format(
                    "without virtual stages, megatron supports only 1f1b, but schedule is {}",
                    schedule.name),
          "omit schedule, or write framework: reference");
    }
    const bool overlaps = request_.overlap_p2p_comm.value_or(interleaves);
    const auto refuse = [&](const char* key, const char* rule, const char* hint) {
      Add(fmt::format("data_parallel.{}", key), "plan.overlap", rule, hint);
    };
    if (overlaps && !interleaves) {
      refuse("overlap_p2p_comm",
             "megatron overlaps messages only with virtual stages, but virtual_stages is 1",
             "write parallelism.virtual_stages: 2 or more, or omit overlap_p2p_comm");
    }
    if (!overlaps && interleaves && stages == 2) {
      refuse("overlap_p2p_comm",
             "with two pipeline stages and virtual stages, megatron must overlap messages, but "
             "overlap_p2p_comm is false",
             "write parallelism.pipeline: 3 or more, or write overlap_p2p_comm: true");
    }
    if (overlaps && request_.scatter_gather_tensors_in_pipeline.value_or(false)) {
      refuse("scatter_gather_tensors_in_pipeline",
             "versions of megatron that overlap messages send complete tensors, but "
             "scatter_gather_tensors_in_pipeline is true",
             "write overlap_p2p_comm: false, or scatter_gather_tensors_in_pipeline: false");
    }
  }

  // megatron/training/arguments.py.
  void CheckGatherInUpdate() {
    const auto refuse = [&](const char* rule, const char* hint) {
      Add("data_parallel.overlap_param_gather_with_optimizer_step", "plan.overlap", rule, hint);
    };
    if (ScheduleOf(request_).virtual_stages == 1) {
      refuse(
          "overlap_param_gather_with_optimizer_step updates the first virtual stage before the "
          "other stages, but virtual_stages is 1",
          "write virtual_stages: 2 or more, or omit overlap_param_gather_with_optimizer_step");
    }
    if (!request_.overlap_param_gather.value_or(request_.overlap.value_or(true))) {
      refuse(
          "overlap_param_gather_with_optimizer_step needs overlap_param_gather, but "
          "overlap_param_gather is false",
          "write overlap_param_gather: true, or omit overlap_param_gather_with_optimizer_step");
    }
    if (request_.optimizer_cpu_offload.value_or(false)) {
      refuse(
          "overlap_param_gather_with_optimizer_step is impossible if the host updates all "
          "parameters: optimizer_cpu_offload is true",
          "write optimizer_cpu_offload: false, or omit "
          "overlap_param_gather_with_optimizer_step");
    }
  }

  // Parameters have the type of the computation, without autocast. Main gradients are reduced in
  // their own type.
  void CheckTypes() {
    if (!request_.precision) return;
    const DataType kept = ComputeType(*request_.precision);
    if (request_.parameter_dtype && *request_.parameter_dtype != kept) {
      Add("training.parameter_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron keeps parameters in the computation's data type, {}, but "
                      "parameter_dtype is {}",
                      Name(kept), Name(*request_.parameter_dtype)),
          fmt::format("write parameter_dtype: {}, or omit parameter_dtype", Name(kept)));
    }
    if (request_.gradient_dtype && *request_.gradient_dtype != kept &&
        *request_.gradient_dtype != DataType::kFp32) {
      Add("training.gradient_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron keeps main gradients in fp32 or in the parameters' type, {}, but "
                      "gradient_dtype is {}",
                      Name(kept), Name(*request_.gradient_dtype)),
          fmt::format("write gradient_dtype: fp32 or {}", Name(kept)));
    }
    const DataType gradient =
        request_.gradient_dtype.value_or(kept == DataType::kBf16 ? DataType::kFp32 : kept);
    if (request_.reduce_dtype && *request_.reduce_dtype != gradient) {
      Add("training.reduce_dtype", "plan.dtype-not-of-framework",
          fmt::format(
              "megatron reduces main gradients without a change of type, in {}, but reduce_dtype "
              "is {}",
              Name(gradient), Name(*request_.reduce_dtype)),
          fmt::format("write reduce_dtype: {}, or omit reduce_dtype", Name(gradient)));
    }
  }

  // transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_attention_backend:
  // FlashAttention is not available for a softmax with sinks.
  void CheckAttention() {
    if (!request_.attention) return;
    const model::Attention attention = *request_.attention;
    const bool flash =
        model::FlashGeneration(attention) > 0 && attention != model::Attention::kCudnn;
    if (attention != model::Attention::kFlex && !(flash && facts_.attention_sinks)) return;
    Add("training.attention", "plan.attention",
        attention == model::Attention::kFlex
            ? std::string("megatron does not run FlexAttention, but attention is flex")
            : fmt::format("Transformer Engine has no FlashAttention for the model's attention "
                          "sinks, but attention is {}",
                          model::Name(attention)),
        facts_.attention_sinks ? "write attention: cudnn or math, or omit attention"
                               : "write attention: flash or cudnn, or omit attention");
  }

  // megatron/training/arguments.py, validate_args: the setting can be chosen where passes take
  // turns.
  void CheckConnections() {
    constexpr int kBlackwell = 100;
    if (request_.overlap_communication.value_or(false)) return;
    if (request_.cuda_device_max_connections.value_or(1) != 1 && facts_.compute_capability > 0 &&
        facts_.compute_capability < kBlackwell &&
        request_.tensor.value_or(1) * request_.context.value_or(1) > 1) {
      Add("software.cuda_device_max_connections", "plan.connections",
          fmt::format("on GPUs before Blackwell, megatron's sequence parallelism needs "
                      "cuda_device_max_connections: 1, not {}",
                      *request_.cuda_device_max_connections),
          "omit cuda_device_max_connections");
    }
  }
};

class MegatronFramework : public FrameworkPolicy {
 public:
  void Check(const Request& request, const Facts& facts,
             std::vector<Violation>& violations) const override {
    MegatronRules(request, facts, violations).Check();
  }

  // megatron/training/arguments.py: --bf16 turns accumulate_allreduce_grads_in_fp32 on.
  void SetGradientTypes(const Request& request, Training& training) const override {
    training.gradient_dtype = request.gradient_dtype.value_or(
        training.parameter_dtype == DataType::kBf16 ? DataType::kFp32 : training.parameter_dtype);
    training.reduce_dtype = training.gradient_dtype;
  }

  void SetDefaults(const Request& request, const Training& training, std::int64_t data,
                   DataParallel& data_parallel) const override {
    if (data_parallel.overlap) {
      const Bytes* given = RequestedBucketSize(request);
      data_parallel.bucket_size = given != nullptr
                                      ? *given
                                      : BytesOf(BucketElements(data * request.context.value_or(1)),
                                                training.gradient_dtype);
    }
    const bool pipeline = request.pipeline.value_or(1) > 1;
    const bool interleaves = ScheduleOf(request).virtual_stages > 1;
    data_parallel.overlap_param_gather =
        data_parallel.zero_stage == 1 &&
        request.overlap_param_gather.value_or(data_parallel.overlap);
    const bool gathers = data_parallel.overlap_param_gather && interleaves;
    data_parallel.align_param_gather = gathers && request.align_param_gather.value_or(true);
    data_parallel.overlap_param_gather_with_optimizer_step =
        gathers && request.overlap_param_gather_with_optimizer_step.value_or(false);
    data_parallel.overlap_p2p_comm = pipeline && request.overlap_p2p_comm.value_or(interleaves);
    data_parallel.scatter_gather_tensors_in_pipeline =
        request.scatter_gather_tensors_in_pipeline.value_or(false) && pipeline &&
        request.tensor.value_or(1) > 1 && !request.sequence_parallel.value_or(false);
    data_parallel.copy_main_gradients =
        request.copy_main_gradients.value_or(!IsPrecisionAware(training));
  }
};

}  // namespace

const FrameworkPolicy& MegatronPolicy() {
  static const MegatronFramework kPolicy;
  return kPolicy;
}

}  // namespace stepcast::plan
