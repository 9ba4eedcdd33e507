#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/model/recomputation.h"
#include "src/plan/legality.h"
#include "src/plan/legality_rules.h"

// Rules about sample lengths: what they exclude, and that every rule holds for each length.
namespace stepcast::plan {
namespace {

class LengthRules : public Rules {
 public:
  using Rules::Rules;

  void Run() {
    if (!request_.lengths || !request_.sequence_length) return;
    const Lengths& lengths = *request_.lengths;
    if (request_.document_length) {
      Refuse(fmt::format("document_length {} and lengths cannot both be set, because "
                         "document_length is shorthand for lengths with one entry",
                         *request_.document_length),
             "omit one of the two keys: --set training.document_length=null");
    }
    if (lengths.batching == Batching::kPacked) {
      CheckPacked(lengths.histogram);
    } else {
      CheckPadded(lengths.histogram);
    }
  }

 private:
  void Refuse(std::string message, std::string hint) {
    Add("training.lengths", "plan.lengths", std::move(message), std::move(hint));
  }

  void CheckPacked(const model::SampleLengths& lengths) {
    const std::int64_t longest = lengths.back().tokens;
    if (longest > *request_.sequence_length) {
      Refuse(fmt::format("samples of {} tokens do not fit into sequences of {} tokens", longest,
                         *request_.sequence_length),
             fmt::format("write sequence_length: {} or more, or write the lengths after truncation",
                         longest));
    }
    if (request_.attention && model::FlashGeneration(*request_.attention) == 0) {
      Refuse(fmt::format(
                 "lengths are not supported with attention: {}, which computes all scores of a "
                 "sequence and masks the scores between documents",
                 model::Name(*request_.attention)),
             "omit lengths, or write attention: flash");
    }
    const std::int64_t context = request_.context.value_or(1);
    if (context <= 1) return;
    Refuse(
        fmt::format(
            "context parallelism is not modelled for documents of different lengths: context is {}",
            context),
        fmt::format("use one document length: --set training.lengths=null --set "
                    "training.document_length={} (the token-weighted mean is {:.0f})",
                    DividingLength(model::MeanLengthOfTokens(lengths), 2 * context),
                    model::MeanLengthOfTokens(lengths)));
  }

  // The largest multiple of `multiple` that divides a sequence and is no longer than the mean; if
  // there is none, the smallest such part.
  std::int64_t DividingLength(double mean, std::int64_t multiple) const {
    const std::int64_t sequence = *request_.sequence_length;
    std::int64_t found = sequence;
    for (std::int64_t parts = 1; parts <= sequence / multiple; ++parts) {
      if (sequence % parts != 0 || sequence / parts % multiple != 0) continue;
      found = sequence / parts;
      if (static_cast<double>(found) <= mean) break;
    }
    return found;
  }

  void CheckPadded(const model::SampleLengths& lengths) {
    const std::int64_t longest = lengths.back().tokens;
    if (longest != *request_.sequence_length) {
      Refuse(
          fmt::format("the longest sample has {} tokens, but micro-batches are padded to "
                      "sequence_length {}",
                      longest, *request_.sequence_length),
          fmt::format("write sequence_length: {}, or write the lengths after truncation", longest));
      return;
    }
    if (request_.pipeline.value_or(1) > 1) {
      Refuse(
          fmt::format(
              "micro-batches of different lengths are not modelled in a pipeline: pipeline is {}",
              *request_.pipeline),
          "write batching: packed, or parallelism.pipeline: 1");
      return;
    }
    // The rules apply to each length.
    for (const model::SampleLength& length : lengths) {
      if (length.tokens == longest) continue;
      Request alike = request_;
      alike.lengths.reset();
      alike.sequence_length = length.tokens;
      for (Violation& broken : Check(alike, facts_)) {
        if (AtLongest(broken)) continue;
        Refuse(fmt::format("for samples of {} tokens: {}", length.tokens, broken.message),
               std::move(broken.hint));
        return;
      }
    }
  }

  // Whether the same rule is broken for every length.
  bool AtLongest(const Violation& broken) {
    if (!at_longest_) {
      Request alike = request_;
      alike.lengths.reset();
      at_longest_ = Check(alike, facts_);
    }
    return std::any_of(at_longest_->begin(), at_longest_->end(), [&](const Violation& own) {
      return own.code == broken.code && own.key == broken.key;
    });
  }

  std::optional<std::vector<Violation>> at_longest_;
};

}  // namespace

void CheckLengths(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  LengthRules(request, facts, violations).Run();
}

}  // namespace stepcast::plan
