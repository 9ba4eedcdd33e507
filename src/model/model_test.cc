#include "src/model/model.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"

namespace stepcast::model {
namespace {

LayerList TwoKinds() {
  return {.layers = {{.name = "stem",
                      .repeat = 1,
                      .parameters = {10},
                      .forward = Milliseconds(1),
                      .backward = Milliseconds(2),
                      .activation = Bytes(0)},
                     {.name = "block",
                      .repeat = 2,
                      .parameters = {20, 30},
                      .forward = Milliseconds(3),
                      .backward = Milliseconds(4),
                      .activation = MiB(5)}},
          .optimizer_step = Milliseconds(6)};
}

TEST(ModelTest, BuildsAnArchitecture) {
  const Model model = Build("gpt2", Shipped("gpt2"));
  EXPECT_EQ(model.name, "gpt2");
  EXPECT_EQ(model.parameter_count(), 124'439'808);
  EXPECT_FALSE(model.is_layer_list());
  EXPECT_EQ(GivenOptimizerStep(model), Time());
  EXPECT_EQ(BuildWork(model, {}).size(), 3U);  // embedding, block, head
}

TEST(ModelTest, RepeatsListedLayers) {
  const Model model = Build("list", TwoKinds());
  EXPECT_TRUE(model.is_layer_list());
  EXPECT_EQ(model.parameter_count(), 10 + 2 * 50);
  ASSERT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.layers[0].name, "stem");
  EXPECT_EQ(model.layers[1].name, "block.0");
  EXPECT_EQ(model.layers[2].name, "block.1");
  EXPECT_EQ(model.layers[1].tensors, (std::vector<int>{1, 2}));
  EXPECT_EQ(model.layers[2].tensors, (std::vector<int>{3, 4}));
  EXPECT_EQ(model.tensors[4].name, "block.1.parameter.1");
  EXPECT_EQ(model.tensors[4].elements, 30);
  EXPECT_EQ(WorkOfLayers(model, {}), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(GivenOptimizerStep(model), Milliseconds(6));
}

TEST(ModelTest, ListedLayersBringTheirTimes) {
  const Model model = Build("list", TwoKinds());
  // The batch does not matter: the times are those of one micro-batch.
  const auto works = BuildWork(model, {.micro_batch_size = 7, .sequence_length = 4096});
  ASSERT_EQ(works.size(), 2U);
  const LayerWork& stem = works[0];
  EXPECT_TRUE(stem.Of(Lifetime::kSaved).empty());  // 0 B is no activation
  EXPECT_TRUE(stem.forward.at(0).begins.empty());
  const LayerWork& block = works[1];
  ASSERT_EQ(block.forward.size(), 1U);
  EXPECT_EQ(block.forward[0].kernel.kind, KernelKind::kGiven);
  EXPECT_EQ(block.forward[0].kernel.given, Milliseconds(3));
  EXPECT_EQ(block.forward[0].begins, (std::vector<ValueId>{{Lifetime::kSaved, 0}}));
  ASSERT_EQ(block.Of(Lifetime::kSaved).size(), 1U);
  EXPECT_EQ(block.Of(Lifetime::kSaved)[0].bytes, MiB(5));
  ASSERT_EQ(block.backward.size(), 1U);
  EXPECT_EQ(block.backward[0].kernel.given, Milliseconds(4));
  EXPECT_EQ(block.backward[0].gradients, (std::vector<int>{0, 1}));
  EXPECT_EQ(block.forward[0].kernel.model_flops, 0);
}

TEST(ModelTest, ListedBackwardsHaveTwoParts) {
  const Model model = Build("list", LayerList{.layers = {{.name = "block",
                                                          .parameters = {8},
                                                          .forward = Milliseconds(3),
                                                          .backward = Milliseconds(7),
                                                          .backward_weight = Milliseconds(2),
                                                          .activation = MiB(5),
                                                          .output = MiB(1)}},
                                              .optimizer_step = Time()});
  const auto block = BuildWork(model, {.splits_backward = true})[0];
  ASSERT_EQ(block.backward_input.operations.size(), 1U);
  EXPECT_EQ(block.backward_input.operations[0].kernel.given, Milliseconds(5));
  ASSERT_EQ(block.backward_weight.operations.size(), 1U);
  EXPECT_EQ(block.backward_weight.operations[0].kernel.given, Milliseconds(2));
  EXPECT_EQ(block.backward_weight.operations[0].gradients, std::vector<int>{0});
  ASSERT_EQ(block.Of(Lifetime::kSaved).size(), 1U);
  EXPECT_TRUE(block.Of(Lifetime::kSaved)[0].for_weights);
  ASSERT_EQ(block.Of(Lifetime::kDeferred).size(), 1U);
  EXPECT_EQ(block.Of(Lifetime::kDeferred)[0].bytes, MiB(1));
  EXPECT_TRUE(block.defers_gradient_of_output);
}

// Rows go to experts and back in turns; the first of three ranks gets 1.5 times the mean part of 40
// bf16 numbers, 60, and each other 30.
TEST(ModelTest, ListedExchangesOfExpertsHaveTheirLoads) {
  const ListedCommunication exchange{CollectiveKind::kAllToAll, parallel::kExpert, Bytes(240)};
  const Model model =
      Build("list", LayerList{.layers = {{.name = "block",
                                          .parameters = {8},
                                          .forward = Milliseconds(3),
                                          .backward = Milliseconds(7),
                                          .activation = Bytes(),
                                          .output = Bytes(),
                                          .forward_communication = {exchange, exchange},
                                          .backward_communication = {exchange}}},
                              .optimizer_step = Time()});
  WorkOptions options;
  options.experts.ranks = 3;
  using First = AllToAllLoads::First;
  const auto loads = [&](const std::vector<Operation>& operations, std::int64_t bytes) {
    std::vector<First> found;
    for (const Operation& operation : operations) {
      if (!operation.group) continue;
      EXPECT_EQ(operation.group->bytes, Bytes(bytes));
      found.push_back(operation.group->loads.first);
      if (found.back() != First::kAsOthers) {
        EXPECT_EQ(ElementsSent(operation.group->loads, 60, DataType::kBf16, 2, 1), 30);
      }
    }
    return found;
  };
  LayerWork block = BuildWork(model, options)[0];
  EXPECT_EQ(loads(block.forward, 240), (std::vector{First::kAsOthers, First::kAsOthers}));
  options.experts.load = 1.5;
  block = BuildWork(model, options)[0];
  EXPECT_EQ(loads(block.forward, 360), (std::vector{First::kReceivesMost, First::kSendsMost}));
  EXPECT_EQ(loads(block.backward, 360), std::vector{First::kReceivesMost});
}

// fms-fsdp's own examples: 1/2 is [ac, no, ac, no], 1/3 [no, ac, no, no, ac, no], 2/3 [ac, no, ac,
// ac, no, ac].
TEST(ModelTest, APartOfTheBlocksIsEvenlySpaced) {
  const auto chosen = [](Share share, int blocks) {
    std::string text;
    for (int block = 0; block < blocks; ++block) text += share.Has(block) ? 'x' : '.';
    return text;
  };
  EXPECT_EQ(chosen({1, 2}, 4), "x.x.");
  EXPECT_EQ(chosen({1, 3}, 6), ".x..x.");
  EXPECT_EQ(chosen({2, 3}, 6), "x.xx.x");
  EXPECT_EQ(chosen({1, 1}, 3), "xxx");
}

// A stage of an interleaved pipeline counts through its chunks, here of one block each; the first
// ones are those of each chunk.
TEST(ModelTest, PartsOfBlocksAreCountedThroughTheChunksOfAStage) {
  const Model model = Build("gpt2", Shipped("gpt2"));  // embedding, 12 blocks, head
  WorkOptions options = {.micro_batch_size = 1, .sequence_length = 128};
  options.checkpointing = Checkpointing::kFull;
  std::vector<int> begins{0}, one_stage(12, 0), two_stages;
  for (int chunk = 1; chunk < 12; ++chunk) begins.push_back(chunk + 1);
  for (int chunk = 0; chunk < 12; ++chunk) two_stages.push_back(chunk % 2);
  const auto checkpointed = [&](const Share& share, const std::vector<int>& stages) {
    options.checkpointed_blocks = share;
    std::string text;
    const std::vector<int> works = WorkOfLayers(model, options, begins, stages);
    for (int block = 1; block <= 12; ++block) text += works[block] == 1 ? 'x' : '.';
    return text;
  };
  EXPECT_EQ(checkpointed({1, 2}, one_stage), "x.x.x.x.x.x.");
  EXPECT_EQ(checkpointed({1, 2}, two_stages), "xx..xx..xx..");
  EXPECT_EQ(checkpointed({1, 4}, one_stage), ".x...x...x..");
  EXPECT_EQ(checkpointed({1, 1, 1}, one_stage), "xxxxxxxxxxxx");
}

TEST(ModelTest, BlocksThatAreNotCheckpointedKeepEverything) {
  const Model model = Build("gpt2", Shipped("gpt2"));  // embedding, 12 blocks, head
  WorkOptions options = {.micro_batch_size = 1, .sequence_length = 128};
  options.checkpointing = Checkpointing::kFull;
  EXPECT_EQ(WorkOfLayers(model, options)[1], 1);
  options.checkpointed_blocks = {1, 2};
  const auto works = BuildWork(model, options);
  const std::vector<int> of_layers = WorkOfLayers(model, options);
  ASSERT_EQ(works.size(), 4U);
  EXPECT_EQ(of_layers[0], 0);
  EXPECT_EQ(of_layers[1], 1);
  EXPECT_EQ(of_layers[2], 3);
  EXPECT_EQ(of_layers[13], 2);
  EXPECT_EQ(works[1].Of(Lifetime::kSaved).size(), 1U);
  EXPECT_TRUE(works[3].recompute.empty());
  options.checkpointing = Checkpointing::kNone;
  EXPECT_EQ(works[3].Of(Lifetime::kSaved).size(),
            BuildWork(model, options)[1].Of(Lifetime::kSaved).size());
}

}  // namespace
}  // namespace stepcast::model
