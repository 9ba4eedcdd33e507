#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

// Mixtral's experts, on eight devices.
Facts EightExperts() {
  Facts facts = EightDevices();
  facts.divided = {{"num_attention_heads", 32}, {"num_key_value_heads", 8, 128}};
  facts.experts = 8;
  facts.expert_width = 14336;
  return facts;
}

Request Megatron() {
  Request request = Legal();
  request.framework = Framework::kMegatron;
  return request;
}

void ExpectFault(const Facts& facts, const std::function<void(Request&)>& change,
                 const std::string& key, const std::string& code, const std::string& message) {
  Request request = Megatron();
  change(request);
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1U) << message;
  EXPECT_EQ(violations[0].key, key);
  EXPECT_EQ(violations[0].code, code);
  EXPECT_EQ(violations[0].message, message);
  EXPECT_FALSE(violations[0].hint.empty());
}

TEST(ExpertRules, ExpertsAreSharedOutAmongDivisorsOfTheRanksOfAStage) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    Request request = Megatron();
    request.expert = ranks;
    EXPECT_TRUE(Check(request, EightExperts()).empty()) << ranks;
  }
  // Tensor-parallel ranks are among those that share experts out.
  Request folded = Megatron();
  folded.tensor = 2;
  folded.sequence_parallel = true;
  folded.expert = 8;
  folded.expert_tensor = 1;
  EXPECT_TRUE(Check(folded, EightExperts()).empty());
}

// Behind the products of parts of experts every rank has the whole bias.
TEST(ExpertRules, BiasesOfExpertsAreNotDivided) {
  Facts biased = EightExperts();
  biased.expert_biases = true;
  ExpectFault(
      biased,
      [](Request& r) {
        r.expert = 2;
        r.expert_tensor = 2;
      },
      "parallelism.expert_tensor", "plan.experts-not-supported-with",
      "biases behind experts of which ranks have parts are not modelled: expert_tensor is 2");
  Request whole = Megatron();
  whole.expert = 4;
  EXPECT_TRUE(Check(whole, biased).empty());
}

TEST(ExpertRules, NameEveryImpossibleCombinationWithBothValues) {
  Facts nine = EightExperts();
  nine.devices = 9;
  ExpectFault(
      nine, [](Request& r) { r.expert = 3; }, "parallelism.expert", "plan.expert-division",
      "the model's 8 experts do not divide among 3 ranks");
  Facts few = EightExperts();
  few.devices = 4;
  ExpectFault(
      few, [](Request& r) { r.expert = 8; }, "parallelism.expert", "plan.expert-folding",
      "expert x expert_tensor, 8 x 1, must divide tensor x context x data, 1 x 1 x 4");
  ExpectFault(
      EightExperts(),
      [](Request& r) {
        r.framework = Framework::kDdp;
        r.expert = 2;
      },
      "parallelism.expert", "plan.axis-not-of-framework",
      "expert parallelism of ddp is not modelled: 2");
  ExpectFault(
      EightExperts(), [](Request& r) { r.tensor = 2; }, "parallelism.sequence_parallel",
      "plan.experts-need-sequence-parallel",
      "ranks that share layers each route their own part of the tokens to the experts, and "
      "sequence_parallel is false");
  ExpectFault(
      EightExperts(),
      [](Request& r) {
        r.expert = 2;
        r.imbalance = 3;
      },
      "experts.imbalance", "plan.expert-imbalance",
      "the rank with most rows has at most all of them, 2 times the mean of 2 ranks: 3");
  Facts dense = EightExperts();
  dense.experts = 0;
  ExpectFault(
      dense, [](Request& r) { r.expert = 2; }, "parallelism.expert", "plan.no-experts",
      "the model has no experts to share out: 2");
}

}  // namespace
}  // namespace stepcast::plan
