// Rules about master weights and moments, by optimizer and framework.
#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

constexpr const char* kMasterWeights = "training.master_weights";
constexpr const char* kStateType = "training.optimizer_state_dtype";

class OptimizerStateRules : public Rules {
 public:
  OptimizerStateRules(const Request& request, const Facts& facts,
                      std::vector<Violation>& violations)
      : Rules(request, facts, violations),
        parameters_(ParameterType(request)),
        states_(OptimizerStatesOf(request)) {}

  void Check() {
    if (!request_.precision || !request_.framework || !request_.optimizer) return;
    if (!CheckParameters()) return;
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    const FrameworkStyle& style = StyleOf(*request_.framework);
    if (style.fp32_states != nullptr) return CheckFp32(style.fp32_states);
    if (traits.textbook || traits.of_pytorch) CheckFusion();
    if (traits.of_pytorch) CheckHost();
    if (style.precision_aware_optimizer) CheckPrecisionAware();
  }

 private:
  bool Short() const { return SizeOf(parameters_) < SizeOf(DataType::kFp32); }

  void RefuseMasterWeights(std::string_view rule, std::string hint) {
    Add(kMasterWeights, "plan.dtype-not-of-framework",
        fmt::format("{}, but master_weights is {}", rule, plan::Name(states_.master_weights)),
        std::move(hint));
  }
  void RefuseStateType(std::string_view rule, std::string hint) {
    Add(kStateType, "plan.dtype-not-of-framework",
        fmt::format("{}, but optimizer_state_dtype is {}", rule, Name(states_.type)),
        std::move(hint));
  }

  // Rules for all optimizers.
  bool CheckParameters() {
    if (request_.master_weights == MasterWeights::kFp16Remainder &&
        parameters_ != DataType::kBf16) {
      Add(kMasterWeights, "plan.master-weights",
          fmt::format("fp16_remainder extends only bf16 parameters to FP32, but the parameters "
                      "have the type {}",
                      Name(parameters_)),
          Short() ? "write master_weights: fp32" : "omit master_weights");
      return false;
    }
    if (parameters_ != DataType::kFp16 || states_.master_weights != MasterWeights::kNone) {
      return true;
    }
    const bool pytorch = TraitsOf(*request_.framework).of_pytorch;
    Add(kMasterWeights, "plan.master-weights",
        fmt::format(
            "without master weights, rounding and underflow lose updates of fp16 parameters: "
            "{}",
            request_.master_weights ? "master_weights is none"
                                    : "PyTorch's optimizers keep no master weights"),
        pytorch ? "write parameter_dtype: fp32 (with autocast or FSDP's mixed precision), or write "
                  "master_weights: fp32 (with Apex's amp O2 and FusedAdam)"
                : "write master_weights: fp32, or omit master_weights");
    return false;
  }

  // Kernels that read and write states of other types are fused ones of AdamW: Apex's and
  // Transformer Engine's FusedAdam. Chains of kernels, and PyTorch's fused kernel, work in the type
  // of the updated values. LAMB's kernels have FP32 values.
  void CheckFusion() {
    // Optimizers with kernels of their own choose their own types (optimizer_rules.cc).
    if (HasOwnKernels(*request_.optimizer)) return;
    const bool remainders = states_.master_weights == MasterWeights::kFp16Remainder;
    const bool adamw = request_.optimizer == Optimizer::kAdamW;
    const bool fused = OptimizerImplementationOf(request_) == OptimizerImplementation::kFused;
    const bool textbook = TraitsOf(*request_.framework).textbook;
    if (request_.optimizer == Optimizer::kLamb && Short() &&
        states_.master_weights != MasterWeights::kFp32) {
      RefuseMasterWeights("LAMB keeps FP32 copies of 16-bit parameters",
                          "write master_weights: fp32, or omit master_weights");
      return;
    }
    const char* const hint =
        adamw ? "write optimizer_implementation: fused, to use the FusedAdam of Apex or "
                "Transformer Engine"
              : "write optimizer: adamw and optimizer_implementation: fused, to use the FusedAdam "
                "of Apex or Transformer Engine";
    const bool of_own_types =
        fused && (adamw || (textbook && request_.optimizer == Optimizer::kSgd));
    if (remainders && !of_own_types) {
      RefuseMasterWeights("only a fused AdamW supports fp16_remainder", hint);
    }
    const DataType updated =
        states_.master_weights == MasterWeights::kNone ? parameters_ : DataType::kFp32;
    if (states_.type != updated && !of_own_types) {
      RefuseStateType(
          fmt::format(
              "without a fused AdamW, moments must have the type of the weights that the optimizer "
              "updates, {}",
              Name(updated)),
          fmt::format("{}; or write optimizer_state_dtype: {}", hint, Name(updated)));
    }
  }

