#include "src/model/model.h"

#include "gtest/gtest.h"
#include "src/model/example_architectures.h"

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
  const Model model = Build("gpt2", Gpt2Small());
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
  EXPECT_EQ(model.layers[1].work, model.layers[2].work);
  EXPECT_EQ(GivenOptimizerStep(model), Milliseconds(6));
}

TEST(ModelTest, ListedLayersBringTheirTimes) {
  const Model model = Build("list", TwoKinds());
  // The batch does not matter: the times are those of one micro-batch.
  const auto works = BuildWork(model, {.micro_batch_size = 7, .sequence_length = 4096});
  ASSERT_EQ(works.size(), 2U);
  const LayerWork& stem = works[model.layers[0].work];
  EXPECT_TRUE(stem.saved.empty());  // 0 B is no activation
  EXPECT_TRUE(stem.forward.at(0).creates.empty());
  const LayerWork& block = works[model.layers[1].work];
  ASSERT_EQ(block.forward.size(), 1U);
  EXPECT_EQ(block.forward[0].kernel.kind, KernelKind::kGiven);
  EXPECT_EQ(block.forward[0].kernel.given, Milliseconds(3));
  EXPECT_EQ(block.forward[0].creates, std::vector<int>{0});
  ASSERT_EQ(block.saved.size(), 1U);
  EXPECT_EQ(block.saved[0].bytes, MiB(5));
  ASSERT_EQ(block.backward.size(), 1U);
  EXPECT_EQ(block.backward[0].kernel.given, Milliseconds(4));
  EXPECT_EQ(block.backward[0].gradients, (std::vector<int>{0, 1}));
  EXPECT_EQ(block.forward[0].kernel.model_flops, 0);
}

}  // namespace
}  // namespace stepcast::model
