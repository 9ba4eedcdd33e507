#include "src/plan/optimizer_states.h"

#include <gtest/gtest.h>

#include "src/model/model.h"

namespace stepcast::plan {
namespace {

Plan PlanOf(Framework framework, Optimizer optimizer, DataType moments = DataType::kFp32) {
  Plan plan;
  plan.data_parallel.framework = framework;
  plan.training.optimizer = optimizer;
  plan.training.optimizer_state_dtype = moments;
  plan.training.master_weights = MasterWeights::kNone;
  return plan;
}

// One block with a matrix of 4,096 x 512 and a vector of 512, between an embedding and a head.
model::Model Example() {
  model::Model model;
  model.tensors = {{.name = "embed", .shape = {1000, 512}, .elements = 512'000},
                   {.name = "proj", .shape = {4096, 512}, .elements = 2'097'152, .of_block = true},
                   {.name = "norm", .shape = {512}, .elements = 512, .of_block = true},
                   {.name = "experts",
                    .shape = {8, 64, 128},
                    .elements = 65'536,
                    .group = model::ParameterGroup::kExperts,
                    .of_block = true},
                   {.name = "head", .shape = {1000, 512}, .elements = 512'000}};
  model.layers = {{.name = "embed", .kind = model::LayerKind::kEmbedding, .tensors = {0}},
                  {.name = "block", .kind = model::LayerKind::kBlock, .tensors = {1, 2, 3}},
                  {.name = "head", .kind = model::LayerKind::kHead, .tensors = {4}}};
  return model;
}

Bytes Moments(const Plan& plan, int tensor, std::int64_t elements) {
  return MomentBytes(plan, OptimizerTensorOf(plan, Example(), tensor, elements));
}

// bitsandbytes: one byte for each of two moments and an FP32 scale per 256; embeddings and small
// tensors in FP32.
TEST(MomentBytes, OfBitsandbytes) {
  const Plan plan = PlanOf(Framework::kDdp, Optimizer::kAdamW8bit);
  EXPECT_EQ(Moments(plan, 1, 2'097'152), Bytes(2 * (2'097'152 + 4 * 8192)));
  EXPECT_EQ(Moments(plan, 2, 512), Bytes(2 * 4 * 512));
  EXPECT_EQ(Moments(plan, 0, 512'000), Bytes(2 * 4 * 512'000));
  EXPECT_EQ(Moments(plan, 4, 512'000), Bytes(2 * (512'000 + 4 * 2000)));
  // A last block that is not full has a scale, too.
  EXPECT_EQ(Moments(plan, 4, 4097), Bytes(2 * (4097 + 4 * 17)));
}

// torchao: also for embeddings, with a table for each moment; a tensor that is not a whole number
// of blocks stays in the parameters' type.
TEST(MomentBytes, OfTorchao) {
  const Plan plan = PlanOf(Framework::kFsdp2, Optimizer::kAdamW8bit, DataType::kBf16);
  EXPECT_EQ(Moments(plan, 0, 512'000), Bytes(2 * (512'000 + 4 * 2000 + 1024)));
  EXPECT_EQ(Moments(plan, 2, 512), Bytes(2 * 2 * 512));
  EXPECT_EQ(Moments(plan, 1, 4100), Bytes(2 * 2 * 4100));
}

// Flat parameters hide embeddings, unless the optimizer sees the original parameters.
TEST(MomentBytes, OfFlatParameters) {
  Plan plan = PlanOf(Framework::kFsdp1, Optimizer::kAdamW8bit);
  EXPECT_EQ(Moments(plan, -1, 8192), Bytes(2 * (8192 + 4 * 32)));
  EXPECT_EQ(Moments(plan, 0, 8192), Bytes(2 * (8192 + 4 * 32)));
  plan.data_parallel.use_orig_params = true;
  EXPECT_EQ(Moments(plan, 0, 8192), Bytes(2 * 4 * 8192));
}

// Sums of rows and of columns: 4 (4,096 + 512) instead of 4 x 4,096 x 512; in a batch of matrices,
// for each matrix.
TEST(MomentBytes, OfAdafactor) {
  Plan plan = PlanOf(Framework::kDdp, Optimizer::kAdafactor);
  EXPECT_EQ(Moments(plan, 1, 2'097'152), Bytes(4 * (4096 + 512)));
  EXPECT_EQ(Moments(plan, 2, 512), Bytes(4 * 512));
  EXPECT_EQ(Moments(plan, 3, 65'536), Bytes(8 * 4 * (64 + 128)));
  plan.data_parallel.framework = Framework::kFsdp1;
  EXPECT_EQ(Moments(plan, 1, 2'097'152), Bytes(4 * 2'097'152));
}

TEST(MomentBytes, OfMuon) {
  const Plan plan = PlanOf(Framework::kDdp, Optimizer::kMuon);
  EXPECT_EQ(Moments(plan, 1, 2'097'152), Bytes(4 * 2'097'152));
  EXPECT_EQ(Moments(plan, 3, 65'536), Bytes(4 * 65'536));
  for (const int other : {0, 4}) EXPECT_EQ(Moments(plan, other, 512'000), Bytes(8 * 512'000));
  EXPECT_EQ(Moments(plan, 2, 512), Bytes(8 * 512));
}

TEST(OptimizerStateBytes, CountsMasterWeights) {
  Plan plan = PlanOf(Framework::kMegatron, Optimizer::kMuon);
  plan.training.master_weights = MasterWeights::kFp32;
  const OptimizerTensor matrix = OptimizerTensorOf(plan, Example(), 1, 2'097'152);
  EXPECT_EQ(OptimizerStateBytes(plan, matrix), Bytes(8 * 2'097'152));
}

// A rank's part of a DTensor consists of rows, or of matrices of a batch.
TEST(OptimizerTensorOf, SeesRowsOfShards) {
  const Plan plan = PlanOf(Framework::kFsdp2, Optimizer::kMuon);
  const OptimizerTensor rows = OptimizerTensorOf(plan, Example(), 1, 1024 * 512);
  EXPECT_EQ(rows.matrices, 1);
  EXPECT_EQ(rows.rows, 1024);
  EXPECT_EQ(rows.columns, 512);
  EXPECT_EQ(OptimizerTensorOf(plan, Example(), 3, 2 * 64 * 128).matrices, 2);
}

}  // namespace
}  // namespace stepcast::plan
