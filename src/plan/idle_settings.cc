#include "src/plan/idle_settings.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/plan/framework_style.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
bool ScalesLoss(const Plan& plan) {
  const Training& training = plan.training;
  if (training.precision != DataType::kFp16) return false;
  switch (StyleOf(plan.data_parallel.framework).loss_scaler) {
    case LossScaler::kMegatron:
      return true;
    case LossScaler::kGradScaler:
      return training.parameter_dtype == DataType::kFp32 && training.optimizer != Optimizer::kLamb;
    case LossScaler::kNone:
      return false;
  }
  return false;
}

namespace {

// The plan with BF16 instead of FP16.
Plan WithoutFp16(Plan plan) {
  Training& training = plan.training;
  for (DataType* type :
       {&training.precision, &training.parameter_dtype, &training.gradient_dtype,
        &training.reduce_dtype, &training.optimizer_state_dtype, &training.lora.frozen_dtype}) {
    if (*type == DataType::kFp16) *type = DataType::kBf16;
  }
  return plan;
}

// Whether FP16 behaves like BF16: no loss scaling and no overflow check. Both have 16 bits.
bool TakesFp16AsBf16(const Plan& plan) {
  if (ScalesLoss(plan)) return false;
  const FrameworkStyle& style = StyleOf(plan.data_parallel.framework);
  return style.gradients != GradientStore::kPartitions ||
         (plan.data_parallel.zero_stage > 0 && plan.training.parameter_dtype != DataType::kFp16);
}

// PyTorch's frameworks cast between BF16 and FP16 in separate kernels.
bool CastsBetweenTypesOf16Bits(const Plan& plan) {
  if (!TraitsOf(plan.data_parallel.framework).of_pytorch) return false;
  const Training& training = plan.training;
  const DataType types[] = {ComputeType(training.precision), training.parameter_dtype,
                            training.gradient_dtype, training.reduce_dtype};
  return std::count(std::begin(types), std::end(types), DataType::kFp16) > 0 &&
         std::count(std::begin(types), std::end(types), DataType::kBf16) > 0;
}

class Search {
 public:
  Search(const Request& request, const Plan& plan, const model::Model& model, std::int64_t devices,
         const ModelBlocks& blocks)
      : request_(request), plan_(plan), model_(model), devices_(devices), blocks_(blocks) {}

  std::vector<std::string> Run() {
    LookAt("training", TrainingSettings(), &Plan::training);
    LookAt("parallelism", ParallelismSettings(), &Plan::parallelism);
    LookAt("experts", MixtureSettings(), &Plan::mixture);
    LookAt("data_parallel", DataParallelSettings(), &Plan::data_parallel);
    if (plan_.training.precision == DataType::kFp16 && TakesFp16AsBf16(plan_)) {
      sentences_.push_back(
          fmt::format("training.precision fp16 is forecast as bf16 with framework {}, because the "
                      "framework's loss scaling is not modelled",
                      Name(plan_.data_parallel.framework)));
    }
    if (plan_.data_parallel.zero_stage > 0 && ShardRanks(plan_) == 1 &&
        TraitsOf(plan_.data_parallel.framework).textbook) {
      sentences_.push_back(
          fmt::format("data_parallel.zero_stage {} has no effect with one data-parallel rank, "
                      "because this rank keeps all states",
                      plan_.data_parallel.zero_stage));
    }
    const model::Lora& lora = plan_.training.lora;
    const Parallelism& axes = plan_.parallelism;
    if (lora.all_to_all && (axes.tensor == 1 || !axes.sequence_parallel)) {
      sentences_.emplace_back(
          "training.lora.all_to_all has no effect without parallelism.tensor and "
          "sequence_parallel");
    }
    const auto& loading = plan_.training.data_loading;
    if (loading && !loading->pin_memory && TraitsOf(plan_.data_parallel.framework).textbook) {
      sentences_.emplace_back(
          "training.data_loading.pin_memory has no effect with framework reference, which does not "
          "model the host");
    }
    const auto& deepspeed = request_.deepspeed;
    if (deepspeed && deepspeed->hpz_partition_size.value_or(1) > 1 &&
        deepspeed->hpz_partition_size == ShardRanks(plan_)) {
      sentences_.emplace_back(
          "data_parallel.deepspeed.zero_hpz_partition_size has no effect, because one partition "
          "contains all ranks");
    }
    return std::move(sentences_);
  }

