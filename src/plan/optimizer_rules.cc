// Optimizers: which framework has which, and what each needs.
#include <cstdint>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

constexpr const char* kOptimizer = "training.optimizer";
constexpr const char* kCode = "plan.optimizer-not-of-framework";

class OptimizerRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
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
        CheckLion();
        break;
      case Optimizer::kAdafactor:
        CheckAdafactor();
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
  const char* name() const { return plan::Name(*request_.optimizer); }

  void Refuse(const char* key, std::string rule, std::string hint) {
    Add(key, kCode, std::move(rule), std::move(hint));
  }
  void RefuseFramework(const char* rule, const char* frameworks) {
    Refuse(kOptimizer, fmt::format("{}: framework is {}", rule, plan::Name(*request_.framework)),
           fmt::format("write framework: {}, or optimizer: adamw", frameworks));
  }

  // Its rates need the norm of each tensor, which no rank has where tensors are divided.
  void CheckLamb() {
    if (request_.framework && !Is(Framework::kDdp) && !Is(Framework::kReference)) {
      Refuse(kOptimizer,
             fmt::format("LAMB is modelled as Apex's FusedLAMB beside ddp, framework is {}",
                         plan::Name(*request_.framework)),
             "write framework: ddp or reference, or optimizer: adamw");
    } else if (request_.zero_stage.value_or(0) > 0) {
      Refuse(kOptimizer,
             fmt::format("LAMB needs the norms of whole tensors, and zero_stage is {}",
                         *request_.zero_stage),
             "write zero_stage: 0, or optimizer: adamw");
    }
    if (request_.tensor.value_or(1) > 1) {
      Refuse(kOptimizer,
             fmt::format("LAMB needs the norms of whole tensors, and parallelism.tensor is {}",
                         *request_.tensor),
             "write tensor: 1, or optimizer: adamw");
    }
    if (request_.optimizer_implementation &&
        *request_.optimizer_implementation != OptimizerImplementation::kFused) {
      Refuse("training.optimizer_implementation",
             fmt::format("LAMB is Apex's, of a few kernels over all tensors, and "
                         "optimizer_implementation is {}",
                         plan::Name(*request_.optimizer_implementation)),
             "leave it out, or write optimizer: adamw");
    }
  }

  void CheckAdamW8bit() {
    if (!request_.framework) return;
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    if (!traits.of_pytorch && !Is(Framework::kDeepSpeed)) {
      RefuseFramework("AdamW of 8 bits is bitsandbytes' or torchao's, beside PyTorch's modules",
                      "ddp, fsdp1, fsdp2 or deepspeed");
    }
  }

  void CheckLion() {
    if (!request_.framework) return;
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    if (traits.distributed_tensors) {
      RefuseFramework("Lion is bitsandbytes', whose kernels cannot read DTensors", "ddp or fsdp1");
    } else if (!traits.of_pytorch) {
      RefuseFramework("Lion is modelled as bitsandbytes', beside PyTorch's modules",
                      "ddp or fsdp1");
    }
  }

  // On DTensors its means and norms are collectives of each tensor.
  void CheckAdafactor() {
    if (!request_.framework) return;
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    if (traits.of_pytorch && !traits.distributed_tensors) return;
    RefuseFramework("Adafactor is modelled as transformers', over whole or flat parameters",
                    "ddp or fsdp1");
  }

  void CheckMuon() {
    if (!request_.framework) return;
    switch (TraitsOf(*request_.framework).muon) {
      case MuonKernels::kTorch:
        return;
      case MuonKernels::kDion:
        return CheckMuonOfShards();
      case MuonKernels::kMegatron:
        return CheckMuonOfMegatron();
      case MuonKernels::kNone:
        break;
    }
    RefuseFramework(TraitsOf(*request_.framework).flattens
                        ? "Muon multiplies matrices, and the optimizer has flat parameters"
                        : "Muon is modelled as torch.optim's, Dion's and Megatron-LM's",
                    "ddp, fsdp2 or megatron");
  }

  // dion/muon.py of microsoft/dion@0c205499: muon_update_batch_async, _create_muon_tasks.
  void CheckMuonOfShards() {
    if (request_.tensor.value_or(1) > 1) {
      Refuse("parallelism.tensor",
             fmt::format("Dion's Muon has matrices that are sharded along one dimension, and "
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
      Refuse(kOptimizer,
             fmt::format("Dion's Muon exchanges equal parts of matrices, and one of {} rows does "
                         "not divide among {} ranks",
                         rows, ranks),
             "choose a shard_group_size that divides it, or optimizer: adamw");
      return;
    }
  }

  // megatron/core/optimizer/muon.py, get_megatron_muon_optimizer.
  void CheckMuonOfMegatron() {
    if (request_.zero_stage.value_or(0) != 0) {
      Refuse("data_parallel.zero_stage",
             fmt::format("Megatron-LM's muon does not go with its distributed optimizer (its "
                         "dist_muon, which shares out whole matrices, is not modelled): "
                         "zero_stage is {}",
                         *request_.zero_stage),
             "write zero_stage: 0, or optimizer: adamw");
    }
    if (request_.precision == DataType::kFp16) {
      Refuse("training.precision",
             "Megatron-LM's muon does not go with fp16, and precision is fp16",
             "write precision: bf16, or optimizer: adamw");
    }
  }

  void CheckKernels() {
    if (!HasOwnKernels(*request_.optimizer) || !request_.optimizer_implementation) return;
    Refuse("training.optimizer_implementation",
           fmt::format("{} has kernels of its own, tensor by tensor, and optimizer_implementation "
                       "is {}",
                       name(), plan::Name(*request_.optimizer_implementation)),
           "leave it out, or write optimizer: adamw");
  }

  void CheckHost() {
    const auto refuse = [&](const char* key, const char* off) {
      Refuse(key, fmt::format("{} updates on the device, and {} is on", name(), key),
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

  // What wrappers around PyTorch's optimizers keep is not modelled for these.
  void CheckStates() {
    const bool pytorch = request_.framework && TraitsOf(*request_.framework).of_pytorch;
    if (pytorch && request_.master_weights.value_or(MasterWeights::kNone) != MasterWeights::kNone) {
      Refuse("training.master_weights",
             fmt::format("{} keeps no master weights, and master_weights is {}", name(),
                         plan::Name(*request_.master_weights)),
             "write master_weights: none, or leave it out");
    }
    const DataType type = OptimizerStatesOf(request_).type;
    Request without = request_;
    without.optimizer_state_dtype.reset();
    const DataType own = OptimizerStatesOf(without).type;
    if (type != own) {
      Refuse("training.optimizer_state_dtype",
             fmt::format("{} chooses the type of its moments, {}, and optimizer_state_dtype is {}",
                         name(), Name(own), Name(type)),
             "leave it out");
    }
  }
};

}  // namespace

void CheckOptimizer(const Request& request, const Facts& facts,
                    std::vector<Violation>& violations) {
  OptimizerRules(request, facts, violations).Check();
}

}  // namespace stepcast::plan