  // Updates on the host use PyTorch's optimizers; optimizers with types of their own only have
  // kernels of the device.
  void CheckHost() {
    if (HasOwnKernels(*request_.optimizer)) return;
    if (!request_.cpu_offload.value_or(false)) return;
    const DataType updated =
        states_.master_weights == MasterWeights::kNone ? parameters_ : DataType::kFp32;
    if (states_.master_weights == MasterWeights::kFp16Remainder) {
      RefuseMasterWeights("with cpu_offload, the host's optimizer does not support fp16_remainder",
                          "write master_weights: fp32 or none, or write cpu_offload: false");
    } else if (states_.type != updated) {
      RefuseStateType(
          fmt::format("with cpu_offload, moments must have the type of the weights that the "
                      "optimizer updates on the host, {}",
                      Name(updated)),
          fmt::format("write optimizer_state_dtype: {}, or cpu_offload: false", Name(updated)));
    }
  }

  void CheckFp32(std::string_view rule) {
    if (Short() && states_.master_weights != MasterWeights::kFp32) {
      RefuseMasterWeights(rule, "write master_weights: fp32, or omit master_weights");
    }
    if (states_.type != DataType::kFp32) {
      RefuseStateType(rule, "write optimizer_state_dtype: fp32, or omit optimizer_state_dtype");
    }
  }

  // megatron/training/arguments.py, megatron/core/optimizer/optimizer_config.py: the
  // precision-aware optimizer is the distributed Adam, with parameters of 16 bits.
  // HybridDeviceOptimizer has FP32 tensors.
  void CheckPrecisionAware() {
    if (Short() && states_.master_weights == MasterWeights::kNone) {
      RefuseMasterWeights("megatron always keeps master weights for 16-bit parameters",
                          "write master_weights: fp32. With bf16 parameters, master_weights: "
                          "fp16_remainder is also possible");
      return;
    }
    const bool remainders = states_.master_weights == MasterWeights::kFp16Remainder;
    if (!remainders && states_.type == DataType::kFp32) return;
    const auto refuse = [&](std::string_view rule) {
      if (request_.master_weights == MasterWeights::kFp16Remainder) {
        RefuseMasterWeights(rule, "write master_weights: fp32, or omit master_weights");
      }
      if (states_.type != DataType::kFp32) {
        RefuseStateType(rule, "write optimizer_state_dtype: fp32, or omit optimizer_state_dtype");
      }
    };
    if (!Short()) {
      refuse("megatron's precision-aware optimizer needs 16-bit parameters");
    } else if (request_.zero_stage == 0) {
      refuse("megatron's precision-aware optimizer needs zero_stage 1");
    } else if (request_.optimizer != Optimizer::kAdamW ||
               OptimizerImplementationOf(request_) != OptimizerImplementation::kFused) {
      refuse("megatron's precision-aware optimizer needs Transformer Engine's FusedAdam");
    } else if (request_.optimizer_cpu_offload.value_or(false)) {
      refuse("with optimizer_cpu_offload, the host updates only FP32 weights");
    } else if (request_.copy_main_gradients.value_or(false)) {
      Add("data_parallel.copy_main_gradients", "plan.dtype-not-of-framework",
          "megatron's precision-aware optimizer reads main gradients without a copy, but "
          "copy_main_gradients is true",
          "omit copy_main_gradients");
    }
  }

  const DataType parameters_;
  const OptimizerStates states_;
};

}  // namespace

void CheckOptimizerStates(const Request& request, const Facts& facts,
                          std::vector<Violation>& violations) {
  OptimizerStateRules(request, facts, violations).Check();
}

}  // namespace stepcast::plan