 private:
  template <typename Given, typename Kept>
  void LookAt(std::string_view section, std::span<const Setting<Given, Kept>> settings,
              Kept Plan::*kept) {
    for (const auto& setting : settings) {
      if (setting.required || !setting.IsGiven(request_)) continue;
      if (!setting.uses.HasEffect(plan_.data_parallel.framework, plan_.data_parallel.zero_stage)) {
        continue;  // KeysWithoutEffect says so
      }
      const std::string_view why = setting.idle == nullptr ? "" : setting.idle(plan_);
      if (HasOwnNotation(setting)) {
        if (!why.empty()) Say(section, setting.key, why);
        continue;
      }
      if (why.empty() && section != "training" && section != "experts") continue;
      const std::optional<Plan> otherwise = Otherwise(setting);
      if (!otherwise) continue;
      Plan with = *otherwise;
      setting.ApplyGiven(request_, with.*kept);
      if (with.*kept == (*otherwise).*kept) continue;  // the default
      if (!why.empty()) {
        Say(section, setting.key, why);
      } else if (with == plan_ && setting.of_architectures && HasSameLayers(*otherwise)) {
        Say(section, setting.key,
            "has no effect, because this model's layers run the same kernels with the default "
            "value");
      } else if (TakesFp16AsBf16(plan_) && !CastsBetweenTypesOf16Bits(plan_) &&
                 WithoutFp16(plan_) == WithoutFp16(*otherwise)) {
        Say(section, setting.key,
            fmt::format(
                "has no effect with framework {}, because FP16 is forecast with the time and "
                "memory of BF16",
                Name(plan_.data_parallel.framework)));
      }
    }
  }

  void Say(std::string_view section, std::string_view key, std::string_view why) {
    sentences_.push_back(fmt::format("{}.{} {}", section, key, why));
  }

  template <typename Given, typename Kept>
  static bool HasOwnNotation(const Setting<Given, Kept>& setting) {
    return std::holds_alternative<OwnSetting<Given>>(setting.type);
  }

  // The plan without the given values of the setting; none if the rest is invalid without them.
  template <typename Given, typename Kept>
  std::optional<Plan> Otherwise(const Setting<Given, Kept>& setting) const {
    Request request = request_;
    setting.TakeBack(request);
    if (!request.gradient_accumulation && !request.global_batch_size) return std::nullopt;
    if (!DataDegree(request, devices_)) return std::nullopt;
    Plan plan = Complete(request, devices_, blocks_);
    plan.training.dispatch = plan_.training.dispatch;  // the profile's
    plan.training.dispatch_known = plan_.training.dispatch_known;
    return plan;
  }

  // Whether two plans that compute layers differently have the same layers for this model.
  bool HasSameLayers(const Plan& other) {
    const model::WorkOptions own = WorkOptionsOf(plan_), others = WorkOptionsOf(other);
    if (own == others ||
        HasTransformerEngine(plan_.training) != HasTransformerEngine(other.training)) {
      return false;
    }
    if (model_.is_layer_list()) return false;
    if (works_.empty()) works_ = model::BuildWork(model_, own);
    return works_ == model::BuildWork(model_, others) &&
           model::WorkOfLayers(model_, own) == model::WorkOfLayers(model_, others);
  }

  const Request& request_;
  const Plan& plan_;
  const model::Model& model_;
  const std::int64_t devices_;
  const ModelBlocks& blocks_;
  std::vector<model::LayerWork> works_;
  std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> IdleSettings(const Request& request, const Plan& plan,
                                      const model::Model& model, std::int64_t devices,
                                      const ModelBlocks& blocks) {
  return Search(request, plan, model, devices, blocks).Run();
}

}  // namespace stepcast::plan
