#include "src/plan/plan.h"

#include "gtest/gtest.h"

namespace stepcast::plan {
namespace {

TEST(OptimizerBytesPerParameter, CountsMomentsAndMasterWeights) {
  Training training;
  training.optimizer = Optimizer::kAdamW;
  training.parameter_dtype = DataType::kBf16;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 12);  // 4 + 4 and a master copy of 4
  training.master_weights = MasterWeights::kFp16Remainder;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 10);  // 4 + 4 + 2
  training.optimizer_state_dtype = DataType::kBf16;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 6);  // 2 + 2 + 2
  training.master_weights = MasterWeights::kNone;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 4);  // PyTorch's own
  training.master_weights = MasterWeights::kFp32;
  training.optimizer_state_dtype = DataType::kFp32;
  training.parameter_dtype = DataType::kFp32;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 8);
  training.optimizer = Optimizer::kSgd;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 4);  // momentum
  training.parameter_dtype = DataType::kFp16;
  EXPECT_EQ(OptimizerBytesPerParameter(training), 8);
}

// The arrays have the total size of the states, and their type if the states have only one.
TEST(OptimizerArraysOf, HasTheSizeOfTheStates) {
  for (const DataType parameters : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
    for (const MasterWeights master :
         {MasterWeights::kNone, MasterWeights::kFp32, MasterWeights::kFp16Remainder}) {
      for (const DataType states : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
        Training training;
        training.parameter_dtype = parameters;
        training.master_weights = master;
        training.optimizer_state_dtype = states;
        const OptimizerArrays arrays = OptimizerArraysOf(training);
        EXPECT_EQ(arrays.count * SizeOf(arrays.type), OptimizerBytesPerParameter(training));
        if (HasStatesOfUpdatedType(training)) {
          EXPECT_EQ(arrays.type, UpdatedType(training));
          EXPECT_EQ(arrays.count, KeepsMasterWeights(training) ? 3 : 2);
        }
      }
    }
  }
}

TEST(AccumulatesApart, HoldsWhenTheAccumulatorsAreLarger) {
  Training training;
  training.parameter_dtype = DataType::kBf16;
  training.gradient_dtype = DataType::kBf16;
  EXPECT_FALSE(AccumulatesApart(training));
  training.gradient_dtype = DataType::kFp32;
  EXPECT_TRUE(AccumulatesApart(training));
  EXPECT_EQ(WrittenGradientType(training), DataType::kBf16);
  // FP32 parameters under bf16 gradients: nothing larger to accumulate in.
  training.parameter_dtype = DataType::kFp32;
  training.gradient_dtype = DataType::kBf16;
  EXPECT_FALSE(AccumulatesApart(training));
  EXPECT_EQ(WrittenGradientType(training), DataType::kBf16);
}

TEST(WorkOptionsOf, FollowsWhoseLayersRunAndWithWhichTorch) {
  Plan plan;
  plan.training.attention = model::Attention::kMath;
  plan.data_parallel.framework = Framework::kDdp;
  plan.software.torch = {2, 10};
  EXPECT_TRUE(WorkOptionsOf(plan).transposes_attention);
  EXPECT_FALSE(WorkOptionsOf(plan).adds_attention_biases);
  EXPECT_FALSE(WorkOptionsOf(plan).sums_norm_weights_apart);
  plan.software.torch = {1, 11};
  EXPECT_TRUE(WorkOptionsOf(plan).adds_attention_biases);
  EXPECT_TRUE(WorkOptionsOf(plan).sums_norm_weights_apart);
  // Megatron-LM passes views on, and adds biases in kernels of their own, except under Transformer
  // Engine.
  plan.data_parallel.framework = Framework::kMegatron;
  plan.software.torch = {2, 6};
  EXPECT_FALSE(WorkOptionsOf(plan).transposes_attention);
  EXPECT_TRUE(WorkOptionsOf(plan).adds_attention_biases);
  EXPECT_FALSE(WorkOptionsOf(plan).sums_norm_weights_apart);
  plan.training.async_tensor_model_parallel_allreduce = false;  // before October 2021
  EXPECT_FALSE(WorkOptionsOf(plan).adds_attention_biases);
  plan.training.norm = model::Implementation::kTransformerEngine;
  plan.training.attention = model::Attention::kFlash;
  EXPECT_TRUE(WorkOptionsOf(plan).transposes_attention);
  EXPECT_FALSE(WorkOptionsOf(plan).adds_attention_biases);
  // The textbook counts neither.
  plan = Plan();
  plan.training.attention = model::Attention::kMath;
  plan.data_parallel.framework = Framework::kReference;
  EXPECT_FALSE(WorkOptionsOf(plan).transposes_attention);
  EXPECT_FALSE(WorkOptionsOf(plan).adds_attention_biases);
}

TEST(Name, IsTheWordOfTheScenarioFile) {
  EXPECT_STREQ(Name(Optimizer::kSgd), "sgd");
  EXPECT_STREQ(Name(OptimizerImplementation::kForeach), "foreach");
  EXPECT_STREQ(Name(Framework::kDeepSpeed), "deepspeed");
}

TEST(Version, ComparesByNumber) {
  EXPECT_LT((Version{1, 13}), (Version{2, 0}));
  EXPECT_LT((Version{2, 6}), (Version{2, 10}));
}

}  // namespace
}  // namespace stepcast::plan
