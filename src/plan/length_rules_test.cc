#include <optional>

#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

Lengths Packed(model::SampleLengths histogram) {
  return {.batching = Batching::kPacked, .histogram = std::move(histogram)};
}
Lengths Padded(model::SampleLengths histogram) {
  return {.batching = Batching::kPadded, .histogram = std::move(histogram)};
}

TEST(LengthRules, NameEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) {
         r.lengths = Packed({{256, 1}, {512, 1}});
         r.document_length = 256;
       },
       "training.lengths", "plan.lengths",
       "document_length 256 and lengths cannot both be set, because document_length is shorthand "
       "for lengths with one entry"},
      {[](Request& r) {
         r.lengths = Packed({{256, 1}, {2048, 1}});
       },
       "training.lengths", "plan.lengths",
       "samples of 2048 tokens do not fit into sequences of 1024 tokens"},
      {[](Request& r) {
         r.lengths = Packed({{256, 1}});
         r.attention = model::Attention::kMath;
       },
       "training.lengths", "plan.lengths",
       "lengths are not supported with attention: math, which computes all scores of a sequence "
       "and "
       "masks the scores between documents"},
      {[](Request& r) {
         r.lengths = Packed({{256, 1}, {512, 1}});
         r.context = 2;
       },
       "training.lengths", "plan.lengths",
       "context parallelism is not modelled for documents of different lengths: context is 2"},
      {[](Request& r) {
         r.lengths = Padded({{256, 1}, {512, 1}});
       },
       "training.lengths", "plan.lengths",
       "the longest sample has 512 tokens, but micro-batches are padded to sequence_length 1024"},
      {[](Request& r) {
         r.lengths = Padded({{256, 1}, {1024, 1}});
         r.pipeline = 2;
       },
       "training.lengths", "plan.lengths",
       "micro-batches of different lengths are not modelled in a pipeline: pipeline is 2"},
      {[](Request& r) {
         r.lengths = Padded({{250, 1}, {1024, 1}});
         r.context = 2;
       },
       "training.lengths", "plan.lengths",
       "for samples of 250 tokens: 250 tokens are not divisible by 2 context-parallel ranks x 2 "
       "chunks"},
  };
  ExpectEach(cases);
}

TEST(LengthRules, TakeWhatEachLengthCanHave) {
  Request request = Legal();
  request.lengths = Padded({{256, 3}, {1024, 1}});
  EXPECT_TRUE(Check(request, EightDevices()).empty());
  request.lengths = Packed({{100, 3}, {1000, 1}});  // they need not divide the sequence
  EXPECT_TRUE(Check(request, EightDevices()).empty());
}

}  // namespace
}  // namespace stepcast::plan
