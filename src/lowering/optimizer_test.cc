#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/lowering/update.h"

namespace stepcast::lowering {
namespace {

constexpr Version kNewest = plan::kNewestTorch;

std::int64_t Traffic(const std::vector<UpdateKernel>& kernels) {
  std::int64_t sum = 0;
  for (const UpdateKernel& each : kernels) {
    sum += each.kernel.read.count() + each.kernel.written.count();
  }
  return sum;
}

// The temporaries made, in order.
std::vector<Temporary> Made(const std::vector<UpdateKernel>& kernels) {
  std::vector<Temporary> made;
  for (const UpdateKernel& kernel : kernels) {
    if (kernel.makes) made.push_back(*kernel.makes);
  }
  return made;
}

// Whether kernels only work on temporaries made before.
bool WorksOnWhatWasMade(const std::vector<UpdateKernel>& kernels) {
  std::vector<Temporary> made;
  for (const UpdateKernel& kernel : kernels) {
    if (kernel.works_on && std::find(made.begin(), made.end(), *kernel.works_on) == made.end()) {
      return false;
    }
    if (kernel.makes) made.push_back(*kernel.makes);
  }
  return true;
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

// Operands of four bytes: gradient; parameter; gradient, parameter and moments read, moments and
// update written; update; update and parameter read, parameter written: 1 + 1 + 4 + 3 + 1 + 2 + 1.
// With FP16, gradients and updates have 2 bytes, the scaler reads and writes gradients, and the
// 16-bit copy is read and written: 4 + 2 + 4 + (2 + 12 + 2 + 8) + 2 + (2 + 4 + 2 + 4 + 2).
TEST(UpdateKernels, LambMoves52BytesAParameter) {
  plan::Training training = Training(DataType::kFp32, plan::OptimizerImplementation::kFused);
  training.optimizer = plan::Optimizer::kLamb;
  training.precision = DataType::kFp32;
  EXPECT_EQ(Traffic(UpdateKernels(Transformer(), training, kNewest, 1000)), 52'000);
  training = Training(DataType::kFp16, plan::OptimizerImplementation::kFused);
  training.optimizer = plan::Optimizer::kLamb;
  training.precision = DataType::kFp16;
  const auto kernels = UpdateKernels(Transformer(), training, kNewest, 1000);
  EXPECT_EQ(Traffic(kernels), 50'000);
  EXPECT_EQ(kernels.size(), 6U);
  EXPECT_TRUE(Made(kernels).empty());
}

// FP32: read p, g, m, v and write p, m, v: 7 x 4 bytes.
TEST(UpdateKernels, FusedAdamWMoves28BytesAParameter) {
  const auto kernels =
      UpdateKernels(Transformer(), Training(DataType::kFp32, plan::OptimizerImplementation::kFused),
                    kNewest, 1000);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(Traffic(kernels), 28'000);
  EXPECT_TRUE(Made(kernels).empty());
}

// The default chain of multi-tensor kernels: 80 bytes a parameter, one FP32 temporary.
TEST(UpdateKernels, ForeachAdamWMoves80BytesAParameter) {
  const auto training = Training(DataType::kFp32, plan::OptimizerImplementation::kForeach);
  const auto kernels = UpdateKernels(Transformer(), training, kNewest, 1000);
  EXPECT_EQ(kernels.size(), 8u);
  EXPECT_EQ(Traffic(kernels), 80'000);
  EXPECT_EQ(Made(kernels), std::vector{Temporary::kRoot});
  EXPECT_TRUE(WorksOnWhatWasMade(kernels));
}

// Before torch 2.1, mul (8 bytes) and add (12) stood in place of lerp (12), and the denominator was
// a second temporary beside the root.
TEST(UpdateKernels, ForeachAdamWOfOldReleasesMoves88BytesAndMakesTwoTensors) {
  const auto training = Training(DataType::kFp32, plan::OptimizerImplementation::kForeach);
  const auto kernels = UpdateKernels(Transformer(), training, {2, 0}, 1000);
  EXPECT_EQ(kernels.size(), 9u);
  EXPECT_EQ(Traffic(kernels), 88'000);
  EXPECT_EQ(Made(kernels), (std::vector{Temporary::kRoot, Temporary::kDenominator}));
  EXPECT_TRUE(WorksOnWhatWasMade(kernels));
}

// One tensor after the other: the same chain with other kernel names. The root and its quotient are
// FP32 temporaries of the tensor. With master weights, all gradients are cast first.
TEST(UpdateKernels, SingleAdamWIsTheChainOfOneTensor) {
  const auto training = Training(DataType::kFp32, plan::OptimizerImplementation::kSingle);
  const auto kernels = UpdateKernels(Transformer(), training, kNewest, 1000);
  EXPECT_EQ(kernels.size(), 8u);
  EXPECT_EQ(kernels.front().kernel.name, "mul(weight_decay)");
  EXPECT_EQ(Traffic(kernels), 80'000);
  EXPECT_EQ(Made(kernels), (std::vector{Temporary::kRoot, Temporary::kDenominator}));
  EXPECT_TRUE(WorksOnWhatWasMade(kernels));
  const auto master = Training(DataType::kBf16, plan::OptimizerImplementation::kSingle);
  const auto with_casts = UpdateKernels(Transformer(), master, kNewest, 1000);
  EXPECT_EQ(Made(with_casts),
            (std::vector{Temporary::kGradient, Temporary::kRoot, Temporary::kDenominator}));
  EXPECT_TRUE(WorksOnWhatWasMade(with_casts));
}

// 16-bit parameters with an FP32 master copy: read master, m, v (12) and g (2); write them (12)
// and the parameter (2).
TEST(UpdateKernels, MasterWeightsAddACast) {
  const auto kernels =
      UpdateKernels(Transformer(), Training(DataType::kBf16, plan::OptimizerImplementation::kFused),
                    kNewest, 1000);
  EXPECT_EQ(Traffic(kernels), 28'000);
}

// PyTorch's own optimizer on bf16 parameters: all operands have 2 bytes, half of FP32's traffic.
TEST(UpdateKernels, WithoutMasterWeightsEverythingHasTheParametersType) {
  for (const auto& [implementation, traffic] :
       {std::pair(plan::OptimizerImplementation::kFused, 14'000),
        std::pair(plan::OptimizerImplementation::kForeach, 40'000)}) {
    plan::Training training = Training(DataType::kBf16, implementation);
    training.master_weights = plan::MasterWeights::kNone;
    training.optimizer_state_dtype = DataType::kBf16;
    const auto kernels = UpdateKernels(Transformer(), training, kNewest, 1000);
    EXPECT_EQ(Traffic(kernels), traffic);
    const std::vector<Temporary> made = Made(kernels);
    EXPECT_EQ(std::count(made.begin(), made.end(), Temporary::kGradient), 0);
  }
}

// Remainder, parameter and moments of 2 bytes each are read and written; main gradients of 4 are
// read: 2 x (2 + 2 + 2 + 2) + 4.
TEST(UpdateKernels, ThePrecisionAwareOptimizerMoves20BytesAParameter) {
  plan::Training training = Training(DataType::kBf16, plan::OptimizerImplementation::kFused);
  training.gradient_dtype = DataType::kFp32;
  training.master_weights = plan::MasterWeights::kFp16Remainder;
  training.optimizer_state_dtype = DataType::kBf16;
  EXPECT_EQ(Traffic(UpdateKernels(Transformer(), training, kNewest, 1000)), 20'000);
}

// A given time is for all parameters on one device. A third of them takes a third of it, rounded up
// to a picosecond.
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
                    Training(DataType::kFp32, plan::OptimizerImplementation::kFused), kNewest, 100);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels.front().kernel.kind, KernelKind::kGiven);
  EXPECT_EQ(kernels.front().kernel.given.picoseconds(), 334);
}

}  // namespace
}  // namespace stepcast::lowering
