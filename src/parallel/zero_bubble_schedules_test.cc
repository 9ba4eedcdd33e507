#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"

// Against tables worked out by hand and the closed forms of papers.
namespace stepcast::parallel {
namespace {

TEST(ZeroBubbleSchedulesTest, H1OfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(ZeroBubbleH1(4, 8)),
            "stage 0: F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7\n"
            "stage 1: F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7\n"
            "stage 2: F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7\n"
            "stage 3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7\n");
}

// Stage 0 as drawn in the paper: seven forwards until the first gradient arrives. The last stage
// defers weight parts until seven micro-batches are in flight.
TEST(ZeroBubbleSchedulesTest, H2OfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(ZeroBubbleH2(4, 8)),
            "stage 0: F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7\n"
            "stage 1: F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7\n"
            "stage 2: F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7\n"
            "stage 3: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7\n");
}

TEST(ZeroBubbleSchedulesTest, VOfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(ZeroBubbleV(4, 8)),
            "stage 0 holds 0 7: F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.7 I0.7 W0.7 F1.7 I1.7 W1.7 "
            "F2.7 I2.7 W2.7 F3.7 I3.7 W3.7 F7.0 I0.0 W0.0 F4.7 I4.7 W4.7 I1.0 W1.0 F5.7 I5.7 W5.7 "
            "I2.0 W2.0 F6.7 I6.7 W6.7 I3.0 W3.0 F7.7 I7.7 W7.7 I4.0 W4.0 I5.0 W5.0 I6.0 W6.0 I7.0 "
            "W7.0\n"
            "stage 1 holds 1 6: F0.1 F1.1 F2.1 F3.1 F4.1 F0.6 F5.1 F1.6 I0.6 W0.6 F2.6 I1.6 W1.6 "
            "F3.6 I2.6 W2.6 F6.1 I0.1 W0.1 F4.6 I3.6 W3.6 F7.1 I1.1 W1.1 F5.6 I4.6 W4.6 I2.1 W2.1 "
            "F6.6 I5.6 W5.6 I3.1 W3.1 F7.6 I6.6 W6.6 I4.1 I7.6 I5.1 W4.1 I6.1 W5.1 I7.1 W6.1 W7.6 "
            "W7.1\n"
            "stage 2 holds 2 5: F0.2 F1.2 F2.2 F0.5 F3.2 F1.5 F4.2 F2.5 I0.5 W0.5 F3.5 I1.5 W1.5 "
            "F5.2 I0.2 W0.2 F4.5 I2.5 W2.5 F6.2 I1.2 W1.2 F5.5 I3.5 W3.5 F7.2 I2.2 W2.2 F6.5 I4.5 "
            "W4.5 I3.2 W3.2 F7.5 I5.5 W5.5 I4.2 I6.5 I5.2 I7.5 I6.2 W4.2 I7.2 W5.2 W6.5 W7.5 W6.2 "
            "W7.2\n"
            "stage 3 holds 3 4: F0.3 F0.4 F1.3 F1.4 F2.3 F2.4 F3.3 F3.4 I0.4 W0.4 F4.3 I0.3 W0.3 "
            "F4.4 I1.4 W1.4 F5.3 I1.3 W1.3 F5.4 I2.4 W2.4 F6.3 I2.3 W2.3 F6.4 I3.4 W3.4 F7.3 I3.3 "
            "W3.3 F7.4 I4.4 W4.4 I4.3 I5.4 I5.3 I6.4 I6.3 I7.4 I7.3 W4.3 W5.4 W6.4 W7.4 W5.3 W6.3 "
            "W7.3\n");
}

TEST(ZeroBubbleSchedulesTest, DualPipeOfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(DualPipe(4, 8)),
            "stage 0 holds 0 3: F0.0 F1.0 F2.0 F4.3 I4.3 W4.3 F5.3 F3.0+B5.3 F6.3+B0.0 B6.3 "
            "F7.3+B1.0 B7.3 I2.0 W2.0 I3.0 W3.0\n"
            "stage 1 holds 1 2: F0.1 F4.2 F1.1 F5.2 F2.1 B4.2 F6.2+B0.1 F3.1+B5.2 F7.2+B1.1 B6.2 "
            "B2.1 I7.2 I3.1 W7.2 W3.1\n"
            "stage 2 holds 1 2: F4.1 F0.2 F5.1 F1.2 F6.1 B0.2 F2.2+B4.1 F7.1+B1.2 F3.2+B5.1 B2.2 "
            "B6.1 I3.2 I7.1 W3.2 W7.1\n"
            "stage 3 holds 0 3: F4.0 F5.0 F6.0 F0.3 I0.3 W0.3 F1.3 F7.0+B1.3 F2.3+B4.0 B2.3 "
            "F3.3+B5.0 B3.3 I6.0 W6.0 I7.0 W7.0\n");
}

