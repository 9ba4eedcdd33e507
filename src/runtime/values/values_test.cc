#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "src/base/data_type.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::values {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
class StorageType : public testing::Test {};
using Shorter = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(StorageType, Shorter);

TYPED_TEST(StorageType, WideningAndRoundingGivesEveryPatternBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam value{static_cast<std::uint16_t>(bits)};
    const float wide = ToFp32(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFp32(FromFp32<TypeParam>(wide))));
    } else {
      ASSERT_EQ(FromFp32<TypeParam>(wide).bits, bits);
    }
  }
}

// Three FP32 numbers between two neighbors of the short type matter: just below the middle, the
// middle, and just above it. The middle rounds to even.
TYPED_TEST(StorageType, RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    const TypeParam low{static_cast<std::uint16_t>(bits)};
    const TypeParam high{static_cast<std::uint16_t>(bits + 1)};
    if (!std::isfinite(ToFp32(high))) break;
    const auto middle = static_cast<float>(
        (static_cast<double>(ToFp32(low)) + static_cast<double>(ToFp32(high))) / 2);
    const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(FromFp32<TypeParam>(middle).bits, even) << middle;
    ASSERT_EQ(FromFp32<TypeParam>(-middle).bits, even | 0x8000) << middle;
    ASSERT_EQ(FromFp32<TypeParam>(std::nextafter(middle, 0.0f)).bits, bits) << middle;
    ASSERT_EQ(FromFp32<TypeParam>(std::nextafter(middle, kInfinity)).bits, bits + 1) << middle;
  }
}

