// Compares with a measurement the slowdown of a collective and of concurrent kernels, which share
// multiprocessors and memory bandwidth.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "src/cost/nccl_price.h"
#include "src/cost/nccl_setting.h"
#include "src/engine/shared_resources.h"
#include "src/scenario/load.h"

namespace stepcast::cost {
namespace {

constexpr const char* kH200 = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: none, parameters: [1], forward: 1 us, backward: 1 us, activation: 1 B}
  optimizer_step: 1 us
cluster: {topology: topologies/dgx-h200.yaml, nodes: 1}
software: {nccl: "2.28"}
training: {sequence_length: 1, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: sgd}
data_parallel: {zero_stage: 0, framework: reference}
)";

// Wei Ziyang, "GPU collective communication study" (2026), 8 H200: one all-reduce concurrent with
// one BF16 product. E = (t_product + t_reduce - t_both) / min(t_product, t_reduce). Contention for
// multiprocessors explains most of the loss; the rest (caches, power) is not modelled. Forecasts
// are therefore up to 0.16 too good, 4 % of the time of both.
TEST(CollectiveContention, IsNearWhatWasMeasured) {
  scenario::InputCache cache;
  const auto scenario = scenario::LoadText(kH200, "test", {}, cache);
  ASSERT_TRUE(scenario) << Format(scenario.error());
  const std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const topology::CommunicationPath path = scenario->cluster->PathOf(ranks);
  const GroupShape shape = ShapeOf(ranks, 8);
  const auto setting = NcclSettingOf(*scenario);
  ASSERT_TRUE(setting);
  NcclPricer pricer(*setting);
  struct Case {
    double product_us, reduce_us;
    Bytes bytes;
    double measured;
  };
  for (const Case& c : {Case{239, 364, MiB(64), 0.74}, Case{1643, 364, MiB(64), 0.82},
                        Case{239, 2440, MiB(512), 0.73}, Case{1643, 2440, MiB(512), 0.84}}) {
    const auto price = pricer.Price({CollectiveKind::kAllReduce, c.bytes, path, shape});
    ASSERT_TRUE(price);
    const auto share = [&](Resource resource) {
      return engine::SharedResources::Share(
          price->demand.share[static_cast<std::size_t>(resource)]);
    };
    engine::SharedResources resources(2, 2);
    // The product occupies all multiprocessors and reads little.
    const std::vector<engine::SharedResources::Use> product = {
        {0, engine::SharedResources::Share(1)}};
    const std::vector<engine::SharedResources::Use> reduce = {{0, share(Resource::kCompute)},
                                                              {1, share(Resource::kMemory)}};
    const auto time = [](double us) { return Picoseconds(static_cast<std::int64_t>(us * 1e6)); };
    resources.Start(0, Time(), time(c.product_us), product);
    resources.Start(1, Time(), time(c.reduce_us), reduce);
    resources.Settle(Time());
    const engine::SharedResources::Activity first = resources.end(0) < resources.end(1) ? 0 : 1;
    resources.Finish(first);
    resources.Settle(resources.end(first));
    const double both = resources.end(1 - first).microseconds();
    const double efficiency =
        (c.product_us + c.reduce_us - both) / std::min(c.product_us, c.reduce_us);
    EXPECT_LT(efficiency, 0.95);
    EXPECT_NEAR(efficiency, c.measured, 0.16);
  }
}

}  // namespace
}  // namespace stepcast::cost
