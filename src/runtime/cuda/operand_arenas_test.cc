#include "src/runtime/cuda/operand_arenas.h"

#include <set>

#include "gtest/gtest.h"
#include "src/runtime/cuda/devices.h"

namespace stepcast::runtime::cuda {
namespace {

constexpr auto kBf16 = static_cast<std::size_t>(DataType::kBf16);

// A product of small matrices on the first of two streams, whose operands and result would stay in
// the cache. They move from step to step, over a range of four caches.
TEST(OperandArenas, SmallOperandsAreWalkedThrough) {
  const Inventory inventory = ListDevices();
  if (inventory.devices.empty()) GTEST_SKIP() << inventory.no_devices_because;
  const std::int64_t cold = 4 * inventory.devices.front().cache.count();
  const Bytes small(cold / 16);
  LaunchPlan plan;
  plan.inputs[kBf16] = small;
  plan.outputs = {small, Bytes(0)};
  plan.multiplies = {true, false};
  std::vector<cudaStream_t> streams(2);
  for (cudaStream_t& stream : streams) {
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  {
    const auto arenas = OperandArenas::Make(plan, streams, 0, 1);
    ASSERT_TRUE(arenas) << arenas.error().message;
    OperandArenas& all = **arenas;
    const std::byte* const input = all.input(DataType::kBf16);
    const std::byte* const output = all.output(0);
    EXPECT_EQ(all.input(DataType::kFp32), nullptr);
    EXPECT_EQ(all.output(1), nullptr);
    EXPECT_NE(all.workspace(0), nullptr);
    EXPECT_EQ(all.workspace(1), nullptr);
    EXPECT_GE(all.size(), 2 * (small + Bytes(cold)));
    std::set<const std::byte*> inputs, outputs;
    for (std::uint32_t step = 0; step < 50; ++step) {
      all.BeginStep(step);
      inputs.insert(all.input(DataType::kBf16));
      outputs.insert(all.output(0));
      EXPECT_LT(all.input(DataType::kBf16), input + cold);
      EXPECT_LT(all.output(0), output + cold);
    }
    EXPECT_EQ(inputs.size(), 16u);
    EXPECT_EQ(outputs.size(), 16u);
  }
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

// Larger arenas do not move, since the step itself walks through them.
TEST(OperandArenas, LargeOperandsStay) {
  const Inventory inventory = ListDevices();
  if (inventory.devices.empty()) GTEST_SKIP() << inventory.no_devices_because;
  LaunchPlan plan;
  plan.inputs[kBf16] = 4 * inventory.devices.front().cache;
  plan.outputs = {Bytes(0)};
  plan.multiplies = {false};
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  {
    const auto arenas = OperandArenas::Make(plan, {&stream, 1}, 0, 1);
    ASSERT_TRUE(arenas) << arenas.error().message;
    const std::byte* const input = (*arenas)->input(DataType::kBf16);
    (*arenas)->BeginStep(7);
    EXPECT_EQ((*arenas)->input(DataType::kBf16), input);
    EXPECT_EQ((*arenas)->size(), plan.inputs[kBf16]);
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace stepcast::runtime::cuda
