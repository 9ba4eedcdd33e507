#include "src/forecast/explanation.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/forecast/what_if.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

scenario::Scenario Loaded(const std::string& bandwidth, const std::string& data_parallel) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 4, parameters: [1000000], forward: 10 ms, backward: 20 ms, activation: 1 MiB}
  optimizer_step: 5 ms
cluster:
  topology: {kind: flat, devices: 2, memory: 1 GiB, link: {latency: 0 us, bandwidth: )" +
                                         bandwidth + R"(}}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {framework: reference, zero_stage: 0, )" +
                                         data_parallel + R"(}
)",
                                     "test", {}, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

// Without overlap: 40 ms forward, 80 ms backward, 5 ms update, and one all-reduce of 8 MB over two
// ranks. It sends 2 (N - 1) / N of 8 MB at 100 MB/s = 80 ms. All of it is on the path.
TEST(Explain, TheCriticalPathOfNaiveDataParallelismIsAllOfIt) {
  const auto explained = Explain(Loaded("100 MB/s", "overlap: false"));
  ASSERT_TRUE(explained.has_value());
  EXPECT_EQ(explained->path_length, Milliseconds(205));
  ASSERT_EQ(explained->path.size(), 2u);
  EXPECT_EQ(explained->path[0].operation, "layers of given time");
  EXPECT_EQ(explained->path[0].time, Milliseconds(125));
  EXPECT_EQ(explained->path[1].operation, "all_reduce data");
  EXPECT_EQ(explained->path[1].bound_by, "network");
  EXPECT_EQ(explained->path[1].time, Milliseconds(80));
  ASSERT_EQ(explained->exposed.size(), 1u);
  EXPECT_EQ(explained->exposed[0].exposed, Milliseconds(80));
  EXPECT_EQ(explained->exposed[0].calls, 1);
}

// The 80 ms must shrink to 1 % of the step: x <= (125 + x) / 100, x = 1.263 ms, 63.4 times as fast.
// Links that are 10 % faster save 80 - 80 / 1.1 = 7.27 ms.
TEST(Explain, SaysWhatFasterLinksBring) {
  const auto explained = Explain(Loaded("100 MB/s", "overlap: false"));
  ASSERT_TRUE(explained.has_value() && explained->speed_that_hides.has_value());
  EXPECT_NEAR(*explained->speed_that_hides, 63.4, 0.7);
  ASSERT_EQ(explained->what_if.size(), 1u);
  EXPECT_EQ(explained->what_if[0].resource, MachineResource::kNetwork);
  EXPECT_NEAR(explained->what_if[0].step_time.seconds(), 0.205 - 0.00727, 1e-5);
}

// Four replica groups behind one card. Another resource would limit a single group to twice its
// quarter of the card. A card of twice the speed halves the groups' time. With eight times the
// speed, the other resource limits each group.
TEST(Faster, LinksThatSiblingsShareFallFirst) {
  cost::Prices prices;
  cost::CollectivePrice& price = prices.collectives.emplace_back();
  price.demand.work = Milliseconds(10);
  const auto share = [](cost::Demand& demand, cost::Resource resource) -> double& {
    return demand.share[static_cast<std::size_t>(resource)];
  };
  share(price.demand, cost::Resource::kScaleUp) = 0.5;
  share(price.demand, cost::Resource::kNetwork) = 1;
  share(price.demand, cost::Resource::kNetworkLinks) = 4;
  EXPECT_EQ(price.demand.uncontended(), Milliseconds(40));
  const auto at = [&](double factor) {
    return Faster(prices, MachineResource::kNetwork, factor).collectives.front().demand;
  };
  EXPECT_EQ(at(2).uncontended(), Milliseconds(20));
  EXPECT_EQ(at(4).uncontended(), Milliseconds(10));
  cost::Demand fast = at(16);
  EXPECT_EQ(fast.uncontended(), Milliseconds(5));
  EXPECT_DOUBLE_EQ(share(fast, cost::Resource::kScaleUp), 1);
  EXPECT_DOUBLE_EQ(share(fast, cost::Resource::kNetworkLinks), 0.5);
}

