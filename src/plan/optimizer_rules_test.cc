#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

Request With(Optimizer optimizer, Framework framework) {
  Request request = Legal();
  request.optimizer = optimizer;
  request.framework = framework;
  request.zero_stage = IsFsdp(framework) ? 3 : 0;
  return request;
}

// Which framework supports which optimizer, by source.
TEST(OptimizerRules, FrameworksHaveTheirOptimizers) {
  using enum Framework;
  const std::pair<Optimizer, std::vector<Framework>> had[] = {
      {Optimizer::kLamb, {kReference, kDdp}},
      {Optimizer::kAdamW8bit, {kDdp, kFsdp1, kFsdp2, kDeepSpeed}},
      {Optimizer::kLion, {kDdp, kFsdp1}},
      {Optimizer::kAdafactor, {kDdp, kFsdp1}},
      {Optimizer::kMuon, {kDdp, kFsdp2, kMegatron}},
  };
  for (const auto& [optimizer, frameworks] : had) {
    for (const Framework framework : kFrameworks) {
      const std::vector<Violation> violations = Check(With(optimizer, framework), EightDevices());
      const std::string what = std::string(Name(optimizer)) + " with " + Name(framework);
      if (std::find(frameworks.begin(), frameworks.end(), framework) != frameworks.end()) {
        EXPECT_TRUE(violations.empty()) << what << ": " << violations.front().message;
        continue;
      }
      ASSERT_FALSE(violations.empty()) << what;
      EXPECT_EQ(violations.front().code, "plan.optimizer-not-of-framework") << what;
      EXPECT_EQ(violations.front().key, "training.optimizer") << what;
    }
  }
}

void ExpectFault(Request request, const Facts& facts, const std::string& key,
                 const std::string& code, const std::string& message) {
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1U) << message;
  EXPECT_EQ(violations[0].key, key);
  EXPECT_EQ(violations[0].code, code);
  EXPECT_EQ(violations[0].message, message);
  EXPECT_FALSE(violations[0].hint.empty());
}

TEST(OptimizerRules, NameEveryImpossibleCombinationWithBothValues) {
  constexpr const char* kCode = "plan.optimizer-not-of-framework";
  Request request = With(Optimizer::kAdamW8bit, Framework::kDdp);
  request.optimizer_implementation = OptimizerImplementation::kFused;
  ExpectFault(
      request, EightDevices(), "training.optimizer_implementation", kCode,
      "adamw_8bit uses its own kernels, one per tensor, but optimizer_implementation is fused");
  request = With(Optimizer::kAdamW8bit, Framework::kDdp);
  request.optimizer_state_dtype = DataType::kBf16;
  ExpectFault(request, EightDevices(), "training.optimizer_state_dtype", kCode,
              "adamw_8bit always keeps moments in fp32, but optimizer_state_dtype is bf16");
  request = With(Optimizer::kLion, Framework::kDdp);
  request.master_weights = MasterWeights::kFp32;
  ExpectFault(request, EightDevices(), "training.master_weights", kCode,
              "lion keeps no master weights, but master_weights is fp32");
  request = With(Optimizer::kMuon, Framework::kMegatron);
  request.zero_stage = 1;
  ExpectFault(request, EightDevices(), "data_parallel.zero_stage", kCode,
              "Megatron-LM's muon does not support the distributed optimizer (dist_muon, which "
              "distributes complete matrices, is not modelled): zero_stage is 1");
  Facts facts = EightDevices();
  facts.matrix_rows = {4096, 100};
  ExpectFault(With(Optimizer::kMuon, Framework::kFsdp2), facts, "training.optimizer", kCode,
              "Dion's Muon exchanges equal parts of each matrix, but 100 rows are not divisible by "
              "8 ranks");
}

TEST(OptimizerRules, UpdatesInBackwardHaveOneGradientAtATime) {
  constexpr const char* kCode = "plan.optimizer-in-backward";
  Request early = With(Optimizer::kAdamW, Framework::kFsdp2);
  early.gradient_accumulation = 1;
  early.optimizer_in_backward = true;
  EXPECT_TRUE(Check(early, EightDevices()).empty());
  Request request = early;
  request.gradient_accumulation = 2;
  ExpectFault(request, EightDevices(), "training.gradient_accumulation", kCode,
              "with optimizer_in_backward, each backward updates the parameters, but "
              "gradient_accumulation is 2");
  request = early;
  request.gradient_clipping = 1.0;
  ExpectFault(request, EightDevices(), "training.gradient_clipping", kCode,
              "gradient clipping needs the norm of all gradients before the first update, but "
              "optimizer_in_backward is true");
}

}  // namespace
}  // namespace stepcast::plan
