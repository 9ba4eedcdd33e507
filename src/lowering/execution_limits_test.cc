#include "src/lowering/execution_limits.h"

#include <string>

#include "gtest/gtest.h"

namespace stepcast::lowering {
namespace {

std::string Refused(const plan::Plan& plan) {
  std::string settings;
  for (const ExecutionLimit* limit : LimitsOf(plan)) settings += limit->setting + std::string(";");
  return settings;
}

TEST(ExecutionLimitsTest, AdamWOnDevicesIsExecuted) { EXPECT_EQ(Refused({}), ""); }

TEST(ExecutionLimitsTest, EachIsNamedByItsSetting) {
  plan::Plan plan;
  plan.training.optimizer = plan::Optimizer::kMuon;
  EXPECT_EQ(Refused(plan), "training.optimizer;");
  plan = {};
  plan.data_parallel.comm_hook = plan::CommHook::kPowerSgd;
  plan.data_parallel.cpu_offload = true;
  EXPECT_EQ(Refused(plan), "data_parallel.comm_hook;data_parallel.cpu_offload;");
  plan = {};
  plan.data_parallel.deepspeed.quantized_gradients = true;
  EXPECT_EQ(Refused(plan),
            "data_parallel.deepspeed.zero_quantized_weights, .zero_quantized_gradients;");
}

}  // namespace
}  // namespace stepcast::lowering
