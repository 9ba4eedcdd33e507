// Rules about losses that never hold all logits.
#include <cstdint>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class LossRules : public Rules {
 public:
  using Rules::Rules;

  void CheckAll() {
    if (!request_.loss || !model::MakesLogits(*request_.loss)) {
      if (!request_.loss_chunk) return;
      Add("training.loss_chunk", "plan.loss",
          fmt::format("loss_chunk is {}, but only loss: chunked computes the logits in chunks",
                      *request_.loss_chunk),
          "omit loss_chunk, or write loss: chunked");
      return;
    }
    const auto refuse = [&](const char* key, std::string_view rule, const char* hint) {
      Add(key, "plan.loss", fmt::format("{}: loss is {}", rule, model::Name(*request_.loss)), hint);
    };
    if (const std::int64_t tensor = request_.tensor.value_or(1); tensor > 1) {
      refuse("training.loss",
             fmt::format("with {} tensor-parallel ranks, the loss function needs all logits "
                         "at once",
                         tensor),
             "write loss: fused, or tensor: 1");
    }
    if (facts_.encoder.value_or(false)) {
      refuse(
          "training.loss",
          "chunked and cut losses are not modelled for encoders, which predict only masked tokens",
          "write loss: eager or fused");
    }
    const auto schedule = ScheduleOf(request_);
    const bool splits = schedule.named != nullptr
                            ? schedule.named->splits_backward
                            : request_.listed_schedule != nullptr &&
                                  parallel::SplitsBackward(*request_.listed_schedule);
    if (request_.pipeline.value_or(1) > 1 && splits) {
      refuse("training.loss",
             fmt::format(
                 "the schedule {} splits backward, so the weight gradient of the head would need "
                 "all logits at once",
                 schedule.name),
             "write loss: fused, or schedule: 1f1b");
    }
    CheckChunk();
  }

 private:
  // Each part takes four kernels of a step program.
  void CheckChunk() {
    constexpr std::int64_t kMostParts = 1 << 14;
    if (!request_.loss_chunk) return;
    if (*request_.loss != model::Loss::kChunked) {
      Add("training.loss_chunk", "plan.loss",
          fmt::format("loss_chunk is {}, but loss: cut keeps no logits in memory",
                      *request_.loss_chunk),
          "omit loss_chunk, or write loss: chunked");
      return;
    }
    const std::int64_t tokens = request_.micro_batch_size.value_or(1) *
                                request_.sequence_length.value_or(1) / request_.context.value_or(1);
    const std::int64_t parts = tokens / *request_.loss_chunk;
    if (parts <= kMostParts) return;
    Add("training.loss_chunk", "plan.loss",
        fmt::format(
            "a micro-batch can have at most {} chunks, but {} tokens in chunks of {} tokens need "
            "{} chunks",
            kMostParts, tokens, *request_.loss_chunk, parts),
        fmt::format("write loss_chunk: {} or more", tokens / kMostParts + 1));
  }
};

}  // namespace

void CheckLoss(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  LossRules(request, facts, violations).CheckAll();
}

}  // namespace stepcast::plan
