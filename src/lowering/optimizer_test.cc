#include "src/lowering/optimizer.h"

#include <gtest/gtest.h>

namespace stepcast::lowering {
namespace {

std::int64_t Traffic(const std::vector<Kernel>& kernels) {
  Bytes sum;
  for (const Kernel& kernel : kernels) sum += kernel.read + kernel.written;
  return sum.count();
}

plan::Training Training(DataType parameters, plan::OptimizerImplementation implementation) {
  plan::Training training;
  training.parameter_dtype = training.gradient_dtype = parameters;
  training.optimizer_implementation = implementation;
  return training;
}

model::Model Transformer() {
  model::Model model;
  model.source = model::Architecture{};
  return model;
}

// FP32: read p, g, m, v and write p, m, v: 7 x 4 bytes.
TEST(UpdateKernels, FusedAdamWMoves28BytesAParameter) {
  const auto kernels = UpdateKernels(
      Transformer(), Training(DataType::kFp32, plan::OptimizerImplementation::kFused), 1000);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(Traffic(kernels), 28'000);
}

// The default chain of multi-tensor kernels: 80 bytes a parameter, one FP32 temporary.
TEST(UpdateKernels, ForeachAdamWMoves80BytesAParameter) {
  const auto training = Training(DataType::kFp32, plan::OptimizerImplementation::kForeach);
  const auto kernels = UpdateKernels(Transformer(), training, 1000);
  EXPECT_EQ(kernels.size(), 8u);
  EXPECT_EQ(Traffic(kernels), 80'000);
  EXPECT_EQ(TemporaryBytesPerParameter(training), 4);
}

// One tensor after the other: the same chain, by other names; the root and its quotient are FP32
// temporaries of the tensor. With master weights all gradients are cast first, 4 bytes each.
TEST(UpdateKernels, SingleAdamWIsTheChainOfOneTensor) {
  const auto training = Training(DataType::kFp32, plan::OptimizerImplementation::kSingle);
  const auto kernels = UpdateKernels(Transformer(), training, 1000);
  EXPECT_EQ(kernels.size(), 8u);
  EXPECT_EQ(kernels.front().name, "mul(weight_decay)");
  EXPECT_EQ(Traffic(kernels), 80'000);
  EXPECT_EQ(TemporaryBytesPerParameter(training), 8);
  EXPECT_EQ(CastGradientBytesPerParameter(training), 0);
  const auto master = Training(DataType::kBf16, plan::OptimizerImplementation::kSingle);
  EXPECT_EQ(TemporaryBytesPerParameter(master), 8);
  EXPECT_EQ(CastGradientBytesPerParameter(master), 4);
}

// 16-bit parameters with an FP32 master copy: read master, m, v (12) and g (2); write them (12)
// and the parameter (2).
TEST(UpdateKernels, MasterWeightsAddACast) {
  const auto kernels = UpdateKernels(
      Transformer(), Training(DataType::kBf16, plan::OptimizerImplementation::kFused), 1000);
  EXPECT_EQ(Traffic(kernels), 28'000);
}

// A given time is for all parameters on one device; a third of them takes a third of it, rounded
// up to a picosecond.
TEST(UpdateKernels, AGivenTimeScalesWithTheShard) {
  model::LayerList list;
  list.layers.push_back({.name = "layer",
                         .repeat = 1,
                         .parameters = {300},
                         .forward = Milliseconds(1),
                         .backward = Milliseconds(1),
                         .activation = Bytes(0)});
  list.optimizer_step = Picoseconds(1000);
  const auto kernels =
      UpdateKernels(model::Build("list", list),
                    Training(DataType::kFp32, plan::OptimizerImplementation::kFused), 100);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels.front().kind, KernelKind::kGiven);
  EXPECT_EQ(kernels.front().given, Picoseconds(334));
}

}  // namespace
}  // namespace stepcast::lowering