// Sixteen channels hold 16 of 132 multiprocessors for 10 ms and use a third of the memory
// bandwidth. Twice as fast, they hold as many multiprocessors for 5 ms and transfer their bytes at
// twice the rate.
TEST(Faster, CollectivesHoldAsManyMultiprocessors) {
  cost::Prices prices;
  cost::CollectivePrice& price = prices.collectives.emplace_back();
  price.demand.work = Milliseconds(10);
  price.demand.occupancy = cost::Occupancy::kHolds;
  const auto share = [](cost::Demand& demand, cost::Resource resource) -> double& {
    return demand.share[static_cast<std::size_t>(resource)];
  };
  share(price.demand, cost::Resource::kNetwork) = 1;
  share(price.demand, cost::Resource::kCompute) = 16.0 / 132;
  share(price.demand, cost::Resource::kMemory) = 1.0 / 3;
  cost::Demand fast = Faster(prices, MachineResource::kNetwork, 2).collectives.front().demand;
  EXPECT_EQ(fast.work, Milliseconds(5));
  EXPECT_DOUBLE_EQ(share(fast, cost::Resource::kNetwork), 1);
  EXPECT_DOUBLE_EQ(share(fast, cost::Resource::kCompute), 16.0 / 132);
  EXPECT_DOUBLE_EQ(share(fast, cost::Resource::kMemory), 2.0 / 3);
}

// With less of what bounds a kernel it takes longer, and asks for all that is left: not for more,
// by rounding, which would slow what runs beside it.
TEST(Faster, BelowOneItIsSlower) {
  cost::Prices prices;
  cost::Demand& demand = prices.kernels.emplace_back();
  demand.work = Milliseconds(10);
  const auto compute = static_cast<std::size_t>(cost::Resource::kCompute);
  const auto memory = static_cast<std::size_t>(cost::Resource::kMemory);
  demand.share[compute] = 1;
  demand.share[memory] = 0.5;
  for (const double speed : {0.99, 0.89, 0.85, 0.7, 0.5, 0.0625}) {
    const cost::Prices slow = Faster(prices, MachineResource::kCompute, speed);
    const cost::Demand& own = slow.kernels.front();
    EXPECT_NEAR(own.uncontended().seconds(), 0.01 / speed, 1e-9);
    EXPECT_LE(own.share[compute], 1);
    EXPECT_NEAR(own.share[memory], 0.5 * speed, 1e-9);
  }
  // Half of the memory's rate is enough.
  EXPECT_EQ(Faster(prices, MachineResource::kDeviceMemory, 0.5).kernels.front().work,
            Milliseconds(10));
}

TEST(Explain, NothingIsExposedOnFastLinks) {
  const auto explained = Explain(Loaded("1 TB/s", "bucket_size: 0 B"));
  ASSERT_TRUE(explained.has_value());
  EXPECT_EQ(explained->speed_that_hides, 1.0);
}

// The contents listed at the peak add up to it, and so do the layers.
TEST(Explain, MemoryAtThePeakAddsUp) {
  const auto explained = Explain(Loaded("1 GB/s", "bucket_size: 4 MB"));
  ASSERT_TRUE(explained.has_value());
  Bytes contents, layers;
  for (const PeakContent& content : explained->contents) contents += content.total;
  for (const LayerMemory& layer : explained->layers) layers += layer.total;
  EXPECT_EQ(contents, explained->forecast.memory.peak);
  EXPECT_EQ(layers, explained->forecast.memory.peak);
  EXPECT_GT(contents, Bytes(0));
}

// Twelve layers with equal memory at the peak are in the order of their numbers.
TEST(Explain, LayersThatAreAlikeAreInTheOrderOfTheirNumbers) {
  scenario::InputCache cache;
  const auto scenario =
      scenario::Load("scenarios/gpt2-ddp/scenario.yaml", {"training.micro_batch_size=4"}, cache);
  ASSERT_TRUE(scenario.has_value());
  const auto explained = Explain(*scenario);
  ASSERT_TRUE(explained.has_value());
  std::vector<std::string> names;
  for (const LayerMemory& layer : explained->layers) {
    const std::string_view block = "transformer.h.";
    if (layer.layer.starts_with(block) &&
        layer.layer.find_first_not_of("0123456789", block.size()) == std::string::npos) {
      names.push_back(layer.layer);
    }
  }
  ASSERT_EQ(names.size(), 12u);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], "transformer.h." + std::to_string(i));
  }
}

}  // namespace
}  // namespace stepcast::forecast
