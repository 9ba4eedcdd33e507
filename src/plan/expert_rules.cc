// The experts of a mixture: which ranks may share them out, and what goes with them.
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
  }

 private:
  std::int64_t ranks() const { return request_.expert.value_or(1); }
  std::int64_t parts() const { return ExpertTensorOf(request_, facts_.experts > 0); }

  // A layer list may say what its ranks exchange along the expert axis. What the model is may not
  // be known: then nothing is said of it.
  void CheckWithoutExperts() {
    if (!facts_.has_ends) {
      CheckFramework();
      CheckFolding();
      return;
    }
    if (facts_.divided.empty()) return;
    for (const auto& [key, degree] :
         {std::pair{"parallelism.expert", request_.expert},
          std::pair{"parallelism.expert_tensor", request_.expert_tensor}}) {
      if (degree.value_or(1) == 1) continue;
      Add(key, "plan.no-experts", fmt::format("the model has no experts to share out: {}", *degree),
          "leave it at 1, or train a mixture of experts");
    }
  }

  void CheckFramework() {
    if (ranks() == 1 || !request_.framework || TraitsOf(*request_.framework).expert_parallel)
      return;
    const char* const others = StyleOf(*request_.framework).other_experts;
    Add("parallelism.expert", "plan.axis-not-of-framework",
        fmt::format("expert parallelism of {} is not modelled: {}", plan::Name(*request_.framework),
                    ranks()),
        fmt::format("leave it at 1, so that every rank has all experts, or write framework: "
                    "megatron or fsdp2{}",
                    others != nullptr ? fmt::format(" ({}, are not modelled)", others) : ""));
  }

  void CheckDegrees() {
    CheckFramework();
    if (facts_.experts % ranks() != 0) {
      Add("parallelism.expert", "plan.expert-division",
          fmt::format("the model's {} experts do not divide among {} ranks", facts_.experts,
                      ranks()),
          "choose a divisor");
    }
    if (facts_.expert_width % parts() != 0) {
      Add("parallelism.expert_tensor", "plan.expert-division",
          fmt::format("an expert's width of {} does not divide among {} ranks", facts_.expert_width,
                      parts()),
          "choose a divisor");
    }
    CheckTensor();
  }

  void CheckTensor() {
    if (request_.tensor.value_or(1) == 1 || !request_.framework) return;
    if (!TraitsOf(*request_.framework).expert_parallel) {
      Add("parallelism.tensor", "plan.experts-not-supported-with",
          fmt::format("mixtures with tensor parallelism of {} are not modelled",
                      plan::Name(*request_.framework)),
          "leave tensor at 1, or write framework: megatron or fsdp2");
      return;
    }
    if (!request_.sequence_parallel.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.experts-need-sequence-parallel",
          "ranks that share layers each route their own part of the tokens to the experts, and "
          "sequence_parallel is false",
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
          fmt::format("expert x expert_tensor, {} x {}, must divide tensor x context x data, {} x "
                      "{} x {}",
                      ranks(), parts(), request_.tensor.value_or(1), request_.context.value_or(1),
                      *data),
          parts() > 1 ? "write expert_tensor: 1, or a smaller expert" : "choose a smaller expert");
      return;
    }
    const std::int64_t replicas = *data / request_.shard_group_size.value_or(*data);
    if (replicas > 0 && (of_stage / folded) % replicas != 0) {
      Add("data_parallel.shard_group_size", "plan.expert-folding",
          fmt::format("{} ranks have the same experts, and their states would lie in {} copies",
                      of_stage / folded, replicas),
          "leave shard_group_size out, or choose a smaller expert");
    }
  }

  void CheckImbalance() {
    if (request_.pad_to_capacity.value_or(false) && !request_.capacity_factor) {
      Add("experts.pad_to_capacity", "plan.expert-capacity",
          "experts without a capacity are not filled up to it, and pad_to_capacity is true",
          "write a capacity_factor such as 1.25, or pad_to_capacity: false");
    }
    if (!request_.imbalance) return;
    const auto most = static_cast<double>(ranks());
    if (*request_.imbalance <= most) return;
    Add("experts.imbalance", "plan.expert-imbalance",
        fmt::format("the rank with most rows has at most all of them, {} times the mean of {} "
                    "ranks: {}",
                    ranks(), ranks(), *request_.imbalance),
        ranks() == 1 ? "leave it out: one rank has all experts"
                     : "choose a number between 1 and parallelism.expert");
  }

  void CheckWith() {
    const auto refuse = [&](const char* key, std::string message, std::string hint) {
      Add(key, "plan.experts-not-supported-with", std::move(message), std::move(hint));
    };
    if (request_.lora) {
      refuse("training.lora", "adapters of a mixture's layers are not modelled",
             "leave lora out, or take a dense model");
    }
    const bool divided = ranks() > 1 || parts() > 1;
    const auto* kept = request_.reshard_after_forward
                           ? std::get_if<std::int64_t>(&*request_.reshard_after_forward)
                           : nullptr;
    if (divided && kept != nullptr) {
      refuse("data_parallel.reshard_after_forward",
             fmt::format("parts of experts that ranks share out are not kept yet, and "
                         "reshard_after_forward is {}",
                         *kept),
             "write true or false, or expert: 1");
    }
    if (divided && request_.cpu_offload.value_or(false)) {
      refuse("data_parallel.cpu_offload",
             "parameters of experts that ranks share out are not offloaded yet",
             "write cpu_offload: false, or expert: 1");
    }
    if (divided && request_.precision == DataType::kFp16) {
      refuse("training.precision",
             "overflows are not looked for in experts that ranks share out, and precision is fp16",
             "write precision: bf16");
    }
    if (facts_.expert_biases && parts() > 1) {
      refuse("parallelism.expert_tensor",
             fmt::format("biases behind experts of which ranks have parts are not modelled: "
                         "expert_tensor is {}",
                         parts()),
             "write expert_tensor: 1");
    }
    const bool once = request_.dispatcher && model::SendsTokensOnce(*request_.dispatcher);
    if (once && parts() > 1) {
      refuse("parallelism.expert_tensor",
             fmt::format("{} with parts of experts is not modelled: expert_tensor is {}",
                         model::Name(*request_.dispatcher), parts()),
             "write expert_tensor: 1, or dispatcher: all_to_all");
    }
    if (divided && request_.optimizer_cpu_offload.value_or(false)) {
      refuse("data_parallel.optimizer_cpu_offload",
             "states of experts that ranks share out are not offloaded yet",
             "write optimizer_cpu_offload: false, or expert: 1");
    }
  }
};

}  // namespace

void CheckExperts(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  ExpertRules(request, facts, violations).Run();
}

}  // namespace stepcast::plan
