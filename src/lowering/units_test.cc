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
  model.layers = {{.name = "wte", .kind = LayerKind::kEmbedding, .tensors = {0}},
                  {.name = "h.0", .kind = LayerKind::kBlock, .tensors = {1}},
                  {.name = "h.1", .kind = LayerKind::kBlock, .tensors = {2}},
                  {.name = "head", .kind = LayerKind::kHead, .tensors = {3, 0}}};
  return model;
}

Units Wrapped(const model::Model& model, plan::WrappedUnits units, std::int64_t blocks = 1) {
  plan::DataParallel plan;
  plan.units = units;
  plan.unit_blocks = blocks;
  return WrappedUnitsOf(model, plan);
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

TEST(WrappedUnitsOf, SeveralBlocksAreOneUnit) {
  model::Model model = TiedModel();
  Units units = Wrapped(model, plan::WrappedUnits::kBlock, 2);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(units.units[1].name, "h.0 to h.1");
  EXPECT_EQ(units.units[1].tensors, (std::vector<int>{1, 2}));
  EXPECT_FALSE(units.units[1].root);
  // The last unit has the remaining layers.
  model.layers.insert(model.layers.begin() + 3, model.layers[2]);
  units = Wrapped(model, plan::WrappedUnits::kBlock, 2);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 1, 2, 0}));
}

TEST(WrappedUnitsOf, TheModelIsOneUnit) {
  const Units units = Wrapped(TiedModel(), plan::WrappedUnits::kModel);
  ASSERT_EQ(units.units.size(), 1u);
  EXPECT_TRUE(units.units[0].root);
  EXPECT_EQ(units.units[0].tensors, (std::vector<int>{0, 1, 2, 3}));
}

TEST(WrappedUnitsOf, EverythingButTheBlocksIsTheRoot) {
  model::Model model = TiedModel();
  model.layers.back().tensors = {3};
  const Units units = Wrapped(model, plan::WrappedUnits::kBlock);
  ASSERT_EQ(units.units.size(), 3u);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(units.units[0].tensors, (std::vector<int>{0, 3}));
}

TEST(WrappedUnitsOf, LayersThatShareATensorAreTheRoot) {
  model::Model model = TiedModel();
  Units units = Wrapped(model, plan::WrappedUnits::kLayer);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 0}));
  EXPECT_TRUE(units.units[0].root);
  EXPECT_FALSE(units.units[1].root);
  model.layers.back().tensors = {3};
  units = Wrapped(model, plan::WrappedUnits::kLayer);
  EXPECT_EQ(units.of_layer, (std::vector<int>{0, 1, 2, 3}));
  for (const Unit& unit : units.units) EXPECT_FALSE(unit.root);
  EXPECT_TRUE(Wrapped(model, plan::WrappedUnits::kBlock).units[0].root);
}

}  // namespace
}  // namespace stepcast::lowering
