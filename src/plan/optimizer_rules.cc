// Rules about optimizers: which frameworks support each, and its requirements.
#include <cstdint>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/plan/framework_style.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

constexpr const char* kOptimizer = "training.optimizer";
constexpr const char* kCode = "plan.optimizer-not-of-framework";

class OptimizerRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    CheckInBackward();
    if (!request_.optimizer) return;
    switch (*request_.optimizer) {
      case Optimizer::kAdamW:
      case Optimizer::kSgd:
        return;
      case Optimizer::kLamb:
        return CheckLamb();
      case Optimizer::kAdamW8bit:
        CheckAdamW8bit();
        break;
      case Optimizer::kLion:
      case Optimizer::kAdafactor:
        CheckLionAndAdafactor();
        break;
      case Optimizer::kMuon:
        CheckMuon();
        break;
    }
    CheckKernels();
    CheckHost();
    CheckStates();
  }

 private:
  // torchtune/training/memory.py, torchtitan/components/optimizer.py: each parameter's step runs in
  // a hook, when no other gradient exists.
  void CheckInBackward() {
    if (!request_.optimizer_in_backward.value_or(false)) return;
    const auto refuse = [&](const char* key, std::string rule, const char* hint) {
      Add(key, "plan.optimizer-in-backward", std::move(rule), hint);
    };
    if (request_.framework && !StyleOf(*request_.framework).optimizer_in_backward) {
      refuse("training.optimizer_in_backward",
             fmt::format("updates of parameters during backward are modelled only for fsdp2: "
                         "framework is {}",
                         plan::Name(*request_.framework)),
             "write framework: fsdp2, which also runs on one rank, or omit optimizer_in_backward");
    }
    if (request_.precision == DataType::kFp16) {
      refuse("training.precision",
             "fp16 gradients must be checked for infinities before any update, but "
             "optimizer_in_backward is true",
             "write precision: bf16, or optimizer_in_backward: false");
    }
    if (request_.gradient_clipping) {
      refuse("training.gradient_clipping",
             "gradient clipping needs the norm of all gradients before the first update, but "
             "optimizer_in_backward is true",
             "omit gradient_clipping, or write optimizer_in_backward: false");
    }
    if (request_.gradient_accumulation.value_or(1) > 1) {
      refuse("training.gradient_accumulation",
             fmt::format("with optimizer_in_backward, each backward updates the parameters, but "
                         "gradient_accumulation is {}",
                         *request_.gradient_accumulation),
             "write gradient_accumulation: 1, or optimizer_in_backward: false");
    }
    if (request_.pipeline.value_or(1) > 1) {
      refuse("parallelism.pipeline",
             "torchtitan does not update parameters during the backward of a pipeline: "
             "optimizer_in_backward is true",
             "write pipeline: 1, or optimizer_in_backward: false");
    }
    if (request_.cpu_offload.value_or(false)) {
      refuse("data_parallel.cpu_offload",
             "updates of parameters on the host during backward are not modelled: "
             "optimizer_in_backward is true",
             "write cpu_offload: false, or optimizer_in_backward: false");
    }
    if (request_.optimizer == Optimizer::kMuon) {
      refuse("training.optimizer",
             "torchtitan's Muon does not update parameters during backward: optimizer_in_backward "
             "is true",
             "write optimizer: adamw, or optimizer_in_backward: false");
    }
  }

  const char* name() const { return plan::Name(*request_.optimizer); }

  void Refuse(const char* key, std::string rule, std::string hint) {
    Add(key, kCode, std::move(rule), std::move(hint));
  }
  void RefuseFramework(const char* rule, const std::string& frameworks) {
    Refuse(kOptimizer, fmt::format("{}: framework is {}", rule, plan::Name(*request_.framework)),
           fmt::format("write framework: {}, or optimizer: adamw", frameworks));
  }

  // LAMB's learning rates need each tensor's norm, which no rank has where tensors are divided.
  void CheckLamb() {
    if (request_.framework && !StyleOf(*request_.framework).lamb) {
      Refuse(kOptimizer,
             fmt::format("LAMB is modelled only as Apex's FusedLAMB with ddp: framework is {}",
                         plan::Name(*request_.framework)),
             "write framework: ddp or reference, or write optimizer: adamw");
    } else if (request_.zero_stage.value_or(0) > 0) {
      Refuse(kOptimizer,
             fmt::format("LAMB needs the norms of complete tensors, but zero_stage is {}",
                         *request_.zero_stage),
             "write zero_stage: 0, or optimizer: adamw");
    }
    if (request_.tensor.value_or(1) > 1) {
      Refuse(kOptimizer,
             fmt::format("LAMB needs the norms of complete tensors, but parallelism.tensor is {}",
                         *request_.tensor),
             "write tensor: 1, or optimizer: adamw");
    }
    if (request_.optimizer_implementation &&
        *request_.optimizer_implementation != OptimizerImplementation::kFused) {
      Refuse("training.optimizer_implementation",
             fmt::format("LAMB always uses Apex's multi-tensor kernels, but "
                         "optimizer_implementation is {}",
                         plan::Name(*request_.optimizer_implementation)),
             "omit optimizer_implementation, or write optimizer: adamw");
    }
  }

  void CheckAdamW8bit() {
    if (request_.framework && !StyleOf(*request_.framework).adamw_8bit) {
      RefuseFramework("8-bit AdamW (bitsandbytes or torchao) is not modelled with this framework",
                      FrameworksWith(&FrameworkStyle::adamw_8bit));
    }
  }

  // Adafactor's means and norms of DTensors need collectives for each tensor.
  void CheckLionAndAdafactor() {
    if (!request_.framework || StyleOf(*request_.framework).lion_and_adafactor) return;
    const bool lion = request_.optimizer == Optimizer::kLion;
    const char* const rule =
        !lion ? "the Adafactor of transformers needs unsharded or flattened parameters"
        : StyleOf(*request_.framework).distributed_tensors
            ? "Lion is modelled as in bitsandbytes, and the kernels of bitsandbytes cannot read "
              "DTensors"
            : "Lion (bitsandbytes) is not modelled with this framework";
    RefuseFramework(rule, FrameworksWith(&FrameworkStyle::lion_and_adafactor));
  }

  // Each framework that has Muon has rules of its own for it (frameworks/).
  void CheckMuon() {
    if (!request_.framework) return;
    const FrameworkStyle& style = StyleOf(*request_.framework);
    if (style.muon != MuonKernels::kNone) return;
    RefuseFramework(style.flattens
                        ? "Muon needs matrices, but this framework's optimizer flattens parameters"
                        : "Muon is modelled only as in torch.optim, Dion and Megatron-LM",
                    "ddp, fsdp2 or megatron");
  }

  void CheckKernels() {
    if (!HasOwnKernels(*request_.optimizer) || !request_.optimizer_implementation) return;
    Refuse(
        "training.optimizer_implementation",
        fmt::format("{} uses its own kernels, one per tensor, but optimizer_implementation is {}",
                    name(), plan::Name(*request_.optimizer_implementation)),
        "omit optimizer_implementation, or write optimizer: adamw");
  }

  void CheckHost() {
    const auto refuse = [&](const char* key, const char* off) {
      Refuse(key,
             fmt::format("{} updates parameters only on the device, but {} is "
                         "true",
                         name(), key),
             fmt::format("write {}, or optimizer: adamw", off));
    };
    if (request_.cpu_offload.value_or(false)) {
      refuse("data_parallel.cpu_offload", "cpu_offload: false");
    }
    if (request_.optimizer_cpu_offload.value_or(false)) {
      refuse("data_parallel.optimizer_cpu_offload", "optimizer_cpu_offload: false");
    }
    if (request_.deepspeed && request_.deepspeed->offload_optimizer.value_or(
                                  OffloadDevice::kNone) != OffloadDevice::kNone) {
      refuse("data_parallel.deepspeed.offload_optimizer", "offload_optimizer: none");
    }
  }

  // States kept by wrappers around PyTorch's optimizers are not modelled for these optimizers.
  void CheckStates() {
    const bool pytorch = request_.framework && TraitsOf(*request_.framework).of_pytorch;
    if (pytorch && request_.master_weights.value_or(MasterWeights::kNone) != MasterWeights::kNone) {
      Refuse("training.master_weights",
             fmt::format("{} keeps no master weights, but master_weights is {}", name(),
                         plan::Name(*request_.master_weights)),
             "write master_weights: none, or omit master_weights");
    }
    const DataType type = OptimizerStatesOf(request_).type;
    Request without = request_;
    without.optimizer_state_dtype.reset();
    const DataType own = OptimizerStatesOf(without).type;
    if (type != own) {
      Refuse("training.optimizer_state_dtype",
             fmt::format("{} always keeps moments in {}, but optimizer_state_dtype is {}", name(),
                         Name(own), Name(type)),
             "omit optimizer_state_dtype");
    }
  }
};

}  // namespace

void CheckOptimizer(const Request& request, const Facts& facts,
                    std::vector<Violation>& violations) {
  OptimizerRules(request, facts, violations).Check();
}

}  // namespace stepcast::plan
