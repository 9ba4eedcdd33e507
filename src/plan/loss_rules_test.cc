#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

TEST(LossRules, NameEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) { r.loss_chunk = 128; }, "training.loss_chunk", "plan.loss",
       "loss_chunk is 128, but only loss: chunked computes the logits in chunks"},
      {[](Request& r) {
         r.loss = model::Loss::kCut;
         r.loss_chunk = 128;
       },
       "training.loss_chunk", "plan.loss",
       "loss_chunk is 128, but loss: cut keeps no logits in memory"},
      {[](Request& r) {
         r.loss = model::Loss::kChunked;
         r.tensor = 2;
       },
       "training.loss", "plan.loss",
       "with 2 tensor-parallel ranks, the loss function needs all logits at once: loss is chunked"},
      {[](Request& r) {
         r.loss = model::Loss::kChunked;
         r.pipeline = 4;
         r.schedule = "zb_h1";
       },
       "training.loss", "plan.loss",
       "the schedule zb_h1 splits backward, so the weight gradient of the head would need all "
       "logits at once: loss is chunked"},
      {[](Request& r) {
         r.loss = model::Loss::kChunked;
         r.micro_batch_size = 1 << 10;
         r.loss_chunk = 63;
       },
       "training.loss_chunk", "plan.loss",
       "a micro-batch can have at most 16384 chunks, but 1048576 tokens in chunks of 63 tokens "
       "need 16644 chunks"},
  };
  ExpectEach(cases);
}

TEST(LossRules, EncodersHaveMaskedTokens) {
  Request request = Legal();
  request.loss = model::Loss::kCut;
  Facts facts = EightDevices();
  facts.encoder = true;
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].message,
            "chunked and cut losses are not modelled for encoders, which predict only masked "
            "tokens: loss is cut");
}

}  // namespace
}  // namespace stepcast::plan
