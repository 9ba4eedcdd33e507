#include "src/lowering/units.h"

#include <gtest/gtest.h>

namespace stepcast::lowering {
namespace {

// Embedding and head share tensor 0; two blocks between them.
model::Model TiedModel() {
  model::Model model;
  model.tensors = {{.name = "wte", .shape = {10, 4}, .elements = 40},
                   {.name = "h.0", .shape = {4, 4}, .elements = 16},
                   {.name = "h.1", .shape = {4, 4}, .elements = 16},
                   {.name = "ln_f", .shape = {4}, .elements = 4}};
  using model::LayerKind;
  model.layers = {{.name = "wte", .kind = LayerKind::kEmbedding, .tensors = {0}, .work = 0},
                  {.name = "h.0", .kind = LayerKind::kBlock, .tensors = {1}, .work = 1},
                  {.name = "h.1", .kind = LayerKind::kBlock, .tensors = {2}, .work = 1},
                  {.name = "head", .kind = LayerKind::kHead, .tensors = {3, 0}, .work = 2}};
  return model;
}

TEST(UnitPerLayer, LayersThatShareATensorAreOneUnit) {
  const Units units = UnitPerLayer(TiedModel());
  ASSERT_EQ(units.units.size(), 3u);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(units.units[0].layers, (std::vector<int>{0, 3}));
  EXPECT_EQ(units.units[0].tensors, (std::vector<int>{0, 3}));
  EXPECT_EQ(units.units[0].elements, 44);  // the tied tensor counts once
  EXPECT_EQ(units.units[0].name, "root");
  EXPECT_EQ(units.units[1].name, "h.0");
}

TEST(UnitPerLayer, WithoutSharingEachLayerIsAUnit) {
  model::Model model = TiedModel();
  model.layers.back().tensors = {3};
  const Units units = UnitPerLayer(model);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 3}));
}

TEST(UnitPerBlock, EverythingButTheBlocksIsTheRoot) {
  model::Model model = TiedModel();
  model.layers.back().tensors = {3};
  const Units units = UnitPerBlock(model);
  ASSERT_EQ(units.units.size(), 3u);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(units.units[0].tensors, (std::vector<int>{0, 3}));
}

TEST(UnitPerModule, LayersThatShareATensorAreTheRoot) {
  model::Model model = TiedModel();
  Units units = UnitPerModule(model);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 0}));
  EXPECT_TRUE(units.units[0].root);
  EXPECT_FALSE(units.units[1].root);
  model.layers.back().tensors = {3};
  units = UnitPerModule(model);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 3}));
  for (const Unit& unit : units.units) EXPECT_FALSE(unit.root);
  EXPECT_TRUE(UnitPerBlock(model).units[0].root);
}

}  // namespace
}  // namespace stepcast::lowering
