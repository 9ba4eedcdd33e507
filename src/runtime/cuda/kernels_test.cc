// Compares GPU kernels with the host's own arithmetic. Without a GPU every test is skipped.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/runtime/cuda/attention.h"
#include "src/runtime/cuda/communicators.h"
#include "src/runtime/cuda/devices.h"
#include "src/runtime/cuda/effects.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/cuda/products.h"
#include "src/runtime/cuda/synthetic_kernels.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::cuda {
namespace {

using values::WithStorageType;

#define STEPCAST_NEEDS_A_GPU()                                                   \
  do {                                                                           \
    const Inventory inventory = ListDevices();                                   \
    if (inventory.devices.empty()) GTEST_SKIP() << inventory.no_devices_because; \
  } while (false)

// An array on the GPU.
class Array {
 public:
  explicit Array(std::size_t bytes) : size_(bytes) {
    EXPECT_EQ(cudaMalloc(&at_, std::max<std::size_t>(bytes, 1)), cudaSuccess);
  }
  explicit Array(const std::vector<std::byte>& bytes) : Array(bytes.size()) {
    EXPECT_EQ(cudaMemcpy(at_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(at_); }

  std::byte* at() const { return static_cast<std::byte*>(at_); }
  std::vector<std::byte> Bytes() const {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<std::byte> bytes(size_);
    EXPECT_EQ(cudaMemcpy(bytes.data(), at_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes;
  }
  std::vector<float> Values(DataType type) const { return Widened(Bytes(), type); }

 private:
  void* at_ = nullptr;
  std::size_t size_;
};

double* PartialSums() {
  static const Array array(kPartialSums * sizeof(double));
  return reinterpret_cast<double*>(array.at());
}

std::vector<float> Numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = values::RandomOperand(seed, i);
  return numbers;
}

// Types, and an offset of the arrays from the alignment of packs of four.
using Types = std::tuple<DataType, DataType, int>;
constexpr std::int64_t kCount = 100'003;  // elements; no multiple of four

class Effects : public testing::TestWithParam<Types> {};
INSTANTIATE_TEST_SUITE_P(
    All, Effects,
    testing::Combine(testing::Values(DataType::kFp32, DataType::kBf16, DataType::kFp16),
                     testing::Values(DataType::kFp32, DataType::kBf16, DataType::kFp16),
                     testing::Values(0, 1)),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::string(Name(std::get<1>(info.param))) +
             (std::get<2>(info.param) == 0 ? "_aligned" : "_odd");
    });

TEST_P(Effects, MovesAreBitExact) {
  STEPCAST_NEEDS_A_GPU();
  const auto [to_type, from_type, odd] = GetParam();
  for (const bool add : {false, true}) {
    for (const std::int64_t block : {kCount, std::int64_t{64}, std::int64_t{37}}) {
      const std::int64_t to_stride = block + 8;
      const std::int64_t from_stride = block + 4;
      const std::int64_t blocks = (kCount + block - 1) / block;
      const std::vector<std::byte> from =
          Narrowed(Numbers(blocks * from_stride + odd, 1), from_type);
      const std::vector<std::byte> before = Narrowed(Numbers(blocks * to_stride + odd, 2), to_type);
      Array source(from), target(before);
      const MoveWork work{.target = target.at() + odd * SizeOf(to_type),
                          .source = source.at() + odd * SizeOf(from_type),
                          .elements = kCount,
                          .block = block,
                          .target_stride = to_stride,
                          .source_stride = from_stride,
                          .scale = 0.3f,
                          .add = add};
      ASSERT_EQ(LaunchMoves({&work, 1}, {to_type, from_type}, nullptr), cudaSuccess);
      std::vector<float> expected = Widened(before, to_type);
      const std::vector<float> given = Widened(from, from_type);
      for (std::int64_t i = 0; i < kCount; ++i) {
        float& to = expected[odd + i / block * to_stride + i % block];
        const float value = given[odd + i / block * from_stride + i % block];
        to = add ? values::AddScaled(to, 0.3f, value) : values::Multiply(0.3f, value);
      }
      EXPECT_EQ(target.Bytes(), Narrowed(expected, to_type)) << "block " << block << " add " << add;
    }
  }
}

// Squares of small integers add up exactly in any order.
TEST_P(Effects, ClippingIsBitExact) {
  STEPCAST_NEEDS_A_GPU();
  const DataType to_type = std::get<0>(GetParam());
  const DataType from_type = std::get<1>(GetParam());
  std::vector<float> integers;
  for (std::int64_t i = 0; i < 100'003; ++i) integers.push_back(static_cast<float>(i % 9 - 4));
  const std::vector<std::byte> bytes = Narrowed(integers, from_type);
  Array source(bytes);
  double sum = 0;
  for (const float value : integers) sum += static_cast<double>(value) * value;
  Array number(Narrowed(std::vector<float>{7.0f}, DataType::kFp32));
  auto* const squares = reinterpret_cast<float*>(number.at());
  for (const bool add : {false, true}) {
    const SquaresWork work{.target = squares,
                           .source = source.at(),
                           .elements = static_cast<std::int64_t>(integers.size()),
                           .scale = 0.5f,
                           .add = add};
    ASSERT_EQ(LaunchSquares({&work, 1}, from_type, PartialSums(), nullptr), cudaSuccess);
  }
  const float whole = 2 * (0.5f * static_cast<float>(sum));
  EXPECT_EQ(Widened(number.Bytes(), DataType::kFp32), std::vector<float>{whole});

  const std::vector<float> given = Widened(Narrowed(Numbers(kCount, 1), to_type), to_type);
  Array target(Narrowed(given, to_type));
  const ClipWork clip{
      .target = target.at(), .squares = squares, .elements = kCount, .limit = 10.0f};
  ASSERT_EQ(LaunchClips({&clip, 1}, to_type, nullptr), cudaSuccess);
  std::vector<float> clipped;
  for (const float value : given) {
    clipped.push_back(values::Multiply(values::ClipFactor(whole, 10.0f), value));
  }
  EXPECT_EQ(target.Bytes(), Narrowed(clipped, to_type));
}

TEST_P(Effects, GradientsAreBitExact) {
  STEPCAST_NEEDS_A_GPU();
  const auto [to_type, from_type, odd] = GetParam();
  const std::vector<std::byte> from = Narrowed(Numbers(kCount + odd, 3), from_type);
  const std::vector<float> parameters = Widened(from, from_type);
  for (const GradientRule rule : {GradientRule::kComputed, GradientRule::kSmallIntegers}) {
    Array source(from);
    Array target(Narrowed(std::vector<float>(kCount + odd, 1.0f), to_type));
    const GradientWork work{.target = target.at() + odd * SizeOf(to_type),
                            .source = source.at() + odd * SizeOf(from_type),
                            .elements = kCount,
                            .first_element = 12345,
                            .scale = 0.5f,
                            .add = true};
    ASSERT_EQ(LaunchGradients({&work, 1}, {to_type, from_type},
                              {.rule = rule, .rank = 3, .micro_batch = 2}, {.now = StepValuesOf(7)},
                              nullptr),
              cudaSuccess);
    std::vector<float> expected(kCount + odd, 1.0f);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const float parameter = parameters[odd + i];
      const float gradient =
          rule == GradientRule::kSmallIntegers
              ? values::SmallIntegerGradient(parameter, values::SmallIntegerSeed(3, 7, 2),
                                             12345 + i)
              : values::QuadraticGradient(parameter, values::QuadraticSeed(3, 2), 12345 + i);
      expected[odd + i] = values::AddScaled(1.0f, 0.5f, gradient);
    }
    EXPECT_EQ(target.Bytes(), Narrowed(expected, to_type));
  }
}

// If `state_type` is wider than the parameters' type, there is a master copy.
void ExpectUpdatesBitExact(DataType parameter_type, DataType gradient_type, DataType state_type,
                           std::int64_t odd) {
  const bool master = parameter_type != state_type;
  for (const bool adamw : {true, false}) {
    const std::int64_t stride = kCount + 1;
    const std::int64_t arrays = (adamw ? 2 : 1) + (master ? 1 : 0);
    std::vector<float> numbers = Numbers(arrays * stride + odd, 5);
    // Second moments are not negative.
    for (float& number : numbers) number = std::fabs(number);
    std::vector<std::byte> states = Narrowed(numbers, state_type);
    const std::vector<std::byte> gradients = Narrowed(Numbers(kCount + odd, 6), gradient_type);
    std::vector<std::byte> parameters = Narrowed(Numbers(kCount + odd, 7), parameter_type);
    Array on_device(parameters), gradient_array(gradients), state_array(states);
    const UpdateWork work{.parameters = on_device.at() + odd * SizeOf(parameter_type),
                          .gradients = gradient_array.at() + odd * SizeOf(gradient_type),
                          .states = state_array.at() + odd * SizeOf(state_type),
                          .elements = kCount,
                          .state_stride = stride};
    ASSERT_EQ(LaunchUpdates({&work, 1}, {parameter_type, gradient_type}, state_type, adamw,
                            {.now = StepValuesOf(4)}, nullptr),
              cudaSuccess);
    const auto update = [&](auto* to, const auto* from, auto* kept) {
      if (adamw) {
        values::UpdateRange(values::AdamWOf(5), to, from, kept, stride, kCount);
      } else {
        values::UpdateRange(values::SgdOf(), to, from, kept, stride, kCount);
      }
    };
    WithStorageType(parameter_type, [&](auto p) {
      using Parameter = decltype(p);
      WithStorageType(gradient_type, [&](auto q) {
        auto* to = reinterpret_cast<Parameter*>(parameters.data()) + odd;
        const auto* from = reinterpret_cast<const decltype(q)*>(gradients.data()) + odd;
        if (master) {
          update(to, from, reinterpret_cast<float*>(states.data()) + odd);
        } else {
          update(to, from, reinterpret_cast<Parameter*>(states.data()) + odd);
        }
      });
    });
    EXPECT_EQ(on_device.Bytes(), parameters);
    EXPECT_EQ(state_array.Bytes(), states);
  }
}

TEST_P(Effects, UpdatesAreBitExact) {
  STEPCAST_NEEDS_A_GPU();
  const auto [parameter_type, gradient_type, odd] = GetParam();
  ExpectUpdatesBitExact(parameter_type, gradient_type, DataType::kFp32, odd);
  if (parameter_type != DataType::kFp32) {
    ExpectUpdatesBitExact(parameter_type, gradient_type, parameter_type, odd);
  }
}

// More pieces than one launch takes, of all sizes: each has the result of a separate launch.
TEST(Effects, PiecesOfOneLaunchAreEachTheirOwn) {
  STEPCAST_NEEDS_A_GPU();
  constexpr int kPieces = 131;
  const std::int64_t whole = 40'000;
  const std::vector<std::byte> from = Narrowed(Numbers(whole, 1), DataType::kFp32);
  const std::vector<float> given = Widened(from, DataType::kFp32);
  Array source(from);
  Array target(Narrowed(std::vector<float>(whole, 5.0f), DataType::kBf16));
  std::vector<MoveWork> moves;
  std::vector<float> expected(whole, 5.0f);
  std::int64_t at = 0;
  for (int piece = 0; piece < kPieces; ++piece) {
    const std::int64_t elements = piece % 7 == 0 ? 0 : 1 + piece * piece % 500;
    const float scale = static_cast<float>(piece + 1);
    moves.push_back({.target = target.at() + at * 2,
                     .source = source.at() + at * 4,
                     .elements = elements,
                     .block = elements,
                     .scale = scale,
                     .add = piece % 2 == 0});
    for (std::int64_t i = at; i < at + elements; ++i) {
      expected[i] = piece % 2 == 0 ? values::AddScaled(5.0f, scale, given[i])
                                   : values::Multiply(scale, given[i]);
    }
    at += elements + 3;
  }
  ASSERT_LE(at, whole);
  ASSERT_EQ(LaunchMoves(moves, {DataType::kBf16, DataType::kFp32}, nullptr), cudaSuccess);
  EXPECT_EQ(target.Bytes(), Narrowed(expected, DataType::kBf16));
}

// Sums of squares depend only on the numbers. Several sums into one number are added in order.
TEST(Effects, SumsOfSquaresAreAddedUpInOrder) {
  STEPCAST_NEEDS_A_GPU();
  constexpr std::int64_t kLarge = 300'001;
  const std::vector<std::byte> from = Narrowed(Numbers(kLarge, 9), DataType::kFp32);
  Array source(from);
  Array number(4);
  auto* const target = reinterpret_cast<float*>(number.at());
  std::vector<SquaresWork> works;
  for (int piece = 0; piece < 60; ++piece) {
    works.push_back({.target = target,
                     .source = source.at() + 4 * 1000 * piece,
                     .elements = piece == 0 ? kLarge : 1 + piece,
                     .scale = 1.0f / static_cast<float>(1 + piece),
                     .add = piece > 0});
  }
  ASSERT_EQ(LaunchSquares(works, DataType::kFp32, PartialSums(), nullptr), cudaSuccess);
  const std::vector<float> together = number.Values(DataType::kFp32);
  for (const SquaresWork& work : works) {
    ASSERT_EQ(LaunchSquares({&work, 1}, DataType::kFp32, PartialSums(), nullptr), cudaSuccess);
  }
  EXPECT_EQ(number.Values(DataType::kFp32), together);
  const std::vector<float> given = Widened(from, DataType::kFp32);
  double expected = 0;
  for (const SquaresWork& work : works) {
    const std::int64_t first = (reinterpret_cast<const std::byte*>(work.source) - source.at()) / 4;
    expected += work.scale * values::SumOfSquares(given.data() + first, work.elements);
  }
  EXPECT_NEAR(together[0] / expected, 1.0, 1e-6);
}

TEST(Effects, ReplaysTakeTheirStepFromTheDevice) {
  STEPCAST_NEEDS_A_GPU();
  Array values_array(sizeof(StepValues));
  auto* on_device = reinterpret_cast<StepValues*>(values_array.at());
  const std::vector<std::byte> parameters = Narrowed(Numbers(1000, 1), DataType::kFp32);
  Array source(parameters), direct(4000), indirect(4000);
  GradientWork work{.target = direct.at(), .source = source.at(), .elements = 1000};
  const GradientOrigin origin{.rule = GradientRule::kSmallIntegers};
  ASSERT_EQ(LaunchGradients({&work, 1}, {}, origin, {.now = StepValuesOf(9)}, nullptr),
            cudaSuccess);
  work.target = indirect.at();
  ASSERT_EQ(StoreStepValues(StepValuesOf(9), on_device, nullptr), cudaSuccess);
  ASSERT_EQ(LaunchGradients({&work, 1}, {}, origin,
                            {.now = StepValuesOf(2), .on_device = on_device}, nullptr),
            cudaSuccess);
  EXPECT_EQ(direct.Bytes(), indirect.Bytes());
}

TEST(InitialValues, AreTheHosts) {
  STEPCAST_NEEDS_A_GPU();
  Array target(2000);
  ASSERT_EQ(LaunchInitialValues(target.at(), DataType::kBf16, 1000, 77, 42, nullptr), cudaSuccess);
  std::vector<float> expected(1000);
  for (int i = 0; i < 1000; ++i) {
    expected[i] = values::InitialValue(values::SeedHash(42), 77 + i);
  }
  EXPECT_EQ(target.Values(DataType::kBf16), expected);
}

TEST(SyntheticKernels, RandomOperandsAreNeverZeroAndStayFinite) {
  STEPCAST_NEEDS_A_GPU();
  for (const DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16}) {
    Array array(64000);
    ASSERT_EQ(FillRandom(array.at(), Bytes(64000), type, 1, nullptr), cudaSuccess);
    for (const float value : array.Values(type)) {
      ASSERT_NE(value, 0.0f);
      ASSERT_LE(std::fabs(value), 1.0f);
    }
  }
  Array bytes(64000);
  ASSERT_EQ(FillRandom(bytes.at(), Bytes(64000), DataType::kFp8, 1, nullptr), cudaSuccess);
  for (const std::byte value : bytes.Bytes()) {
    const int exponent = (static_cast<int>(value) >> 3) & 15;
    ASSERT_GE(exponent, 4);  // 2^-3; 15 with all fraction bits would be NaN
    ASSERT_LE(exponent, 7);
  }
}

TEST(SyntheticKernels, TrafficStaysInItsArenas) {
  STEPCAST_NEEDS_A_GPU();
  // 4 KiB of guard bytes on both sides of the arena that is written.
  Array input(1 << 20);
  Array output(std::vector<std::byte>((1 << 20) + 8192, std::byte{0x77}));
  ASSERT_EQ(FillRandom(input.at(), MiB(1), DataType::kBf16, 1, nullptr), cudaSuccess);
  for (const auto& [read, written] :
       {std::pair{MiB(3), MiB(5)}, std::pair{Bytes(0), Bytes(100)}, std::pair{MiB(7), Bytes(0)},
        std::pair{Bytes(16), KiB(300)}}) {
    ASSERT_EQ(LaunchTraffic({.input = input.at(),
                             .input_size = MiB(1),
                             .from = KiB(512),
                             .read = read,
                             .output = output.at() + 4096,
                             .output_size = MiB(1),
                             .to = KiB(768),
                             .written = written},
                            nullptr),
              cudaSuccess);
  }
  const std::vector<std::byte> after = output.Bytes();
  for (std::size_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(after[i], std::byte{0x77});
    ASSERT_EQ(after[after.size() - 1 - i], std::byte{0x77});
  }
}

TEST(SyntheticKernels, SpinLastsAsLongAsGiven) {
  STEPCAST_NEEDS_A_GPU();
  cudaEvent_t begin, end;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(Spin(Microseconds(1), nullptr, nullptr), cudaSuccess);  // loads the kernel
  cudaEventRecord(begin, nullptr);
  ASSERT_EQ(Spin(Milliseconds(5), nullptr, nullptr), cudaSuccess);
  cudaEventRecord(end, nullptr);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, begin, end);
  EXPECT_GE(milliseconds, 4.99f);
  EXPECT_LT(milliseconds, 6.0f);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

// Compares every layout with a triple loop.
TEST(Products, AreRowByRow) {
  STEPCAST_NEEDS_A_GPU();
  const std::int64_t m = 48, n = 80, k = 32;
  for (const ProductLayout layout :
       {ProductLayout::kForward, ProductLayout::kInputGradient, ProductLayout::kWeightGradient}) {
    for (const DataType output : {DataType::kBf16, DataType::kFp32}) {
      for (const bool add : {false, true}) {
        const Product product{.m = m,
                              .n = n,
                              .k = k,
                              .layout = layout,
                              .input = DataType::kBf16,
                              .output = output,
                              .add = add,
                              .output_alignment = 256};
        auto products = Products::Make({product});
        ASSERT_TRUE(products) << products.error().message;
        const auto a_bytes = Narrowed(Numbers(m * k, 1), DataType::kBf16);
        const auto b_bytes = Narrowed(Numbers(k * n, 2), DataType::kBf16);
        const auto before = Narrowed(Numbers(m * n, 3), output);
        Array a(a_bytes), b(b_bytes), d(before);
        Array workspace(static_cast<std::size_t>(Products::kWorkspace.count()));
        const auto run = (*products)->Run(0, 0.5f, a.at(), b.at(), d.at(), workspace.at(), nullptr);
        ASSERT_TRUE(run) << run.error().message;
        const std::vector<float> av = Widened(a_bytes, DataType::kBf16);
        const std::vector<float> bv = Widened(b_bytes, DataType::kBf16);
        const std::vector<float> was = Widened(before, output);
        const std::vector<float> got = d.Values(output);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const double before_it = add ? was[i * n + j] : 0.0f;
            double sum = 0;
            double size = std::fabs(before_it);
            for (std::int64_t l = 0; l < k; ++l) {
              const float x =
                  layout == ProductLayout::kWeightGradient ? av[l * m + i] : av[i * k + l];
              const float y = layout == ProductLayout::kForward ? bv[j * k + l] : bv[l * n + j];
              sum += static_cast<double>(x) * y;
              size += 0.5 * std::fabs(static_cast<double>(x) * y);
            }
            const double expected = 0.5 * sum + before_it;
            // bf16 has 8 bits of fraction. The library may sum partial results in bf16, as
            // frameworks allow (on an H100 it does for this size). Partial sums are at most the sum
            // of all magnitudes. Sums of 32 products in FP32 are far more accurate.
            ASSERT_NEAR(got[i * n + j], expected, output == DataType::kBf16 ? size / 128 : 1e-4)
                << "layout " << static_cast<int>(layout) << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

// FP32 is not rounded to TF32, whose 10 bits of fraction would show.
TEST(Products, Fp32IsFp32) {
  STEPCAST_NEEDS_A_GPU();
  const Product product{.m = 64,
                        .n = 64,
                        .k = 64,
                        .layout = ProductLayout::kInputGradient,
                        .input = DataType::kFp32,
                        .output = DataType::kFp32,
                        .output_alignment = 256};
  auto products = Products::Make({product});
  ASSERT_TRUE(products) << products.error().message;
  const auto av = Numbers(64 * 64, 1);
  const auto bv = Numbers(64 * 64, 2);
  Array a(Narrowed(av, DataType::kFp32)), b(Narrowed(bv, DataType::kFp32)), d(64 * 64 * 4);
  Array workspace(static_cast<std::size_t>(Products::kWorkspace.count()));
  ASSERT_TRUE((*products)->Run(0, 1.0f, a.at(), b.at(), d.at(), workspace.at(), nullptr));
  const std::vector<float> got = d.Values(DataType::kFp32);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      double sum = 0;
      for (int l = 0; l < 64; ++l) sum += static_cast<double>(av[i * 64 + l]) * bv[l * 64 + j];
      ASSERT_NEAR(got[i * 64 + j], sum, 2e-5);
    }
  }
}

TEST(Products, WhatCannotBeMultipliedIsNamed) {
  STEPCAST_NEEDS_A_GPU();
  const Product odd{.m = 7,
                    .n = 7,
                    .k = 7,
                    .input = DataType::kFp8,
                    .output = DataType::kBf16,
                    .output_alignment = 256};
  const auto products = Products::Make({odd});
  ASSERT_FALSE(products);
  EXPECT_NE(products.error().message.find("fp8 product of [7, 7] and [7, 7]"), std::string::npos)
      << products.error().message;
}

struct Core {
  Attention attention;
  std::vector<float> q, k, v, dy;
  // The expected results.
  std::vector<double> y, log_sum_exp, row_sums, dq, dk, dv;
};

// Attention computed from its definition.
Core Reference(const Attention& a) {
  Core core;
  core.attention = a;
  const std::int64_t s = a.sequence, d = a.head_size, rows = a.heads * s;
  const auto numbers = [&](std::int64_t count, int seed) {
    return Widened(Narrowed(Numbers(count, static_cast<std::uint32_t>(seed)), a.type), a.type);
  };
  core.q = numbers(rows * d, 1);
  core.k = numbers(a.key_heads * s * d, 2);
  core.v = numbers(a.key_heads * s * d, 3);
  core.dy = numbers(rows * d, 4);
  core.y.assign(core.q.size(), 0);
  core.dq.assign(core.q.size(), 0);
  core.dk.assign(core.k.size(), 0);
  core.dv.assign(core.v.size(), 0);
  core.log_sum_exp.assign(rows, 0);
  core.row_sums.assign(rows, 0);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  for (std::int64_t h = 0; h < a.heads; ++h) {
    const std::int64_t kh = h / (a.heads / a.key_heads);
    for (std::int64_t i = 0; i < s; ++i) {
      const std::int64_t row = h * s + i;
      std::vector<double> p(i + 1);
      double highest = -1e30;
      for (std::int64_t j = 0; j <= i; ++j) {
        for (std::int64_t x = 0; x < d; ++x) {
          p[j] += scale * core.q[row * d + x] * core.k[(kh * s + j) * d + x];
        }
        highest = std::max(highest, p[j]);
      }
      double total = 0;
      for (double& score : p) total += score = std::exp(score - highest);
      core.log_sum_exp[row] = highest + std::log(total);
      for (std::int64_t j = 0; j <= i; ++j) {
        p[j] /= total;
        for (std::int64_t x = 0; x < d; ++x) {
          core.y[row * d + x] += p[j] * core.v[(kh * s + j) * d + x];
        }
      }
      for (std::int64_t x = 0; x < d; ++x) {
        core.row_sums[row] += core.y[row * d + x] * core.dy[row * d + x];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        double dp = 0;
        for (std::int64_t x = 0; x < d; ++x) {
          dp += static_cast<double>(core.dy[row * d + x]) * core.v[(kh * s + j) * d + x];
          core.dv[(kh * s + j) * d + x] += p[j] * core.dy[row * d + x];
        }
        const double ds = p[j] * (dp - core.row_sums[row]) * scale;
        for (std::int64_t x = 0; x < d; ++x) {
          core.dq[row * d + x] += ds * core.k[(kh * s + j) * d + x];
          core.dk[(kh * s + j) * d + x] += ds * core.q[row * d + x];
        }
      }
    }
  }
  return core;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected, double bound,
                const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], bound) << what << " " << i;
  }
}

class FusedAttention : public testing::TestWithParam<Attention> {};
INSTANTIATE_TEST_SUITE_P(Shapes, FusedAttention,
                         testing::Values(Attention{false, DataType::kBf16, 64, 256, 2, 2, true},
                                         Attention{false, DataType::kFp16, 64, 200, 2, 1, true},
                                         Attention{false, DataType::kBf16, 128, 130, 4, 2, true},
                                         Attention{false, DataType::kFp16, 128, 256, 1, 1, true},
                                         Attention{false, DataType::kBf16, 64, 17, 3, 3, true}));

// Numbers below 1 rounded to 8 bits of fraction, summed over some hundred.
TEST_P(FusedAttention, IsAttention) {
  STEPCAST_NEEDS_A_GPU();
  Attention attention = GetParam();
  const Core core = Reference(attention);
  const DataType type = attention.type;
  Array q(Narrowed(core.q, type)), k(Narrowed(core.k, type)), v(Narrowed(core.v, type)),
      dy(Narrowed(core.dy, type));
  Array y(core.q.size() * 2), log_sum_exp(core.log_sum_exp.size() * 4);
  ASSERT_EQ(
      LaunchAttention(attention,
                      AttentionForward{.queries = q.at(),
                                       .keys = k.at(),
                                       .values = v.at(),
                                       .output = y.at(),
                                       .log_sum_exp = reinterpret_cast<float*>(log_sum_exp.at())},
                      nullptr),
      cudaSuccess);
  ExpectNear(y.Values(type), core.y, 0.01, "output");
  ExpectNear(log_sum_exp.Values(DataType::kFp32), core.log_sum_exp, 1e-3, "log-sum-exp");

  attention.backward = true;
  const std::vector<float> sums(core.row_sums.begin(), core.row_sums.end());
  Array row_sums(Narrowed(sums, DataType::kFp32));
  Array accumulator(core.q.size() * 4), dq(core.q.size() * 2), dk(core.k.size() * 2),
      dv(core.v.size() * 2);
  ASSERT_EQ(LaunchAttention(
                attention,
                AttentionBackward{.queries = q.at(),
                                  .keys = k.at(),
                                  .values = v.at(),
                                  .output_gradient = dy.at(),
                                  .log_sum_exp = reinterpret_cast<const float*>(log_sum_exp.at()),
                                  .row_sums = reinterpret_cast<const float*>(row_sums.at()),
                                  .query_accumulator = reinterpret_cast<float*>(accumulator.at()),
                                  .query_gradient = dq.at(),
                                  .key_gradient = dk.at(),
                                  .value_gradient = dv.at()},
                nullptr),
            cudaSuccess);
  ExpectNear(dq.Values(type), core.dq, 0.02, "gradient of queries");
  ExpectNear(dk.Values(type), core.dk, 0.03, "gradient of keys");
  ExpectNear(dv.Values(type), core.dv, 0.03, "gradient of values");
}

TEST(FusedAttention, SyntheticKernelsHaveRoom) {
  STEPCAST_NEEDS_A_GPU();
  for (const bool backward : {false, true}) {
    const Attention attention{backward, DataType::kBf16, 128, 1000, 8, 2, true};
    Array input(static_cast<std::size_t>(InputOf(attention).count()));
    Array output(static_cast<std::size_t>(OutputOf(attention).count()));
    ASSERT_EQ(FillRandom(input.at(), InputOf(attention), DataType::kBf16, 1, nullptr), cudaSuccess);
    ASSERT_EQ(LaunchAttention(attention, input.at(), output.at(), nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
}

}  // namespace
}  // namespace stepcast::runtime::cuda
