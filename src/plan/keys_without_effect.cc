// Given settings that change nothing: warnings, not errors.
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/model/architecture.h"
#include "src/model/recomputation.h"
#include "src/plan/framework_style.h"
#include "src/plan/legality.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

void AppendDeepSpeedKeysWithoutEffect(const Request& request, std::vector<std::string>& sentences) {
  if (!request.deepspeed) return;
  const auto append = [&](const auto& settings) {
    for (const auto& setting : settings) {
      if (!((*request.deepspeed).*setting.given) || setting.HasEffect(*request.zero_stage))
        continue;
      sentences.push_back(fmt::format("data_parallel.deepspeed.{} has no effect at zero_stage {}",
                                      setting.key, *request.zero_stage));
    }
  };
  append(kDeepSpeedSizes);
  append(kDeepSpeedSwitches);
  append(kDeepSpeedOffload);
}

// Types, and scaling in 8 bits.
void AppendTypesWithoutEffect(const Request& request, std::vector<std::string>& sentences) {
  if (request.tp_only_amax_red.value_or(false) &&
      (*request.precision != DataType::kFp8 ||
       request.fp8_scaling.value_or(model::Fp8Scaling::kDelayed) != model::Fp8Scaling::kDelayed)) {
    sentences.emplace_back(
        "training.tp_only_amax_red has an effect only with precision: fp8 and fp8_scaling: "
        "delayed");
  }
  if (request.fp8_scaling && *request.precision != DataType::kFp8) {
    sentences.push_back(fmt::format("training.fp8_scaling has no effect with precision {}",
                                    Name(*request.precision)));
  }
  const DataType parameters = ParameterType(request);
  if (request.master_weights && SizeOf(parameters) == SizeOf(DataType::kFp32)) {
    sentences.emplace_back(
        "training.master_weights has no effect with fp32 parameters, which need no master weights");
  }
  if (IsFsdp(*request.framework) && request.gradient_dtype &&
      *request.gradient_dtype != parameters) {
    sentences.push_back(
        fmt::format("training.gradient_dtype has no effect with framework {}, because gradients "
                    "have the data type of the parameters ({})",
                    Name(*request.framework), Name(parameters)));
  }
}

}  // namespace

std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture) {
  std::vector<std::string> sentences;
  for (const TrainingSetting& setting : TrainingSettings()) {
    if (setting.had_by == nullptr || setting.had_by(architecture) || !setting.IsGiven(request)) {
      continue;
    }
    sentences.push_back(fmt::format("training.{} has no effect on a model without {}", setting.key,
                                    setting.needed));
  }
  if (request.imbalance.value_or(1) > 1 && architecture.experts.exist() &&
      ImplementationOf(request) == model::ExpertImplementation::kDeepSpeed) {
    sentences.emplace_back(
        "experts.imbalance has no effect with DeepSpeed's MoE layer, because each "
        "expert always processes its full capacity");
  }
  if (architecture.experts.exist()) return sentences;
  for (const MixtureSetting& setting : MixtureSettings()) {
    if (!setting.IsGiven(request)) continue;
    sentences.push_back(
        fmt::format("experts.{} has no effect on a model without experts", setting.key));
  }
  return sentences;
}

std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request) {
  std::vector<std::string> sentences;
  for (const TrainingSetting& setting : TrainingSettings()) {
    if (!setting.of_architectures || !setting.IsGiven(request)) continue;
    sentences.push_back(fmt::format(
        "training.{} has no effect on a layer list, because the list states times and activations",
        setting.key));
  }
  for (const MixtureSetting& setting : MixtureSettings()) {
    if (!setting.of_architectures || !setting.IsGiven(request)) continue;
    sentences.push_back(fmt::format(
        "experts.{} has no effect on a layer list, because the list states times and activations",
        setting.key));
  }
  if (IsQuantized(*request.precision)) {
    sentences.push_back(fmt::format(
        "training.precision {} is forecast as bf16 on a layer list, because the list states times",
        Name(*request.precision)));
  }
  if (request.data_loading && !request.data_loading->pin_memory && !request.data_loading->bytes) {
    sentences.emplace_back(
        "training.data_loading.pin_memory has no effect without data_loading.bytes, because a "
        "layer list does not define the size of a sample");
  }
  return sentences;
}

std::vector<std::string> KeysWithoutEffect(const Request& request) {
  std::vector<std::string> sentences;
  const auto append = [&](std::string_view section, const auto& settings) {
    for (const auto& setting : settings) {
      if (!setting.IsGiven(request)) continue;
      if (!setting.uses.HasEffect(*request.framework, *request.zero_stage)) {
        sentences.push_back(fmt::format("{}.{} has no effect with framework {} at zero_stage {}",
                                        section, setting.key, Name(*request.framework),
                                        *request.zero_stage));
      } else if (!setting.without.empty() && DegreeOf(request, setting.without) <= 1) {
        sentences.push_back(fmt::format("{}.{} has no effect without parallelism.{}", section,
                                        setting.key, setting.without));
      }
    }
  };
  append("training", TrainingSettings());
  append("data_parallel", DataParallelSettings());
  append("parallelism", ParallelismSettings());
  append("experts", MixtureSettings());
  if (request.pipeline.value_or(1) > 1 &&
      request.scatter_gather_tensors_in_pipeline.value_or(false) &&
      (request.tensor.value_or(1) == 1 || request.sequence_parallel.value_or(false))) {
    sentences.emplace_back(
        "data_parallel.scatter_gather_tensors_in_pipeline has an effect only if tensor-parallel "
        "ranks send the same data (parallelism.tensor without sequence_parallel)");
  }
  if (request.cuda_device_max_connections && !request.overlap_communication.value_or(false) &&
      (StyleOf(*request.framework).connections == 0 || request.tensor.value_or(1) == 1)) {
    sentences.emplace_back(
        "software.cuda_device_max_connections has an effect only with framework megatron and "
        "tensor parallelism");
  }
  AppendDeepSpeedKeysWithoutEffect(request, sentences);
  AppendTypesWithoutEffect(request, sentences);
  const auto checkpointing = request.activation_checkpointing.value_or(model::Checkpointing::kNone);
  if (request.checkpoint_early_stop && checkpointing != model::Checkpointing::kFull &&
      checkpointing != model::Checkpointing::kSelectiveOp) {
    sentences.push_back(
        fmt::format("training.checkpoint_early_stop has an effect only with "
                    "activation_checkpointing full or selective_op, not with {}",
                    model::Name(checkpointing)));
  }
  if (TraitsOf(*request.framework).textbook && request.dispatch) {
    sentences.emplace_back(
        "training.dispatch has no effect with framework reference, which does not model the host");
  } else if (request.compile.value_or(false) && request.dispatch) {
    sentences.emplace_back(
        "training.dispatch has no effect with training.compile, because one call launches all "
        "kernels of a block");
  }
  // Without a bucket size there are no buckets, and no first one.
  const bool sized = request.bucket_size && std::holds_alternative<Bytes>(*request.bucket_size);
  const bool default_size =
      !request.bucket_size && request.overlap.value_or(true) && *request.zero_stage <= 2;
  if (TraitsOf(*request.framework).textbook && request.first_bucket_size && !sized &&
      !default_size) {
    sentences.emplace_back("data_parallel.first_bucket_size has no effect without bucket_size");
  }
  return sentences;
}

}  // namespace stepcast::plan