TEST(NumberTypes, KnownPatterns) {
  EXPECT_EQ(FromFp32<Bf16>(1.0f).bits, 0x3f80);
  EXPECT_EQ(FromFp32<Bf16>(-2.0f).bits, 0xc000);
  EXPECT_EQ(FromFp32<Fp16>(1.0f).bits, 0x3c00);
  EXPECT_EQ(FromFp32<Fp16>(65504.0f).bits, 0x7bff);  // the largest
  EXPECT_EQ(FromFp32<Fp16>(65519.0f).bits, 0x7bff);
  EXPECT_EQ(FromFp32<Fp16>(65520.0f).bits, 0x7c00);  // half-way to the next: infinity
  EXPECT_EQ(FromFp32<Fp16>(0x1p-24f).bits, 0x0001);  // the smallest
  EXPECT_EQ(FromFp32<Fp16>(0x1p-25f).bits, 0x0000);  // half of it: to even
  EXPECT_EQ(FromFp32<Fp16>(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(FromFp32<Bf16>(kInfinity).bits, 0x7f80);
}

TEST(NumberTypes, DispatchFindsTheStorageType) {
  const auto size = [](DataType type) {
    return WithStorageType(type, [](auto value) { return static_cast<int>(sizeof(value)); });
  };
  EXPECT_EQ(size(DataType::kFp32), 4);
  EXPECT_EQ(size(DataType::kBf16), 2);
  EXPECT_EQ(size(DataType::kFp16), 2);
}

TEST(RandomValues, InitialValuesAreExactInEveryTypeAndNeverZero) {
  const std::uint32_t seed = SeedHash(1);
  std::set<float> distinct;
  double sum = 0;
  for (std::int64_t element = 0; element < 20'000; ++element) {
    const float value = InitialValue(seed, element);
    ASSERT_NE(value, 0.0f);
    ASSERT_LE(std::abs(value), 0.0625f);
    ASSERT_EQ(ToFp32(FromFp32<Bf16>(value)), value);
    ASSERT_EQ(ToFp32(FromFp32<Fp16>(value)), value);
    distinct.insert(value);
    sum += value;
  }
  EXPECT_EQ(distinct.size(), 128u);  // odd numbers from -127 to 127
  // Uniform with standard deviation 0.036: the mean of 20,000 is within 0.0013 (5 sigma).
  EXPECT_LT(std::abs(sum / 20'000), 0.0013);
}

TEST(RandomValues, ElementsBeyondFourGigaDifferFromTheFirst) {
  const std::uint32_t seed = SeedHash(1);
  int equal = 0;
  for (std::int64_t element = 0; element < 1000; ++element) {
    equal += InitialValue(seed, element) == InitialValue(seed, element + (std::int64_t{1} << 32));
  }
  EXPECT_LT(equal, 50);  // one in 128 by chance
}

TEST(RandomValues, OperandsLieBetweenMinusOneAndOneAndAreNeverZero) {
  float least = 1, most = -1;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const float value = RandomOperand(SeedHash(7), i);
    ASSERT_NE(value, 0.0f);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_GE(least, -1.0f);
  EXPECT_LT(least, -0.99f);
  EXPECT_LE(most, 1.0f);
  EXPECT_GT(most, 0.99f);
}

TEST(Gradients, SmallIntegersTakeAllNineValuesAlike) {
  std::vector<int> count(9, 0);
  const std::uint32_t seed = SmallIntegerSeed(3, 1, 0);
  for (std::int64_t element = 0; element < 9000; ++element) {
    const float value = SmallIntegerGradient(0.25f, seed, element);
    ASSERT_EQ(value, std::round(value));
    ASSERT_LE(std::abs(value), 4.0f);
    ++count[static_cast<std::size_t>(value + 4)];
  }
  // 1000 each; the standard deviation is 30.
  for (const int c : count) EXPECT_NEAR(c, 1000, 160);
}

// Eight in nine of the gradients change with the parameter's lowest bit, the rank, the step or the
// micro-batch.
TEST(Gradients, SmallIntegersDependOnEverything) {
  const auto differing = [](auto one, auto other) {
    int count = 0;
    for (std::int64_t element = 0; element < 9000; ++element)
      count += one(element) != other(element);
    return count;
  };
  const auto gradient = [](float parameter, int rank, std::uint32_t step, int micro_batch) {
    return [=](std::int64_t element) {
      return SmallIntegerGradient(parameter, SmallIntegerSeed(rank, step, micro_batch), element);
    };
  };
  const auto base = gradient(0.25f, 1, 0, 0);
  EXPECT_EQ(differing(base, base), 0);
  EXPECT_NEAR(differing(base, gradient(std::nextafter(0.25f, 1.0f), 1, 0, 0)), 8000, 150);
  EXPECT_NEAR(differing(base, gradient(0.25f, 2, 0, 0)), 8000, 150);
  EXPECT_NEAR(differing(base, gradient(0.25f, 1, 1, 0)), 8000, 150);
  EXPECT_NEAR(differing(base, gradient(0.25f, 1, 0, 1)), 8000, 150);
}

TEST(Gradients, QuadraticTargetsOfAnElementHaveOneSignAndAreLarge) {
  bool differ = false;
  for (std::int64_t element = 0; element < 1000; ++element) {
    const float target = QuadraticTarget(QuadraticSeed(0, 0), element);
    for (int rank = 0; rank < 4; ++rank) {
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
        const float other = QuadraticTarget(QuadraticSeed(rank, micro_batch), element);
        ASSERT_GE(std::abs(other), 0.5f);
        ASSERT_LT(std::abs(other), 1.0f);
        ASSERT_EQ(std::signbit(other), std::signbit(target));
        differ = differ || other != target;
        ASSERT_EQ(QuadraticGradient(0.125f, QuadraticSeed(rank, micro_batch), element),
                  0.125f - other);
      }
    }
  }
  EXPECT_TRUE(differ);
}

// torch.optim.AdamW from its definition, in double precision.
struct ReferenceAdamW {
  double parameter, first = 0, second = 0;
  void Update(double gradient, int update) {
    parameter *= 1 - kLearningRate * kWeightDecay;
    first = kBeta1 * first + (1 - kBeta1) * gradient;
    second = kBeta2 * second + (1 - kBeta2) * gradient * gradient;
    const double corrected_first = first / (1 - std::pow(kBeta1, update));
    const double corrected_second = second / (1 - std::pow(kBeta2, update));
    parameter -= kLearningRate * corrected_first / (std::sqrt(corrected_second) + kEpsilon);
  }
};

TEST(Optimizers, AdamWFollowsItsDefinition) {
  constexpr std::int64_t kElements = 7;
  std::vector<float> parameters, states(2 * kElements, 0.0f);
  std::vector<ReferenceAdamW> reference;
  for (int i = 0; i < kElements; ++i) {
    parameters.push_back(0.01f * static_cast<float>(i + 1));
    reference.push_back({parameters.back()});
  }
  for (int update = 1; update <= 50; ++update) {
    std::vector<float> gradients;
    for (int i = 0; i < kElements; ++i) gradients.push_back(std::sin(0.7f * (i + 1) * update));
    UpdateRange(AdamWOf(update), parameters.data(), gradients.data(), states.data(), kElements,
                kElements);
    for (int i = 0; i < kElements; ++i) reference[i].Update(gradients[i], update);
  }
  // 50 updates of up to 1e-3, each with a few roundings of 6e-8 relative.
  for (int i = 0; i < kElements; ++i) EXPECT_NEAR(parameters[i], reference[i].parameter, 2e-7);
}

// The first AdamW update moves by learning rate x sign, apart from epsilon and decay.
TEST(Optimizers, FirstAdamWUpdateMovesByTheLearningRate) {
  float parameter = 0.5f, states[2] = {0, 0};
  const float gradient = -3;
  UpdateRange(AdamWOf(1), &parameter, &gradient, states, 1, 1);
  EXPECT_NEAR(parameter, 0.5 * (1 - 1e-5) + 1e-3, 1e-7);
}

TEST(Optimizers, SgdAccumulatesMomentum) {
  float parameter = 1, states[1] = {0};
  const float gradient = 2;
  UpdateRange(SgdOf(), &parameter, &gradient, states, 1, 1);
  EXPECT_FLOAT_EQ(parameter, 1 - 1e-3f * 2);
  UpdateRange(SgdOf(), &parameter, &gradient, states, 1, 1);
  EXPECT_FLOAT_EQ(parameter, 1 - 1e-3f * 2 - 1e-3f * (0.9f * 2 + 2));
}

// 9 + 16 + 144 = 169, whose root is 13. A limit of 6.5 halves the gradients; a limit of 20 keeps
// them.
TEST(Clipping, BringsTheNormDownToTheLimit) {
  const std::vector<Bf16> gradients = {FromFp32<Bf16>(3), FromFp32<Bf16>(-4), FromFp32<Bf16>(12)};
  const double sum = SumOfSquares(gradients.data(), 3);
  EXPECT_EQ(sum, 169);
  EXPECT_EQ(SumOfSquares(gradients.data(), 0), 0);
  EXPECT_EQ(StoredSquares(std::numeric_limits<float>::quiet_NaN(), false, 0.5f, sum), 84.5f);
  EXPECT_EQ(StoredSquares(1.0f, true, 1.0f, sum), 170.0f);
  EXPECT_NEAR(ClipFactor(169.0f, 6.5f), 0.5, 1e-6);
  EXPECT_LT(ClipFactor(169.0f, 6.5f) * 13.0f, 6.5f + 1e-6f);
  EXPECT_EQ(ClipFactor(169.0f, 20.0f), 1.0f);
  EXPECT_EQ(ClipFactor(0.0f, 1.0f), 1.0f);
  EXPECT_EQ(ToFp32(Clipped(gradients[2], 0.5f)), 6.0f);
}

// With a shorter type, the master copy is updated and the parameter is its rounded value.
TEST(Optimizers, ShortParametersAreTheRoundedMasterCopy) {
  constexpr std::int64_t kElements = 33;
  std::vector<float> wide(kElements), wide_states(2 * kElements, 0.0f);
  std::vector<float> states(3 * kElements, 0.0f);
  std::vector<Bf16> parameters(kElements);
  for (std::int64_t i = 0; i < kElements; ++i) {
    wide[i] = states[i] = InitialValue(SeedHash(1), i);
    parameters[i] = FromFp32<Bf16>(states[i]);
  }
  for (int update = 1; update <= 5; ++update) {
    std::vector<Fp16> gradients(kElements);
    std::vector<float> wide_gradients(kElements);
    for (std::int64_t i = 0; i < kElements; ++i) {
      wide_gradients[i] = SmallIntegerGradient(1.0f, SmallIntegerSeed(0, update, 0), i);
      gradients[i] = FromFp32<Fp16>(wide_gradients[i]);
    }
    UpdateRange(AdamWOf(update), parameters.data(), gradients.data(), states.data(), kElements,
                kElements);
    UpdateRange(AdamWOf(update), wide.data(), wide_gradients.data(), wide_states.data(), kElements,
                kElements);
  }
  for (std::int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(states[i], wide[i]);
    EXPECT_EQ(parameters[i].bits, FromFp32<Bf16>(wide[i]).bits);
  }
}

}  // namespace
}  // namespace stepcast::runtime::values
