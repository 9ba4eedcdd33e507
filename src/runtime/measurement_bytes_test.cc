#include "src/runtime/measurement_bytes.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::runtime {
namespace {

Measurement Arbitrary(int operations, int steps) {
  Measurement measurement;
  std::int64_t clock = -1000;  // a rank's clock may start a little before the common zero
  const auto tick = [&] { return Picoseconds(clock += *rc::gen::inRange(0, 1 << 30)); };
  const auto index = [] { return *rc::gen::arbitrary<std::uint32_t>(); };
  for (int i = 0; i < operations; ++i) {
    measurement.timeline.operations.push_back({index(), index(), tick(), tick(), tick(), tick()});
    measurement.timeline.waits.push_back({index(), index(), tick(), tick()});
    measurement.timeline.memory.push_back({index(), index(), tick()});
  }
  for (int i = 0; i < steps; ++i) measurement.timeline.step_ends.push_back(tick());
  measurement.memory = {Bytes(clock), Bytes(2 * clock), Bytes(7)};
  return measurement;
}

void ExpectSame(const Measurement& a, const Measurement& b) {
  RC_ASSERT(a.timeline.operations.size() == b.timeline.operations.size());
  for (std::size_t i = 0; i < a.timeline.operations.size(); ++i) {
    const program::OperationRecord& x = a.timeline.operations[i];
    const program::OperationRecord& y = b.timeline.operations[i];
    RC_ASSERT(x.instruction == y.instruction && x.step == y.step && x.issued == y.issued &&
              x.ready == y.ready && x.start == y.start && x.end == y.end);
  }
  RC_ASSERT(a.timeline.waits.size() == b.timeline.waits.size());
  for (std::size_t i = 0; i < a.timeline.waits.size(); ++i) {
    const program::WaitRecord& x = a.timeline.waits[i];
    const program::WaitRecord& y = b.timeline.waits[i];
    RC_ASSERT(x.instruction == y.instruction && x.step == y.step && x.start == y.start &&
              x.end == y.end);
  }
  RC_ASSERT(a.timeline.memory.size() == b.timeline.memory.size());
  for (std::size_t i = 0; i < a.timeline.memory.size(); ++i) {
    const program::MemoryRecord& x = a.timeline.memory[i];
    const program::MemoryRecord& y = b.timeline.memory[i];
    RC_ASSERT(x.instruction == y.instruction && x.step == y.step && x.time == y.time);
  }
  RC_ASSERT(a.timeline.step_ends == b.timeline.step_ends);
  RC_ASSERT(a.memory.peak == b.memory.peak && a.memory.reserved == b.memory.reserved &&
            a.memory.outside == b.memory.outside);
}

RC_GTEST_PROP(MeasurementBytes, ComesBack, ()) {
  const Measurement measurement = Arbitrary(*rc::gen::inRange(0, 20), *rc::gen::inRange(0, 5));
  const auto back = ToMeasurement(ToBytes(measurement));
  RC_ASSERT(back.has_value());
  ExpectSame(measurement, *back);
}

// Truncated or corrupt bytes, as from a rank killed while sending: never a measurement, never a
// crash.
RC_GTEST_PROP(MeasurementBytes, WhatIsNotWholeIsRefused, ()) {
  const std::string bytes = ToBytes(Arbitrary(3, 2));
  const auto cut = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(bytes.size())));
  RC_ASSERT(!ToMeasurement(bytes.substr(0, cut)));
  RC_ASSERT(!ToMeasurement(bytes + "x"));
}

RC_GTEST_PROP(MeasurementBytes, AnyBytesAreHarmless, (std::string bytes)) {
  Measurement none;
  const std::string start = ToBytes(none);
  (void)ToMeasurement(bytes);
  (void)ToMeasurement(start.substr(0, 22) + bytes);
}

TEST(MeasurementBytes, RecordsOfAnotherProgramAreRefused) {
  Measurement measurement;
  measurement.timeline.step_ends = {Nanoseconds(10), Nanoseconds(20)};
  measurement.timeline.operations.push_back({2, 1, {}, {}, {}, {}});
  measurement.timeline.waits.push_back({1, 0, {}, {}});
  measurement.timeline.memory.push_back({0, 0, {}});
  EXPECT_TRUE(CheckMeasurement(measurement, 3, 2));
  EXPECT_FALSE(CheckMeasurement(measurement, 2, 2));  // no third instruction
  EXPECT_FALSE(CheckMeasurement(measurement, 3, 3));  // a step without an end
  measurement.timeline.operations[0].step = 2;
  EXPECT_FALSE(CheckMeasurement(measurement, 3, 2));
  measurement.timeline.operations.clear();
  EXPECT_FALSE(CheckMeasurement(measurement, 1, 2));  // the wait
  measurement.timeline.waits.clear();
  EXPECT_FALSE(CheckMeasurement(measurement, 0, 2));  // the memory
}

TEST(MeasurementBytes, AnOperationIsAboutTenBytes) {
  // Times are microseconds apart, as on a real device: 1 us is 10^6 ps, three bytes of 7 bits.
  Measurement measurement;
  for (std::int64_t i = 0; i < 1000; ++i) {
    measurement.timeline.operations.push_back(
        {static_cast<program::Index>(i), 1, Nanoseconds(1000 * i), Nanoseconds(1000 * i + 100),
         Nanoseconds(1000 * i + 200), Nanoseconds(1000 * i + 900)});
  }
  EXPECT_LT(ToBytes(measurement).size(), 15'000u);
}

}  // namespace
}  // namespace stepcast::runtime
