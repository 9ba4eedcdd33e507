#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

std::vector<std::string> Codes(const Request& request, const Facts& facts) {
  std::vector<Violation> violations;
  CheckParts(request, facts, violations);
  std::vector<std::string> codes;
  for (const Violation& violation : violations) {
    codes.push_back(violation.key + " " + violation.code);
  }
  return codes;
}

Facts Reading() {
  Facts facts;
  facts.unusual_part = "cross-attention";
  facts.reads_context = true;
  return facts;
}

TEST(PartRulesTest, FrameworksWithLayersOfTheirOwnLackThem) {
  Request request;
  for (const Framework framework : {Framework::kMegatron, Framework::kNanotron}) {
    request.framework = framework;
    EXPECT_EQ(Codes(request, Reading()),
              std::vector<std::string>{"framework plan.part-not-of-framework"});
    EXPECT_TRUE(Codes(request, Facts()).empty());
  }
  for (const Framework framework : {Framework::kDdp, Framework::kFsdp1, Framework::kFsdp2,
                                    Framework::kDeepSpeed, Framework::kReference}) {
    request.framework = framework;
    EXPECT_TRUE(Codes(request, Reading()).empty());
  }
}

TEST(PartRulesTest, OnlyTransformersHasSomeMixers) {
  Facts facts;
  facts.mixer_of_transformers = "short convolutions";
  Request request;
  request.tensor = 2;
  request.framework = Framework::kMegatron;
  EXPECT_EQ(Codes(request, facts),
            (std::vector<std::string>{"framework plan.part-not-of-framework",
                                      "parallelism.tensor plan.axis-not-supported-with"}));
  request.framework = Framework::kFsdp2;
  EXPECT_EQ(Codes(request, facts),
            std::vector<std::string>{"parallelism.tensor plan.axis-not-supported-with"});
  request.framework = Framework::kReference;
  EXPECT_EQ(Codes(request, facts),
            std::vector<std::string>{"parallelism.tensor plan.axis-not-supported-with"});
  facts.mixer_divides = true;
  EXPECT_TRUE(Codes(request, facts).empty());
}

TEST(PartRulesTest, RefuseAxes) {
  Request request;
  request.tensor = 2;
  request.pipeline = 2;
  request.context = 2;
  request.sequence_parallel = true;
  EXPECT_EQ(Codes(request, Reading()),
            (std::vector<std::string>{"parallelism.context plan.axis-not-supported-with",
                                      "parallelism.sequence_parallel plan.axis-not-supported-with",
                                      "parallelism.tensor plan.axis-not-supported-with",
                                      "parallelism.pipeline plan.axis-not-supported-with"}));
  // An encoder alone has no other rows to read.
  Facts alone;
  alone.unusual_part = "attention without a causal mask";
  request.sequence_parallel = false;
  EXPECT_EQ(Codes(request, alone),
            std::vector<std::string>{"parallelism.context plan.axis-not-supported-with"});
}

TEST(PartRulesTest, TorchtitanHasNoFurtherTokensWithContextRanks) {
  Request request = Legal();
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  request.context = 2;
  Facts facts = EightDevices();
  EXPECT_TRUE(Check(request, facts).empty());
  facts.predicts_further = true;
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].key, "parallelism.context");
  EXPECT_EQ(violations[0].code, "plan.axis-not-supported-with");
}

// Megatron-LM divides sequences of recurrent layers among ranks, but has no short convolutions.
TEST(PartRulesTest, HintsForContextNameFrameworksWithTheMixer) {
  Request request = Legal();
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  request.context = 2;
  Facts facts = EightDevices();
  facts.recurrent = "short convolutions";
  EXPECT_EQ(Check(request, facts).at(0).hint, "write context: 1, or framework: megatron");
  facts.mixer_of_transformers = facts.recurrent;
  EXPECT_EQ(Check(request, facts).at(0).hint, "write context: 1");
}

TEST(PartRulesTest, NumbersByDistanceStayOnOneStage) {
  Request request;
  request.pipeline = 2;
  Facts facts;
  facts.unusual_part = "attention without a causal mask";
  EXPECT_TRUE(Codes(request, facts).empty());
  facts.distances = true;
  EXPECT_EQ(Codes(request, facts),
            std::vector<std::string>{"parallelism.pipeline plan.axis-not-supported-with"});
}

TEST(PartRulesTest, RefuseKernelsAndLosses) {
  Request request;
  request.attention = model::Attention::kFlash;
  Facts facts;
  facts.distances = true;
  EXPECT_EQ(Codes(request, facts), std::vector<std::string>{"training.attention plan.attention"});
  request.attention = model::Attention::kMathFp32;
  EXPECT_TRUE(Codes(request, facts).empty());
  facts.unusual_part = "a head that does not predict words";
  facts.predicts_words = false;
  request.loss = model::Loss::kCut;
  EXPECT_EQ(Codes(request, facts), std::vector<std::string>{"training.loss plan.loss"});
  request.document_length = 128;
  request.loss = model::Loss::kFused;
  EXPECT_TRUE(Codes(request, facts).empty());
  EXPECT_EQ(Codes(request, Reading()),
            std::vector<std::string>{"training.document_length plan.document-length"});
}

}  // namespace
}  // namespace stepcast::plan
