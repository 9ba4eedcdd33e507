// Rules about the experts of a mixture: which ranks may divide them, and what they require.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class ExpertRules : public Rules {
 public:
  using Rules::Rules;

  void Run() {
    if (facts_.experts == 0) {
      CheckWithoutExperts();
      return;
    }
    CheckDegrees();
    CheckFolding();
    CheckImbalance();
    CheckWith();
    CheckOverlap();
    CheckSharedExperts();
  }

 private:
  std::int64_t ranks() const { return request_.expert.value_or(1); }
  std::int64_t parts() const { return ExpertTensorOf(request_, facts_.experts > 0); }

  // A layer list may state what its ranks exchange along the expert axis. If the model is unknown,
  // nothing is checked.
  void CheckWithoutExperts() {
    if (!facts_.has_ends) {
      CheckFramework();
      CheckFolding();
      CheckImbalance();
      CheckOverlap();
      return;
    }
    if (facts_.divided.empty()) return;
    for (const auto& [key, degree] :
         {std::pair{"parallelism.expert", request_.expert},
          std::pair{"parallelism.expert_tensor", request_.expert_tensor}}) {
      if (degree.value_or(1) == 1) continue;
      Add(key, "plan.no-experts",
          fmt::format("expert parallelism of degree {} needs a model with experts", *degree),
          fmt::format("omit {}, or use a model with experts", key));
    }
    for (const auto& [key, asked] :
         {std::pair{"overlap_communication", request_.overlap_communication},
          std::pair{"delay_weight_gradients", request_.delay_weight_gradients}}) {
      if (!asked.value_or(false)) continue;
      Add(fmt::format("experts.{}", key), "plan.no-experts",
          fmt::format("{} applies to exchanges between experts, but the model has no experts", key),
          fmt::format("omit {}, or use a model with experts", key));
    }
  }

  void CheckFramework() {
    if (ranks() == 1 || !request_.framework || TraitsOf(*request_.framework).expert_parallel)
      return;
    Add("parallelism.expert", "plan.axis-not-of-framework",
        fmt::format("expert parallelism is not modelled with framework {}, but expert is {}",
                    plan::Name(*request_.framework), ranks()),
        "write expert: 1, so that every rank has all experts, or write framework: megatron, fsdp2 "
        "or deepspeed");
  }

  void CheckDegrees() {
    CheckFramework();
    if (facts_.experts % ranks() != 0) {
      Add("parallelism.expert", "plan.expert-division",
          fmt::format("the model's {} experts are not divisible by parallelism.expert {}",
                      facts_.experts, ranks()),
          fmt::format("set parallelism.expert to a divisor of {}", facts_.experts));
    }
    if (facts_.expert_width % parts() != 0) {
      Add("parallelism.expert_tensor", "plan.expert-division",
          fmt::format("an expert's width of {} is not divisible by parallelism.expert_tensor {}",
                      facts_.expert_width, parts()),
          fmt::format("set parallelism.expert_tensor to a divisor of {}", facts_.expert_width));
    }
    CheckTensor();
  }

  void CheckTensor() {
    if (request_.tensor.value_or(1) == 1 || !request_.framework) return;
    if (!StyleOf(*request_.framework).divides_mixtures) {
      Add("parallelism.tensor", "plan.experts-not-supported-with",
          fmt::format(
              "tensor parallelism of a mixture of experts is not modelled with framework {}",
              plan::Name(*request_.framework)),
          "write tensor: 1, or write framework: megatron or fsdp2");
      return;
    }
    if (!request_.sequence_parallel.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.experts-need-sequence-parallel",
          "with tensor parallelism, each rank must route its part of the tokens to the experts, "
          "but sequence_parallel is false",
          "write sequence_parallel: true, or tensor: 1");
    }
  }

  void CheckFolding() {
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!data) return;
    const std::int64_t of_stage =
        request_.tensor.value_or(1) * request_.context.value_or(1) * *data;
    const std::int64_t folded = ranks() * parts();
    if (of_stage % folded != 0) {
      Add("parallelism.expert", "plan.expert-folding",
          fmt::format("expert x expert_tensor ({} x {}) must be a divisor of tensor x context x "
                      "data ({} x {} x {})",
                      ranks(), parts(), request_.tensor.value_or(1), request_.context.value_or(1),
                      *data),
          parts() > 1 ? "write expert_tensor: 1, or a smaller parallelism.expert"
                      : "write a smaller parallelism.expert");
      return;
    }
    const std::int64_t replicas = *data / request_.shard_group_size.value_or(*data);
    if (replicas > 0 && (of_stage / folded) % replicas != 0) {
      Add("data_parallel.shard_group_size", "plan.expert-folding",
          fmt::format("{} ranks with the same experts cannot be divided into {} shard groups",
                      of_stage / folded, replicas),
          "omit shard_group_size, or write a smaller parallelism.expert");
    }
  }

  void CheckImbalance() {
    if (request_.pad_to_capacity.value_or(false) && !request_.capacity_factor) {
      Add("experts.pad_to_capacity", "plan.expert-capacity",
          "pad_to_capacity is true, but capacity_factor is not set",
          "write a capacity_factor such as 1.25, or pad_to_capacity: false");
    }
    if (!request_.imbalance) return;
    const auto most = static_cast<double>(ranks());
    if (*request_.imbalance <= most) return;
    Add("experts.imbalance", "plan.expert-imbalance",
        fmt::format("experts.imbalance (largest / mean number of rows of a rank) can be at most {} "
                    "with {} ranks, but is {}",
                    ranks(), ranks(), *request_.imbalance),
        ranks() == 1 ? "omit experts.imbalance, because every rank has all experts"
                     : "write an experts.imbalance between 1 and parallelism.expert");
  }

  void CheckWith() {
    const auto refuse = [&](const char* key, std::string message, std::string hint) {
      Add(key, "plan.experts-not-supported-with", std::move(message), std::move(hint));
    };
    if (request_.lora) {
      refuse("training.lora", "LoRA adapters are not modelled for a mixture of experts",
             "omit lora, or use a dense model");
    }
    const bool divided = ranks() > 1 || parts() > 1;
    const auto* kept = request_.reshard_after_forward
                           ? std::get_if<std::int64_t>(&*request_.reshard_after_forward)
                           : nullptr;
    if (divided && kept != nullptr) {
      refuse("data_parallel.reshard_after_forward",
             fmt::format("with expert parallelism, reshard_after_forward must be true or false, "
                         "but is {}",
                         *kept),
             "write reshard_after_forward: true or false, or write expert: 1");
    }
    if (divided && request_.cpu_offload.value_or(false)) {
      refuse("data_parallel.cpu_offload",
             "cpu_offload is not supported yet with expert parallelism",
             "write cpu_offload: false, or expert: 1");
    }
    if (divided && request_.precision == DataType::kFp16) {
      refuse("training.precision",
             "the overflow check of FP16 gradients is not modelled with expert parallelism: "
             "precision is fp16",
             "write precision: bf16");
    }
    if (facts_.expert_biases && parts() > 1) {
      refuse("parallelism.expert_tensor",
             fmt::format("experts with biases are not modelled with expert_tensor above 1: "
                         "expert_tensor is {}",
                         parts()),
             "write expert_tensor: 1");
    }
    const bool once = request_.dispatcher && model::SendsTokensOnce(*request_.dispatcher);
    if (once && parts() > 1) {
      refuse("parallelism.expert_tensor",
             fmt::format(
                 "dispatcher {} is not modelled with expert_tensor above 1: expert_tensor is {}",
                 model::Name(*request_.dispatcher), parts()),
             "write expert_tensor: 1, or dispatcher: all_to_all");
    }
    if (divided && request_.optimizer_cpu_offload.value_or(false)) {
      refuse("data_parallel.optimizer_cpu_offload",
             "optimizer_cpu_offload is not supported yet with expert parallelism",
             "write optimizer_cpu_offload: false, or expert: 1");
    }
  }

  // megatron/core/transformer/transformer_config.py, __post_init__; megatron/training/arguments.py.
  void CheckOverlap() {
    if (request_.delay_weight_gradients.value_or(false) &&
        !request_.overlap_communication.value_or(false)) {
      RefuseOverlap("experts.delay_weight_gradients",
                    "weight gradients can be delayed only if two micro-batches are interleaved, "
                    "but overlap_communication is false",
                    "write overlap_communication: true, or delay_weight_gradients: false");
    }
    if (!request_.overlap_communication.value_or(false)) return;
    if (ranks() == 1) {
      RefuseOverlap("parallelism.expert",
                    "overlap_communication hides exchanges between experts, but expert is 1",
                    "write expert: 2 or more, or write overlap_communication: false");
    }
    if (request_.dispatcher == model::Dispatcher::kAllGather) {
      RefuseOverlap("experts.dispatcher",
                    "overlap_communication does not support dispatcher: all_gather",
                    "write dispatcher: all_to_all, deepep or hybridep");
    }
    if (request_.precision == DataType::kFp32 || request_.precision == DataType::kTf32) {
      RefuseOverlap("training.precision",
                    fmt::format("overlap_communication needs 16-bit parameters: precision is {}",
                                stepcast::Name(*request_.precision)),
                    "write precision: bf16");
    }
    CheckOverlapWithSchedule();
    CheckOverlapWithRecomputation();
    if (request_.activation_offload.value_or(false)) {
      RefuseOverlap("training.activation_offload",
                    "activation_offload is not supported yet with overlap_communication",
                    "write activation_offload: false, or overlap_communication: false");
    }
    if (request_.cuda_device_max_connections == 1) {
      RefuseOverlap("software.cuda_device_max_connections",
                    "with cuda_device_max_connections 1, exchanges cannot overlap kernels, but "
                    "overlap_communication is true",
                    "omit cuda_device_max_connections, or write cuda_device_max_connections: 32");
    }
  }

  // megatron/core/transformer/transformer_config.py, __post_init__: moe_shared_expert_overlap.
  void CheckSharedExperts() {
    if (!request_.overlap_shared_experts.value_or(false)) return;
    if (request_.overlap_communication.value_or(false)) {
      RefuseOverlap("experts.overlap_shared_experts",
                    "exchanges can overlap either shared experts or another micro-batch: "
                    "overlap_shared_experts and overlap_communication are both true",
                    "write overlap_shared_experts: false, or overlap_communication: false");
    }
    if (ranks() == 1) {
      RefuseOverlap("parallelism.expert",
                    "overlap_shared_experts hides exchanges of rows, but expert is 1",
                    "write expert: 2 or more, or write overlap_shared_experts: false");
    }
    if (request_.dispatcher.value_or(model::Dispatcher::kAllToAll) !=
        model::Dispatcher::kAllToAll) {
      RefuseOverlap(
          "experts.dispatcher",
          fmt::format("overlap_shared_experts needs the dispatcher all_to_all: dispatcher is {}",
                      model::Name(*request_.dispatcher)),
          "write dispatcher: all_to_all, or overlap_shared_experts: false");
    }
    if (request_.tensor.value_or(1) > 1) {
      RefuseOverlap("parallelism.tensor",
                    fmt::format("overlap_shared_experts is not modelled with tensor-parallel "
                                "shared experts: tensor is {}",
                                *request_.tensor),
                    "write tensor: 1, or overlap_shared_experts: false");
    }
  }

  void CheckOverlapWithSchedule() {
    if (request_.pipeline.value_or(1) == 1) return;
    if (ScheduleOf(request_).virtual_stages == 1) {
      RefuseOverlap("parallelism.virtual_stages",
                    "in a pipeline, overlap_communication needs several chunks per stage: "
                    "virtual_stages is 1",
                    "write virtual_stages: 2, or overlap_communication: false");
    } else if (!request_.overlap_p2p_comm.value_or(true)) {
      RefuseOverlap("data_parallel.overlap_p2p_comm",
                    "overlap_communication also overlaps the messages between stages, but "
                    "overlap_p2p_comm is false",
                    "omit overlap_p2p_comm");
    }
  }

  void CheckOverlapWithRecomputation() {
    const auto checkpointing =
        request_.activation_checkpointing.value_or(model::Checkpointing::kNone);
    const bool selective = checkpointing == model::Checkpointing::kSelective;
    if (checkpointing == model::Checkpointing::kFull) {
      RefuseOverlap("training.activation_checkpointing",
                    "overlap_communication cannot interleave blocks that are recomputed "
                    "completely: activation_checkpointing is full",
                    "write activation_checkpointing: selective, and recompute_modules without moe");
    } else if (selective && request_.recompute_modules &&
               request_.recompute_modules->Has(model::Module::kMixture)) {
      RefuseOverlap("training.recompute_modules",
                    "with overlap_communication, layers of experts cannot be recomputed, because "
                    "recomputation would exchange rows again",
                    "remove moe from recompute_modules; moe_act and layernorm are allowed");
    }
  }

  void RefuseOverlap(const char* key, std::string message, std::string hint) {
    Add(key, "plan.expert-overlap", std::move(message), std::move(hint));
  }
};

}  // namespace

void CheckExperts(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  ExpertRules(request, facts, violations).Run();
}

}  // namespace stepcast::plan
