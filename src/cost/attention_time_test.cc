#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

using calibration::AttentionSurface;

Kernel Core(std::int64_t heads, std::int64_t sequence, std::int64_t head_size) {
  return {.kind = KernelKind::kAttention,
          .batch = heads,
          .m = sequence,
          .n = sequence,
          .k = head_size,
          .key_heads = heads};
}

// 16 and 64 heads of 64; 64 heads of 128.
AttentionSurface Measured() {
  return {
      {.head_size = 64, .heads = 16, .points = {{512, Microseconds(6)}, {2048, Microseconds(24)}}},
      {.head_size = 64, .heads = 64, .points = {{512, Microseconds(12)}, {2048, Microseconds(96)}}},
      {.head_size = 128,
       .heads = 64,
       .points = {{512, Microseconds(18)}, {2048, Microseconds(192)}}},
  };
}

// Measured cores are causal.
TEST(AttentionTime, WithoutAMaskTwiceTheScores) {
  Kernel core = Core(64, 2048, 128);
  core.causal = false;
  EXPECT_EQ(TimeOfAttention(Measured(), core, 100).time, Microseconds(2 * 192));
  EXPECT_EQ(TimeOfAttention(Measured(), core, 100).provenance, Provenance::kInterpolated);
}

TEST(AttentionTime, ReadsBetweenAndOutside) {
  constexpr int kMultiprocessors = 100;
  const struct {
    const char* what;
    Kernel core;
    double microseconds;
    Provenance provenance;
  } cases[] = {
      {"as measured", Core(64, 2048, 128), 192, Provenance::kMeasured},
      {"half-way in the sequence", Core(16, 1024, 64), 12, Provenance::kInterpolated},
      {"half-way in heads", Core(32, 2048, 64), 48, Provenance::kInterpolated},
      {"half-way in all three", Core(32, 1024, 64), std::sqrt(12 * std::sqrt(12.0 * 96)),
       Provenance::kInterpolated},
      // Half-way in the logarithm between 64 and 128 are about 90.5: sqrt(96 x 192).
      {"a shorter sequence than any", Core(64, 128, 64), 12, Provenance::kExtrapolated},
      {"a sequence twice as long as any", Core(64, 4096, 64), 4 * 96, Provenance::kExtrapolated},
      {"smaller heads than any", Core(64, 512, 32), 12, Provenance::kExtrapolated},
      {"heads twice as large as any", Core(64, 512, 256), 36, Provenance::kExtrapolated},
      // 64 x 16 blocks fill the device, and so do 128 x 16.
      {"more heads than any", Core(128, 2048, 64), 2 * 96, Provenance::kExtrapolated},
      // 16 x 16 blocks, more than there are multiprocessors; 4 x 16 are fewer than those 100.
      {"fewer heads than any", Core(4, 2048, 64), 24 * 100 / 256.0, Provenance::kExtrapolated},
      // 64 blocks and 32: the time of the measured ones.
      {"heads that fill less", Core(8, 512, 64), 6, Provenance::kExtrapolated},
      {"64 heads alone were measured: 64 blocks", Core(32, 2048, 128), 192 * 512 / 1024.0,
       Provenance::kExtrapolated},
  };
  for (const auto& [what, core, microseconds, provenance] : cases) {
    const MeasuredTime got = TimeOfAttention(Measured(), core, kMultiprocessors);
    EXPECT_NEAR(got.time.microseconds(), microseconds, 1e-5 * microseconds) << what;
    EXPECT_EQ(got.provenance, provenance) << what;
  }
}

TEST(AttentionTime, AWindowSavesWhatItHides) {
  Kernel core = Core(64, 2048, 64);
  core.n = 512;  // hides the square of 3 / 4
  EXPECT_NEAR(TimeOfAttention(Measured(), core, 100).time.microseconds(), 96 * (1 - 9 / 16.0),
              1e-6);
}

TEST(AttentionTime, WithoutMultiprocessorsTimeGoesWithHeads) {
  EXPECT_NEAR(TimeOfAttention(Measured(), Core(8, 512, 64), 0).time.microseconds(), 3, 1e-6);
}

// The time never falls with more heads, longer sequences or larger heads, if the measured times do
// not.
RC_GTEST_PROP(AttentionTime, GrowsWithEverySize, ()) {
  const AttentionSurface surface = {
      {.head_size = 64, .heads = 16, .points = {{512, Microseconds(6)}, {2048, Microseconds(24)}}},
      {.head_size = 64, .heads = 64, .points = {{512, Microseconds(12)}, {2048, Microseconds(96)}}},
      {.head_size = 128, .heads = 16, .points = {{512, Microseconds(9)}, {2048, Microseconds(48)}}},
      {.head_size = 128,
       .heads = 64,
       .points = {{512, Microseconds(18)}, {2048, Microseconds(192)}}},
  };
  const auto heads = *rc::gen::inRange<std::int64_t>(1, 256);
  const auto sequence = *rc::gen::inRange<std::int64_t>(1, 8192);
  const auto head_size = *rc::gen::inRange<std::int64_t>(8, 256);
  const auto time = [&](std::int64_t h, std::int64_t s, std::int64_t d) {
    return TimeOfAttention(surface, Core(h, s, d), 132).time;
  };
  // Rounding takes a picosecond at most.
  const Time small = time(heads, sequence, head_size) - Picoseconds(1);
  RC_ASSERT(time(heads + 1, sequence, head_size) >= small);
  RC_ASSERT(time(heads, sequence + 1, head_size) >= small);
  RC_ASSERT(time(heads, sequence, head_size + 1) >= small);
}

}  // namespace
}  // namespace stepcast::cost