TEST(ZeroBubbleSchedulesTest, DualPipeVOfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(DualPipeV(4, 8)),
            "stage 0 holds 0 7: F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.7 I0.7 W0.7 F1.7 I1.7 W1.7 "
            "F2.7 I2.7 W2.7 F3.7 F7.0+B3.7 F4.7+B0.0 B4.7 F5.7+B1.0 B5.7 F6.7+B2.0 B6.7 F7.7+B3.0 "
            "B7.7 I4.0 W4.0 I5.0 W5.0 I6.0 W6.0 I7.0 W7.0\n"
            "stage 1 holds 1 6: F0.1 F1.1 F2.1 F3.1 F4.1 F0.6 F5.1 F1.6 I0.6 W0.6 F2.6 I1.6 W1.6 "
            "F3.6 F6.1+B2.6 F4.6+B0.1 F7.1+B3.6 F5.6+B1.1 B4.6 F6.6+B2.1 B5.6 F7.6+B3.1 B6.6 B4.1 "
            "I7.6 I5.1 W7.6 I6.1 W5.1 I7.1 W6.1 W7.1\n"
            "stage 2 holds 2 5: F0.2 F1.2 F2.2 F0.5 F3.2 F1.5 F4.2 F2.5 I0.5 W0.5 F3.5 F5.2+B1.5 "
            "F4.5+B0.2 F6.2+B2.5 F5.5+B1.2 F7.2+B3.5 F6.5+B2.2 B4.5 F7.5+B3.2 B5.5 B4.2 B6.5 I5.2 "
            "I7.5 I6.2 W5.2 I7.2 W7.5 W6.2 W7.2\n"
            "stage 3 holds 3 4: F0.3 F0.4 F1.3 F1.4 F2.3 F2.4 F3.3 F3.4 F4.3 B0.4 F4.4+B0.3 "
            "F5.3+B1.4 F5.4+B1.3 F6.3+B2.4 F6.4+B2.3 F7.3+B3.4 F7.4+B3.3 B4.4 B4.3 B5.4 B5.3 I6.4 "
            "I6.3 I7.4 I7.3 W6.4 W6.3 W7.4 W7.3\n");
}

// arXiv 2401.10241, table 2, if weight gradients take no longer than a forward or input gradients:
// (P-1)(F+B-W), with B and W the parts of backward, and 1F1B's peak of activations. In the steady
// state: once every stage has a weight part to defer.
RC_GTEST_PROP(ZeroBubbleSchedulesTest, TheBubbleOfH1, ()) {
  const int stages = *rc::gen::inRange(1, 10);
  const int micro_batches = 2 * stages + *rc::gen::inRange(0, 12);
  PassDurations durations{.forward = *rc::gen::inRange<std::int64_t>(1, 10),
                          .backward_input = *rc::gen::inRange<std::int64_t>(1, 10)};
  durations.backward_weight =
      *rc::gen::inRange<std::int64_t>(1, std::min(durations.forward, durations.backward_input) + 1);
  const PipelineSchedule schedule = ZeroBubbleH1(stages, micro_batches);
  const ScheduleTiming timing = Time(schedule, durations);
  for (const std::int64_t idle : timing.idle) {
    RC_ASSERT(idle == (stages - 1) * (durations.forward + durations.backward_input -
                                      durations.backward_weight));
  }
  for (const int in_flight : MostInFlight(schedule)) RC_ASSERT(in_flight == stages);
}

