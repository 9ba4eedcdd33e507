#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

void Fsdp2(Request& request) {
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
}

void Megatron(Request& request) {
  request.framework = Framework::kMegatron;
  request.zero_stage = 1;
}

TEST(OptimizerStateRules, NameEveryImpossibleCombinationWithBothValues) {
  constexpr const char* kMaster = "training.master_weights";
  constexpr const char* kStates = "training.optimizer_state_dtype";
  constexpr const char* kNotOfFramework = "plan.dtype-not-of-framework";
  const Case cases[] = {
      {[](Request& r) {
         r.precision = DataType::kFp16;
         Fsdp2(r);
       },
       kMaster, "plan.master-weights",
       "without master weights, rounding and underflow lose updates of fp16 parameters: "
       "PyTorch's optimizers keep no master weights"},
      {[](Request& r) {
         r.precision = DataType::kFp16;
         r.master_weights = MasterWeights::kNone;
       },
       kMaster, "plan.master-weights",
       "without master weights, rounding and underflow lose updates of fp16 parameters: "
       "master_weights is none"},
      {[](Request& r) {
         r.precision = DataType::kFp16;
         r.master_weights = MasterWeights::kFp16Remainder;
         Megatron(r);
       },
       kMaster, "plan.master-weights",
       "fp16_remainder extends only bf16 parameters to FP32, but the parameters have the type "
       "fp16"},
      {[](Request& r) {
         r.parameter_dtype = DataType::kFp32;
         r.master_weights = MasterWeights::kFp16Remainder;
       },
       kMaster, "plan.master-weights",
       "fp16_remainder extends only bf16 parameters to FP32, but the parameters have the type "
       "fp32"},
      {[](Request& r) {
         r.master_weights = MasterWeights::kFp16Remainder;
         Fsdp2(r);
       },
       kMaster, kNotOfFramework,
       "only a fused AdamW supports fp16_remainder, but master_weights is "
       "fp16_remainder"},
      {[](Request& r) {
         r.optimizer_state_dtype = DataType::kFp32;
         Fsdp2(r);
       },
       kStates, kNotOfFramework,
       "without a fused AdamW, moments must have the type of the weights that the optimizer "
       "updates, bf16, but optimizer_state_dtype is fp32"},
      {[](Request& r) {
         r.master_weights = MasterWeights::kNone;
         Megatron(r);
       },
       kMaster, kNotOfFramework,
       "megatron always keeps master weights for 16-bit parameters, but master_weights is none"},
      {[](Request& r) {
         r.optimizer_state_dtype = DataType::kBf16;
         Megatron(r);
         r.zero_stage = 0;
       },
       kStates, kNotOfFramework,
       "megatron's precision-aware optimizer needs zero_stage 1, but optimizer_state_dtype is "
       "bf16"},
      {[](Request& r) {
         r.master_weights = MasterWeights::kFp16Remainder;
         r.optimizer = Optimizer::kSgd;
         Megatron(r);
       },
       kMaster, kNotOfFramework,
       "megatron's precision-aware optimizer needs Transformer Engine's FusedAdam, but "
       "master_weights is fp16_remainder"},
      {[](Request& r) {
         r.optimizer_state_dtype = DataType::kBf16;
         r.copy_main_gradients = true;
         Megatron(r);
       },
       "data_parallel.copy_main_gradients", kNotOfFramework,
       "megatron's precision-aware optimizer reads main gradients without a copy, but "
       "copy_main_gradients is true"},
      {[](Request& r) {
         r.master_weights = MasterWeights::kNone;
         r.optimizer_state_dtype = DataType::kFp32;
         r.framework = Framework::kDeepSpeed;
         r.zero_stage = 2;
       },
       kMaster, kNotOfFramework,
       "deepspeed keeps FP32 master weights and moments (bf16_master_weights_and_grads and "
       "bf16_optimizer_states are not modelled), but master_weights is none"},
      {[](Request& r) {
         r.optimizer_state_dtype = DataType::kBf16;
         r.framework = Framework::kNanotron;
         r.zero_stage = 1;
       },
       kStates, kNotOfFramework,
       "nanotron's gradient accumulator keeps FP32 master weights and FP32 moments, but "
       "optimizer_state_dtype is bf16"},
  };
  ExpectEach(cases);
}

TEST(OptimizerStateRules, LetThroughWhatOptimizersHave) {
  const auto expect_legal = [](const auto& change) {
    Request request = Legal();
    change(request);
    const std::vector<Violation> violations = Check(request, EightDevices());
    EXPECT_TRUE(violations.empty()) << violations.front().message;
  };
  // A wrapper that keeps FP32 copies beside PyTorch's optimizer, as amp O2.
  expect_legal([](Request& r) {
    r.precision = DataType::kFp16;
    r.master_weights = MasterWeights::kFp32;
    Fsdp2(r);
  });
  // Transformer Engine's FusedAdam on the shards of FSDP2.
  expect_legal([](Request& r) {
    r.master_weights = MasterWeights::kFp16Remainder;
    r.optimizer_state_dtype = DataType::kBf16;
    r.optimizer_implementation = OptimizerImplementation::kFused;
    Fsdp2(r);
  });
  expect_legal([](Request& r) {
    r.precision = DataType::kFp16;
    r.optimizer_state_dtype = DataType::kFp16;
    Megatron(r);
  });
  expect_legal([](Request& r) {
    r.optimizer = Optimizer::kSgd;
    r.master_weights = MasterWeights::kNone;
  });
}

// A search that moves a recipe to another framework drops unsupported settings.
TEST(OptimizerStateRules, RecipesLeaveOutWhatAFrameworkDoesNotHave) {
  Request request = Legal();
  request.master_weights = MasterWeights::kNone;
  request.framework = Framework::kMegatron;
  request.zero_stage = 1;
  EXPECT_EQ(TypesNotOfFramework(request), (std::vector<std::string>{"training.master_weights"}));
  Fsdp2(request);
  EXPECT_TRUE(TypesNotOfFramework(request).empty());
}

}  // namespace
}  // namespace stepcast::plan
