#include "src/runtime/host/value_effects.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::host {
namespace {

using program::Effect;
using program::EffectKind;

template <typename T>
std::byte* Raw(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

std::vector<float> Widened(const std::vector<values::Bf16>& from) {
  std::vector<float> wide;
  for (const values::Bf16 value : from) wide.push_back(values::ToFp32(value));
  return wide;
}

TEST(ValueEffects, AMoveConvertsScalesAndAdds) {
  Effect effect;
  effect.kind = EffectKind::kMove;
  effect.add = true;
  effect.scale = 0.5;
  effect.elements = effect.block = 3;
  effect.target.type = DataType::kBf16;
  std::vector<float> source{2, 4, 6};
  std::vector<values::Bf16> target(3, values::FromFp32<values::Bf16>(10.0f));
  Apply({effect, Raw(target), Raw(source), nullptr}, {});
  EXPECT_EQ(Widened(target), (std::vector<float>{11, 12, 13}));
}

TEST(ValueEffects, AMoveScalesInPlace) {
  Effect effect;
  effect.kind = EffectKind::kMove;
  effect.scale = 0.25;
  effect.elements = effect.block = 3;
  std::vector<float> values{4, 8, 12};
  Apply({effect, Raw(values), Raw(values), nullptr}, {});
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST(ValueEffects, AMoveInBlocksStepsThroughBothSides) {
  Effect effect;
  effect.kind = EffectKind::kMove;
  effect.elements = 5;  // blocks of 2, 2 and 1
  effect.block = 2;
  effect.target_stride = 3;
  effect.source_stride = 4;
  std::vector<float> source{1, 2, 0, 0, 3, 4, 0, 0, 5, 6};
  std::vector<float> target(8, -1);
  Apply({effect, Raw(target), Raw(source), nullptr}, {});
  EXPECT_EQ(target, (std::vector<float>{1, 2, -1, 3, 4, -1, 5, -1}));
}

TEST(ValueEffects, SmallIntegersFollowParametersRankStepAndMicroBatch) {
  Effect effect;
  effect.kind = EffectKind::kGradient;
  effect.elements = 4;
  effect.first_element = 100;
  effect.scale = 0.25;
  std::vector<float> parameters{0.5f, -0.25f, 0.125f, 1.0f};
  std::vector<float> gradient(4, 7);
  const EffectContext context{
      .rank = 2, .step = 5, .micro_batch = 1, .gradients = GradientRule::kSmallIntegers};
  Apply({effect, Raw(gradient), Raw(parameters), nullptr}, context);
  const std::uint32_t seed = values::SmallIntegerSeed(2, 5, 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(gradient[i], 0.25f * values::SmallIntegerGradient(parameters[i], seed, 100 + i));
  }
}

TEST(ValueEffects, ComputedGradientsOfProductsAreTheProduct) {
  Effect effect;
  effect.kind = EffectKind::kGradient;
  effect.elements = 5;
  effect.add = true;
  std::vector<float> parameters(5, 1);
  std::vector<float> gradient(5, 100);
  const std::vector<float> product{1, 2, 3};
  EffectContext context;
  context.product = product.data();
  context.product_elements = 3;
  Apply({effect, Raw(gradient), Raw(parameters), nullptr}, context);
  EXPECT_EQ(gradient, (std::vector<float>{101, 102, 103, 101, 102}));

  // Without a product, the gradient is that of the quadratic loss.
  effect.add = false;
  Apply({effect, Raw(gradient), Raw(parameters), nullptr}, {});
  EXPECT_EQ(gradient[3], values::QuadraticGradient(1, values::QuadraticSeed(0, 0), 3));
}

TEST(ValueEffects, StateStartsAtTheModelsValuesAndMomentsAtZero) {
  program::StatePart part;
  part.place.type = DataType::kBf16;
  part.first_element = 40;
  part.elements = 3;
  std::vector<values::Bf16> memory(3);
  WriteInitial(part, Raw(memory), 9);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Widened(memory)[i], values::InitialValue(values::SeedHash(9), 40 + i));
  }
  std::vector<float> read(3);
  ReadValues(Raw(memory), DataType::kBf16, 3, read.data());
  EXPECT_EQ(read, Widened(memory));
  part.role = program::StateRole::kMoment;
  WriteInitial(part, Raw(memory), 9);
  EXPECT_EQ(Widened(memory), (std::vector<float>{0, 0, 0}));
}

TEST(ValueEffects, TheOptimizerKeepsMasterCopyAndParameterTogether) {
  Effect effect;
  effect.kind = EffectKind::kUpdate;
  effect.elements = effect.state_stride = 2;
  effect.target.type = effect.source.type = DataType::kBf16;
  std::vector<values::Bf16> parameters(2, values::FromFp32<values::Bf16>(1.0f));
  std::vector<values::Bf16> gradients(2, values::FromFp32<values::Bf16>(4.0f));
  std::vector<float> states{1, 1, 0, 0, 0, 0};
  Apply({effect, Raw(parameters), Raw(gradients), Raw(states)}, {});
  // The first step of AdamW: the parameter decays by learning rate x weight decay = 1e-5. Then it
  // moves by the learning rate, 1e-3, against the gradient of any size.
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(states[i], 1 - 1e-5 - 1e-3, 1e-6);
    EXPECT_EQ(Widened(parameters)[i], values::ToFp32(values::FromFp32<values::Bf16>(states[i])));
    EXPECT_NEAR(states[2 + i], 0.4, 1e-6);    // (1 - 0.9) x 4
    EXPECT_NEAR(states[4 + i], 0.016, 1e-6);  // (1 - 0.999) x 16
  }
}

// As above without a master copy: parameters with 8 bits of mantissa are updated directly. A step
// of 1e-3 from 1 is less than half of their resolution, 2^-8, and is lost. A step from 2^-4 is not.
TEST(ValueEffects, WithoutAMasterCopyParametersAndMomentsAreRounded) {
  Effect effect;
  effect.kind = EffectKind::kUpdate;
  effect.elements = effect.state_stride = 2;
  effect.target.type = effect.source.type = effect.states.type = DataType::kBf16;
  std::vector<values::Bf16> parameters{values::FromFp32<values::Bf16>(1.0f),
                                       values::FromFp32<values::Bf16>(0.0625f)};
  std::vector<values::Bf16> gradients(2, values::FromFp32<values::Bf16>(4.0f));
  std::vector<values::Bf16> states(4, values::FromFp32<values::Bf16>(0.0f));
  Apply({effect, Raw(parameters), Raw(gradients), Raw(states)}, {});
  EXPECT_EQ(Widened(parameters)[0], 1.0f);
  EXPECT_NEAR(Widened(parameters)[1], 0.0625 - 1e-3, 2e-4);
  const auto rounded = [](float value) {
    return values::ToFp32(values::FromFp32<values::Bf16>(value));
  };
  const float tenth = static_cast<float>(1 - values::kBeta1);
  const float thousandth = static_cast<float>(1 - values::kBeta2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Widened(states)[i], rounded(tenth * 4));
    EXPECT_EQ(Widened(states)[2 + i], rounded(thousandth * 4 * 4));
  }
}

}  // namespace
}  // namespace stepcast::runtime::host