// The same table: (P-1)(F+B-2W) between the first stage's first pass and its last, because none
// waits for the others before the next step. Each later stage waits less, in proportion to the
// stages before it. 2P-1 micro-batches are in flight.
RC_GTEST_PROP(ZeroBubbleSchedulesTest, TheBubbleOfH2, ()) {
  const int stages = *rc::gen::inRange(1, 10);
  const int micro_batches = 4 * stages + *rc::gen::inRange(0, 12);
  PassDurations durations{.forward = *rc::gen::inRange<std::int64_t>(1, 10),
                          .backward_input = *rc::gen::inRange<std::int64_t>(1, 10)};
  durations.backward_weight =
      *rc::gen::inRange<std::int64_t>(1, std::min(durations.forward, durations.backward_input) + 1);
  const PipelineSchedule schedule = ZeroBubbleH2(stages, micro_batches);
  const ScheduleTiming timing = Time(schedule, durations);
  const std::int64_t work =
      micro_batches * (durations.forward + durations.backward_input + durations.backward_weight);
  for (int stage = 0; stage < stages; ++stage) {
    const std::vector<ScheduleTiming::Span>& spans = timing.spans[static_cast<std::size_t>(stage)];
    RC_ASSERT(spans.back().end - spans.front().begin - work ==
              (stages - 1 - stage) *
                  (durations.forward + durations.backward_input - 2 * durations.backward_weight));
  }
  for (const int in_flight : MostInFlight(schedule)) RC_ASSERT(in_flight == 2 * stages - 1);
}

// AMD-AGI's Primus tabulates (P-1) / (P-1 + 6 M) of a step with equal passes of a chunk: a bubble
// of P-1 such passes. In flight: P micro-batches of both chunks.
RC_GTEST_PROP(ZeroBubbleSchedulesTest, TheBubbleOfV, ()) {
  const int stages = *rc::gen::inRange(1, 10);
  const int micro_batches = 2 * stages + *rc::gen::inRange(0, 12);
  const std::int64_t pass = *rc::gen::inRange<std::int64_t>(1, 10);
  const PipelineSchedule schedule = ZeroBubbleV(stages, micro_batches);
  const ScheduleTiming timing =
      Time(schedule, {.forward = pass, .backward_input = pass, .backward_weight = pass});
  for (const std::int64_t idle : timing.idle) RC_ASSERT(idle == (stages - 1) * pass);
  for (const int in_flight : MostInFlight(schedule)) RC_ASSERT(in_flight == 2 * stages);
}

struct Dual {
  int stages = 2 * *rc::gen::inRange(1, 6);
  int micro_batches = 2 * stages + 2 * *rc::gen::inRange(0, 10);
  // The closed form supposes forwards as long as gradients of inputs, gradients of weights not
  // longer, and that a pair takes as long as its passes.
  std::int64_t forward = *rc::gen::inRange<std::int64_t>(1, 10);
  std::int64_t weight = *rc::gen::inRange<std::int64_t>(1, static_cast<int>(forward) + 1);
  PassDurations durations{.forward = forward, .backward_input = forward, .backward_weight = weight};
  // FB + B - 3W, B the whole backward.
  std::int64_t bubble() const {
    const std::int64_t whole = durations.backward_input + durations.backward_weight;
    return durations.forward + 2 * whole - 3 * durations.backward_weight;
  }
};

// arXiv 2412.19437, table 2: (P/2-1)(FB+B-3W), P+1 micro-batches in flight.
RC_GTEST_PROP(ZeroBubbleSchedulesTest, TheBubbleOfDualPipe, ()) {
  const Dual dual;
  const PipelineSchedule schedule = DualPipe(dual.stages, dual.micro_batches);
  const ScheduleTiming timing = Time(schedule, dual.durations);
  for (const std::int64_t idle : timing.idle) {
    RC_ASSERT(idle == (dual.stages / 2 - 1) * dual.bubble());
  }
  for (const int in_flight : MostInFlight(schedule)) RC_ASSERT(in_flight == dual.stages + 1);
}

// deepseek-ai/DualPipe: DualPipe's bubble on half as many devices, which hold two of its stages'
// chunks.
RC_GTEST_PROP(ZeroBubbleSchedulesTest, TheBubbleOfDualPipeV, ()) {
  const Dual dual;
  const int devices = dual.stages / 2;
  const PipelineSchedule schedule = DualPipeV(devices, dual.micro_batches);
  const ScheduleTiming timing = Time(schedule, dual.durations);
  for (const std::int64_t idle : timing.idle) RC_ASSERT(idle == (devices - 1) * dual.bubble());
  for (const int in_flight : MostInFlight(schedule)) RC_ASSERT(in_flight == dual.stages + 1);
}

}  // namespace
}  // namespace stepcast::parallel
