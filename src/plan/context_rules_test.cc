#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

using model::ContextMethod;

TEST(ContextRules, NameEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) {
         r.context = 2;
         r.framework = Framework::kDdp;
       },
       "parallelism.context", "plan.axis-not-of-framework",
       "context parallelism is not supported with framework ddp, but context is 2"},
      {[](Request& r) {
         r.context = 2;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.context_method = ContextMethod::kAllToAll;
       },
       "parallelism.context_method", "plan.context",
       "PyTorch's context parallelism supports only the methods all_gather and ring: "
       "context_method is all_to_all"},
      {[](Request& r) {
         r.context = 4;
         r.context_method = ContextMethod::kHierarchical;
       },
       "parallelism.context_method", "plan.context",
       "context_inner, the number of neighboring ranks that exchange heads, is missing: "
       "context_method is hierarchical"},
      {[](Request& r) {
         r.context = 4;
         r.context_inner = 2;
       },
       "parallelism.context_method", "plan.context",
       "context_inner 2 applies only to context_method: hierarchical: context_method is ring"},
      {[](Request& r) {
         r.context = 4;
         r.context_method = ContextMethod::kHierarchical;
         r.context_inner = 4;
       },
       "parallelism.context_inner", "plan.context",
       "context_inner 4 must be a divisor of context 4, and smaller than context"},
      {[](Request& r) {
         r.context = 4;
         r.sequence_length = 1020;
       },
       "training.sequence_length", "plan.context",
       "1020 tokens are not divisible by 4 context-parallel ranks x 2 chunks"},
      {[](Request& r) {
         r.context = 2;
         r.tensor = 2;
         r.sequence_parallel = true;
         r.sequence_length = 1020;
       },
       "training.sequence_length", "plan.context",
       "1020 tokens are not divisible by 2 context-parallel ranks x 2 chunks x 2 tensor-parallel "
       "ranks"},
      {[](Request& r) {
         r.context = 2;
         r.attention = model::Attention::kMath;
       },
       "training.attention", "plan.context",
       "context parallelism needs a fused attention kernel, because the kernel must return row "
       "statistics: attention is math"},
  };
  ExpectEach(cases);
}

// Limits that come from the model.
TEST(ContextRules, KnowWhatModelsCannotBeDivided) {
  Request request = Legal();
  request.context = 4;
  request.tensor = 2;
  request.context_method = ContextMethod::kAllToAll;
  Facts facts = EightDevices();
  facts.divided = {{"num_attention_heads", 32, 0}, {"num_key_value_heads", 4, 0}};
  std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].message,
            "the model's num_key_value_heads (4) is not divisible by tensor 2 x 4 context-parallel "
            "ranks: "
            "context_method is all_to_all");

  request = Legal();
  request.context = 2;
  facts = EightDevices();
  facts.attention_window = 128;
  violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].message,
            "with an attention window of 128 tokens, context-parallel ranks have unequal amounts "
            "of work: context_method is ring");

  facts = EightDevices();
  facts.encoder = true;
  violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].message,
            "context parallelism divides sequences, but an encoder's head needs all tokens of a "
            "sequence: context is 2");
}

}  // namespace
}  // namespace stepcast::plan
