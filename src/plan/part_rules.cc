// Rules about parts of models that only some frameworks, kernels and axes support: cross-attention,
// attention without a causal mask, mixers of transformers, inputs and predictions other than words.
#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/plan/legality.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class PartRules : public Rules {
 public:
  using Rules::Rules;

  void CheckAll() {
    CheckDistances();
    CheckMixer();
    if (facts_.unusual_part.empty()) return;
    CheckFramework(facts_.unusual_part);
    CheckAxes();
    CheckLoss();
    CheckDocuments();
    CheckRows();
  }

 private:
  // Frameworks with layers of their own have other models of these kinds.
  void CheckFramework(std::string_view part) {
    if (!request_.framework || !TraitsOf(*request_.framework).fuses_products) return;
    Add("framework", "plan.part-not-of-framework",
        fmt::format("models with {} are not supported with framework {}", part,
                    plan::Name(*request_.framework)),
        "write framework: ddp, fsdp1, fsdp2 or deepspeed");
  }

  // The costs of `reference` are those of an ideal implementation, which divides any mixer.
  void CheckMixer() {
    if (facts_.mixer_of_transformers.empty()) return;
    CheckFramework(facts_.mixer_of_transformers);
    const bool textbook = request_.framework && TraitsOf(*request_.framework).textbook;
    if (textbook && facts_.mixer_divides) return;
    RefuseAxis("tensor", request_.tensor.value_or(1), facts_.mixer_of_transformers);
  }

  void RefuseAxis(const char* axis, std::int64_t ranks, std::string_view part) {
    if (ranks <= 1) return;
    Add(fmt::format("parallelism.{}", axis), "plan.axis-not-supported-with",
        fmt::format("models with {} are not supported with {} parallelism: {}", part, axis, ranks),
        fmt::format("write {}: 1", axis));
  }
  void RefuseAxis(const char* axis, std::int64_t ranks) {
    RefuseAxis(axis, ranks, facts_.unusual_part);
  }

  void CheckAxes() {
    RefuseAxis("context", request_.context.value_or(1));
    if (request_.sequence_parallel.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.axis-not-supported-with",
          fmt::format("models with {} are not supported with sequence parallelism: "
                      "sequence_parallel is true",
                      facts_.unusual_part),
          "write sequence_parallel: false");
    }
    // The blocks of all stages add up the gradient of one table.
    if (facts_.distances && !facts_.reads_context) {
      RefuseAxis("pipeline", request_.pipeline.value_or(1), "numbers by distance");
    }
    if (!facts_.reads_context) return;
    RefuseAxis("tensor", request_.tensor.value_or(1));
    RefuseAxis("pipeline", request_.pipeline.value_or(1));
  }

  void CheckLoss() {
    if (facts_.predicts_words || !request_.loss || !model::MakesLogits(*request_.loss)) return;
    Add("training.loss", "plan.loss",
        fmt::format("loss is {}, but the head does not predict words", model::Name(*request_.loss)),
        "write loss: eager or fused");
  }

  void CheckDocuments() {
    if (!facts_.reads_context) return;
    constexpr std::string_view kRule =
        "cross-attention is not modelled for sequences of several documents";
    if (request_.document_length) {
      Add("training.document_length", "plan.document-length",
          fmt::format("{}: document_length is {}", kRule, *request_.document_length),
          "omit document_length");
    }
    if (request_.lengths) {
      Add("training.lengths", "plan.lengths", fmt::format("{}: lengths are given", kRule),
          "omit lengths");
    }
  }

  // The limits of a micro-batch's tokens hold for all rows.
  void CheckRows() {
    if (!request_.sequence_length || facts_.other_rows == 0) return;
    const std::int64_t micro_batch = request_.micro_batch_size.value_or(1);
    const std::int64_t rows = facts_.other_rows + *request_.sequence_length;
    if (micro_batch <= kMostTokens / rows && micro_batch * rows <= kMostTokenPairs / rows) return;
    Add("training.micro_batch_size", "plan.too-many-tokens",
        fmt::format("a micro-batch of {} sequences x {} rows is too large ({} rows per sequence "
                    "come from an encoder or from text conditioning)",
                    micro_batch, rows, facts_.other_rows),
        "use a smaller micro_batch_size or sequence_length");
  }

  void CheckDistances() {
    if (!facts_.distances || !request_.attention) return;
    const model::Attention attention = *request_.attention;
    if (attention == model::Attention::kMath || attention == model::Attention::kMathFp32) return;
    Add("training.attention", "plan.attention",
        fmt::format("fused attention kernels cannot add a trained bias to each score, but "
                    "attention is {}",
                    model::Name(attention)),
        "write attention: math_fp32 or math, or omit attention");
  }
};

}  // namespace

void CheckParts(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  PartRules(request, facts, violations).CheckAll();
}

}  // namespace stepcast::plan
