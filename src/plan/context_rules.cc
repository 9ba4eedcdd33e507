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
          fmt::format("context parallelism is not supported with framework {}, but context is {}",
                      plan::Name(*request_.framework), ranks_),
          fmt::format("write context: 1, or framework: {}",
                      FrameworksWith(&FrameworkTraits::context_parallel)));
    }
    CheckModel();
    CheckMethod();
    CheckLengths();
    CheckOthers();
  }

 private:
  void RefuseAxis(std::string rule, const char* hint) {
    Add("parallelism.context", "plan.context", fmt::format("{}: context is {}", rule, ranks_),
        hint);
  }

  void CheckModel() {
    if (!facts_.has_ends) {
      RefuseAxis(
          "context parallelism divides attention, but a layer list does not describe attention",
          "write context: 1, or describe the model by its dimensions");
    }
    if (facts_.encoder.value_or(false)) {
      RefuseAxis(
          "context parallelism divides sequences, but an encoder's head needs all tokens of a "
          "sequence",
          "write context: 1, or use a decoder model");
    }
    CheckRecurrent();
    if (facts_.attention_window > 0 && method_ != ContextMethod::kAllToAll) {
      Refuse(fmt::format("with an attention window of {} tokens, context-parallel ranks have "
                         "unequal amounts of work",
                         facts_.attention_window),
             torch_ ? "write context: 1" : "write context_method: all_to_all");
    }
  }

  // Megatron-Core exchanges tokens for heads before a recurrent layer, and back after it.
  void CheckRecurrent() {
    if (facts_.recurrent.empty()) return;
    if (facts_.recurrent_without_context) {
      RefuseAxis(fmt::format("no framework supports context parallelism for {}", facts_.recurrent),
                 "write context: 1");
      return;
    }
    if (torch_) {
      RefuseAxis(fmt::format("PyTorch's context parallelism supports only attention, but the model "
                             "has layers of {}",
                             facts_.recurrent),
                 facts_.mixer_of_transformers.empty() ? "write context: 1, or framework: megatron"
                                                      : "write context: 1");
      return;
    }
    const std::int64_t ranks = ranks_ * request_.tensor.value_or(1);
    for (const std::int64_t heads : facts_.recurrent_heads) {
      if (heads % ranks == 0) continue;
      RefuseAxis(fmt::format("{} heads of {} are not divisible by {} ranks (tensor x context)",
                             heads, facts_.recurrent, ranks),
                 "choose tensor and context so that tensor x context is a divisor of the number of "
                 "heads");
    }
  }

  void Refuse(std::string rule, std::string hint) {
    Add("parallelism.context_method", "plan.context",
        fmt::format("{}: context_method is {}", rule, model::Name(method_)), std::move(hint));
  }

  void CheckMethod() {
    const bool inner = method_ == ContextMethod::kHierarchical;
    if (torch_ && method_ != ContextMethod::kRing && method_ != ContextMethod::kAllGather) {
      Refuse("PyTorch's context parallelism supports only the methods all_gather and ring",
             "write context_method: all_gather or ring, or write framework: megatron");
    }
    if (inner != request_.context_inner.has_value()) {
      Refuse(inner
                 ? "context_inner, the number of neighboring ranks that exchange heads, is missing"
                 : fmt::format("context_inner {} applies only to context_method: hierarchical",
                               *request_.context_inner),
             inner ? "write context_inner: 2, or another divisor of context"
                   : "omit context_inner, or write context_method: hierarchical");
      return;
    }
    if (inner && (*request_.context_inner >= ranks_ || ranks_ % *request_.context_inner != 0)) {
      Add("parallelism.context_inner", "plan.context",
          fmt::format("context_inner {} must be a divisor of context {}, and smaller than context",
                      *request_.context_inner, ranks_),
          "set context_inner to a smaller divisor of parallelism.context");
      return;
    }
    if (method_ != ContextMethod::kAllToAll && !inner) return;
    // The first two things that tensor parallelism divides are heads.
    const std::int64_t sharing = inner ? *request_.context_inner : ranks_;
    const std::int64_t tensor = request_.tensor.value_or(1);
    for (const auto& [name, extent, columns] : facts_.divided) {
      if (name == "intermediate_size" || extent % (tensor * sharing) == 0) continue;
      Refuse(fmt::format(
                 "the model's {} ({}) is not divisible by tensor {} x {} context-parallel ranks",
                 name, extent, tensor, sharing),
             fmt::format("choose degrees with a product that divides {}, or write context_method: "
                         "ring",
                         extent));
    }
  }

  void CheckLengths() {
    const std::int64_t tensor =
        request_.sequence_parallel.value_or(false) ? request_.tensor.value_or(1) : 1;
    const auto check = [&](const char* key, std::optional<std::int64_t> length,
                           std::int64_t parts) {
      if (!length || *length % parts == 0) return;
      Add(fmt::format("training.{}", key), "plan.context",
          fmt::format("{} tokens are not divisible by {} context-parallel ranks x 2 chunks{}",
                      *length, ranks_,
                      parts > 2 * ranks_ ? fmt::format(" x {} tensor-parallel ranks", tensor) : ""),
          fmt::format("write a length that is a multiple of {}", parts));
    };
    check("sequence_length", request_.sequence_length, 2 * ranks_ * tensor);
    check("document_length", request_.document_length, 2 * ranks_);
  }

  void CheckOthers() {
    if (request_.attention && model::FlashGeneration(*request_.attention) == 0) {
      Add("training.attention", "plan.context",
          fmt::format("context parallelism needs a fused attention kernel, because the kernel must "
                      "return row statistics: attention is {}",
                      model::Name(*request_.attention)),
          "write attention: flash, or context: 1");
    }
    if (request_.reshard_after_forward &&
        std::holds_alternative<std::int64_t>(*request_.reshard_after_forward)) {
      Add("data_parallel.reshard_after_forward", "plan.context",
          fmt::format("with context parallelism, reshard_after_forward must be true or false, but "
                      "is {} (context is {})",
                      std::get<std::int64_t>(*request_.reshard_after_forward), ranks_),
          "write reshard_after_forward: true or false, or write context: 1");
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
