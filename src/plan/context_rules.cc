// Rules about context parallelism.
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

using model::ContextMethod;

class ContextRules : public Rules {
 public:
  ContextRules(const Request& request, const Facts& facts, std::vector<Violation>& violations)
      : Rules(request, facts, violations),
        ranks_(request.context.value_or(1)),
        method_(ContextMethodOf(request)),
        torch_(request.framework && StyleOf(*request.framework).layers.torch_context) {}

  void CheckAll() {
    if (ranks_ == 1) return;
    if (request_.framework && !TraitsOf(*request_.framework).context_parallel) {
      Add("parallelism.context", "plan.axis-not-of-framework",
          fmt::format("context parallelism of {} is not supported: {}",
                      plan::Name(*request_.framework), ranks_),
          fmt::format("leave it at 1, or write framework: {}",
                      FrameworksWith(&FrameworkTraits::context_parallel)));
    }
    CheckModel();
    CheckMethod();
    CheckLengths();
    CheckOthers();
  }

 private:
  void RefuseAxis(std::string rule, const char* hint) {
    Add("parallelism.context", "plan.context", fmt::format("{}, and context is {}", rule, ranks_),
        hint);
  }

  void CheckModel() {
    if (!facts_.has_ends) {
      RefuseAxis("a layer list says nothing of attention",
                 "leave it at 1, or describe the model by its architecture");
    }
    if (facts_.encoder.value_or(false)) {
      RefuseAxis("an encoder's head takes its tokens from the whole sequence",
                 "leave it at 1, or take a decoder");
    }
    CheckRecurrent();
    if (facts_.attention_window > 0 && method_ != ContextMethod::kAllToAll) {
      Refuse(fmt::format("tokens see a window of {}, which parts of sequences do not balance",
                         facts_.attention_window),
             torch_ ? "write context: 1" : "write context_method: all_to_all");
    }
  }

  // Megatron-Core exchanges tokens for heads before a recurrent layer, and back after it.
  void CheckRecurrent() {
    if (facts_.recurrent.empty()) return;
    if (facts_.recurrent_by_channel) {
      RefuseAxis(fmt::format("no framework divides the sequences of {}", facts_.recurrent),
                 "leave it at 1");
      return;
    }
    if (torch_) {
      RefuseAxis(fmt::format("PyTorch's context parallelism divides attention alone, and the model "
                             "has layers of {}",
                             facts_.recurrent),
                 "leave it at 1, or write framework: megatron");
      return;
    }
    const std::int64_t ranks = ranks_ * request_.tensor.value_or(1);
    for (const std::int64_t heads : facts_.recurrent_heads) {
      if (heads % ranks == 0) continue;
      RefuseAxis(fmt::format("{} heads of {} do not divide among {} ranks of tensor and context "
                             "parallelism",
                             heads, facts_.recurrent, ranks),
                 "choose divisors");
    }
  }

  void Refuse(std::string rule, std::string hint) {
    Add("parallelism.context_method", "plan.context",
        fmt::format("{}, and context_method is {}", rule, model::Name(method_)), std::move(hint));
  }

  void CheckMethod() {
    const bool inner = method_ == ContextMethod::kHierarchical;
    if (torch_ && method_ != ContextMethod::kRing && method_ != ContextMethod::kAllGather) {
      Refuse("PyTorch's context parallelism is a ring or gathers keys and values",
             "write context_method: all_gather or ring, or framework: megatron");
    }
    if (inner != request_.context_inner.has_value()) {
      Refuse(inner ? "a hierarchy needs to know how many neighbours share out heads"
                   : fmt::format("context_inner {} is of a hierarchy", *request_.context_inner),
             inner ? "write context_inner: 2, or another divisor of context"
                   : "leave context_inner out, or write context_method: hierarchical");
      return;
    }
    if (inner && (*request_.context_inner >= ranks_ || ranks_ % *request_.context_inner != 0)) {
      Add("parallelism.context_inner", "plan.context",
          fmt::format("context_inner {} is no part of context {}", *request_.context_inner, ranks_),
          "write a divisor of context, less than it");
      return;
    }
    if (method_ != ContextMethod::kAllToAll && !inner) return;
    // The first two things that tensor parallelism divides are heads.
    const std::int64_t sharing = inner ? *request_.context_inner : ranks_;
    const std::int64_t tensor = request_.tensor.value_or(1);
    for (const auto& [name, extent, columns] : facts_.divided) {
      if (name == "intermediate_size" || extent % (tensor * sharing) == 0) continue;
      Refuse(fmt::format("the model's {} of {} does not divide among tensor {} x {} ranks", name,
                         extent, tensor, sharing),
             "choose divisors, or write context_method: ring");
    }
  }

  void CheckLengths() {
    const std::int64_t tensor =
        request_.sequence_parallel.value_or(false) ? request_.tensor.value_or(1) : 1;
    const auto check = [&](const char* key, std::optional<std::int64_t> length,
                           std::int64_t parts) {
      if (!length || *length % parts == 0) return;
      Add(fmt::format("training.{}", key), "plan.context",
          fmt::format("{} tokens do not divide among {} ranks, two chunks each{}", *length, ranks_,
                      parts > 2 * ranks_ ? fmt::format(", in parts of {}", tensor) : ""),
          fmt::format("choose a multiple of {}", parts));
    };
    check("sequence_length", request_.sequence_length, 2 * ranks_ * tensor);
    check("document_length", request_.document_length, 2 * ranks_);
  }

  void CheckOthers() {
    if (request_.attention && model::FlashGeneration(*request_.attention) == 0) {
      Add("training.attention", "plan.context",
          fmt::format("parts of sequences are put together with what fused attention says of each "
                      "row, and attention is {}",
                      model::Name(*request_.attention)),
          "write attention: flash, or context: 1");
    }
    if (request_.reshard_after_forward &&
        std::holds_alternative<std::int64_t>(*request_.reshard_after_forward)) {
      Add("data_parallel.reshard_after_forward", "plan.context",
          fmt::format("parameters are kept in shards over a part of the data-parallel ranks alone, "
                      "reshard_after_forward is {}, and context is {}",
                      std::get<std::int64_t>(*request_.reshard_after_forward), ranks_),
          "write true or false, or context: 1");
    }
  }

  const std::int64_t ranks_;
  const ContextMethod method_;
  const bool torch_;  // PyTorch divides the sequences
};

}  // namespace

void CheckContext(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  ContextRules(request, facts, violations).CheckAll();
}

}  // namespace stepcast::plan
