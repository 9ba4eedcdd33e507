// Invariants of a step's time: closed forms and recurrences derived by hand here, against the
// simulated step, for random layer lists and links.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/forecast/forecast.h"
#include "tests/property/flat_scenario.h"

namespace stepcast {
namespace {

// 2(N-1)a + 2(N-1)/N S/B, exact and rounded up to a picosecond.
Time RingAllReduce(const TestLink& link, std::int64_t bytes) {
  __extension__ using Wide = __int128;
  const Wide ranks = link.devices;
  const Wide numerator = 2 * (ranks - 1) * bytes * 1'000'000'000'000;
  const Wide denominator = ranks * link.bandwidth.bytes_per_second();
  return link.latency * (2 * (link.devices - 1)) +
         Picoseconds(static_cast<std::int64_t>((numerator + denominator - 1) / denominator));
}

struct Case {
  std::vector<TestLayer> layers;
  TestLink link;
  Time optimizer;
};

Case AnyCase() {
  Case c;
  const int layers = *rc::gen::inRange(1, 9);
  for (int i = 0; i < layers; ++i) {
    TestLayer layer;
    const int tensors = *rc::gen::inRange(1, 4);
    for (int t = 0; t < tensors; ++t) {
      layer.parameters.push_back(*rc::gen::inRange<std::int64_t>(1, 3'000'000));
    }
    layer.forward = Nanoseconds(*rc::gen::inRange<std::int64_t>(0, 500'000));
    layer.backward = Nanoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000));
    c.layers.push_back(layer);
  }
  c.link = {.devices = *rc::gen::inRange(2, 40),
            .latency = Nanoseconds(*rc::gen::inRange<std::int64_t>(0, 20'000)),
            .bandwidth = Bandwidth::BytesPerSecond(
                *rc::gen::inRange<std::int64_t>(100'000'000, 50'000'000'000))};
  c.optimizer = Nanoseconds(*rc::gen::inRange<std::int64_t>(0, 300'000));
  return c;
}

Time Forward(const Case& c) {
  Time sum;
  for (const TestLayer& layer : c.layers) sum += layer.forward;
  return sum;
}

Time Backward(const Case& c) {
  Time sum;
  for (const TestLayer& layer : c.layers) sum += layer.backward;
  return sum;
}

std::int64_t Elements(const Case& c) {
  std::int64_t sum = 0;
  for (const TestLayer& layer : c.layers) {
    for (const auto elements : layer.parameters) sum += elements;
  }
  return sum;
}

scenario::Scenario ScenarioOf(const Case& c) {
  return FlatScenario(ListOf(c.layers, c.optimizer), c.link);
}

Time StepTime(const scenario::Scenario& scenario) {
  const auto run = forecast::Simulate(scenario);
  RC_ASSERT(run.has_value());
  const forecast::TimeBreakdown& time = run->forecast.time;
  RC_ASSERT(time.phase[0] + time.phase[1] + time.phase[2] + time.exposed_communication +
                time.idle ==
            run->forecast.step_time);
  return run->forecast.step_time;
}

RC_GTEST_PROP(StepTime, NaiveIsForwardPlusBackwardPlusAllReducePlusOptimizer, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c);
  scenario.plan.data_parallel.overlap = false;
  RC_ASSERT(StepTime(scenario) ==
            Forward(c) + Backward(c) + RingAllReduce(c.link, 2 * Elements(c)) + c.optimizer);
}

// The gradients of a layer are ready at the end of its backward, last layer first, a layer's last
// tensor first. Buckets close at the limit. Bucket b's all-reduce starts when it is full and the
// previous one has ended. The update starts when backward and the last all-reduce have ended.
// Earlier micro-batches run only forward and backward.
Time OverlappedStep(const Case& c, std::int64_t limit, std::int64_t micro_batches,
                    Time* all_reduces) {
  Time compute = (micro_batches - 1) * (Forward(c) + Backward(c)) + Forward(c);
  Time communication;
  *all_reduces = Time();
  std::int64_t open = 0;  // bytes
  const auto reduce = [&] {
    const Time duration = RingAllReduce(c.link, open);
    communication = std::max(communication, compute) + duration;
    *all_reduces += duration;
    open = 0;
  };
  for (auto layer = c.layers.rbegin(); layer != c.layers.rend(); ++layer) {
    compute += layer->backward;
    for (auto t = layer->parameters.rbegin(); t != layer->parameters.rend(); ++t) {
      open += 2 * *t;
      if (open >= limit) reduce();
    }
  }
  if (open > 0) reduce();
  return std::max(compute, communication) + c.optimizer;
}

RC_GTEST_PROP(StepTime, OverlapIsTheRecurrenceOfTheBucketSchedule, ()) {
  const Case c = AnyCase();
  const std::int64_t limit = *rc::gen::inRange<std::int64_t>(0, 20'000'000);
  const std::int64_t micro_batches = *rc::gen::inRange<std::int64_t>(1, 4);
  scenario::Scenario scenario = ScenarioOf(c);
  scenario.plan.data_parallel.bucket_size = Bytes(limit);
  scenario.plan.training.gradient_accumulation = micro_batches;
  const Time step = StepTime(scenario);
  Time all_reduces;
  RC_ASSERT(step == OverlappedStep(c, limit, micro_batches, &all_reduces));

  const Time before = (micro_batches - 1) * (Forward(c) + Backward(c)) + Forward(c);
  RC_ASSERT(step >= before + std::max(Backward(c), all_reduces) + c.optimizer);
  RC_ASSERT(step <= before + Backward(c) + all_reduces + c.optimizer);
}

RC_GTEST_PROP(StepTime, PrefetchNeverSlowsTheForwardOfStageThree, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c);
  scenario.plan.data_parallel.zero_stage = 3;
  const auto forward_end = [&](std::int64_t prefetch) {
    scenario.plan.data_parallel.prefetch = prefetch;
    const auto run = forecast::Simulate(scenario);
    RC_ASSERT(run.has_value());
    Time end;
    for (const program::OperationRecord& record : run->critical_class().timeline.operations) {
      const program::Instruction& instruction =
          run->critical_class().program.step[record.instruction];
      if (record.step == 0 && instruction.opcode == program::Opcode::kKernel &&
          instruction.phase == program::Phase::kForward) {
        end = std::max(end, record.end);
      }
    }
    return end;
  };
  RC_ASSERT(forward_end(1) <= forward_end(0));
  RC_ASSERT(forward_end(2) <= forward_end(1));
}

// The breakdown contains every forward and backward of the step, however the next step's beginning
// overlaps this step's end.
RC_GTEST_PROP(StepTime, BreakdownHoldsAllOfForwardAndBackward, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c);
  scenario.plan.data_parallel.zero_stage = *rc::gen::inRange(0, 4);
  scenario.plan.data_parallel.overlap = *rc::gen::arbitrary<bool>();
  scenario.plan.training.step_barrier = *rc::gen::arbitrary<bool>();
  const std::int64_t micro_batches = *rc::gen::inRange<std::int64_t>(1, 4);
  scenario.plan.training.gradient_accumulation = micro_batches;
  if (scenario.plan.data_parallel.zero_stage < 3) {
    scenario.plan.data_parallel.bucket_size = MiB(4);
  }
  const auto run = forecast::Simulate(scenario);
  RC_ASSERT(run.has_value());
  const forecast::TimeBreakdown& time = run->forecast.time;
  RC_ASSERT(time.phase[0] == micro_batches * Forward(c));
  RC_ASSERT(time.phase[1] == micro_batches * Backward(c));
  RC_ASSERT(time.idle == Time());
}

// Without overlap, the parts of a sharded step are sequential, micro-batch by micro-batch.
TEST(StepTime, WithoutOverlapStageTwoAddsUp) {
  // One layer of 8000 bf16 elements on 4 ranks at 1 GB/s without latency: S = 16 kB, and a
  // reduce-scatter or an all-gather takes 3/4 x 16 us = 12 us. Two micro-batches: 2 x (10 + 20 +
  // 12) + 6 / 4 (the update's share) + 12.
  const TestLayer layer{
      .parameters = {8000}, .forward = Microseconds(10), .backward = Microseconds(20)};
  scenario::Scenario scenario = FlatScenario(
      ListOf({layer}, Microseconds(6)),
      {.devices = 4, .latency = Time(), .bandwidth = Bandwidth::GigabytesPerSecond(1)});
  scenario.plan.data_parallel.zero_stage = 2;
  scenario.plan.data_parallel.overlap = false;
  scenario.plan.training.gradient_accumulation = 2;
  const auto run = forecast::Simulate(scenario);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->forecast.step_time, Nanoseconds(2 * 42'000 + 1'500 + 12'000));
}

// Overlap never hurts, and no step is shorter than its computation or its communication.
RC_GTEST_PROP(StepTime, ShardedStagesLieBetweenTheirBounds, ()) {
  const Case c = AnyCase();
  const int stage = *rc::gen::inRange(1, 3);
  scenario::Scenario scenario = ScenarioOf(c);
  scenario.plan.data_parallel.zero_stage = stage;
  scenario.plan.data_parallel.bucket_size = Bytes(*rc::gen::inRange<std::int64_t>(0, 20'000'000));
  const auto overlapped = forecast::Simulate(scenario);
  scenario.plan.data_parallel.overlap = false;
  const auto sequential = forecast::Simulate(scenario);
  RC_ASSERT(overlapped.has_value() && sequential.has_value());
  RC_ASSERT(overlapped->forecast.step_time <= sequential->forecast.step_time);
  Time communication;
  for (const auto& collective : overlapped->forecast.collectives) {
    communication += collective.total;
  }
  RC_ASSERT(overlapped->forecast.step_time >= communication);
  RC_ASSERT(overlapped->forecast.step_time >= Forward(c) + Backward(c));
}

// With a fixed order of operations and communicators, a step is a max-plus function of its
// durations: no longer duration makes it shorter.
RC_GTEST_PROP(StepTime, ShorterDurationsNeverMakeALongerStep, ()) {
  Case c = AnyCase();
  const int stage = *rc::gen::inRange(0, 4);
  const auto step_of = [&](const Case& one) {
    scenario::Scenario scenario = ScenarioOf(one);
    scenario.plan.data_parallel.zero_stage = stage;
    if (stage < 3) scenario.plan.data_parallel.bucket_size = Bytes(4'000'000);
    return StepTime(scenario);
  };
  const Time before = step_of(c);
  for (TestLayer& layer : c.layers) {
    const std::int64_t part = *rc::gen::inRange<std::int64_t>(0, 101);
    layer.forward = Picoseconds(layer.forward.picoseconds() / 100 * part);
    layer.backward = Picoseconds(layer.backward.picoseconds() / 100 * part);
  }
  c.link.latency = Picoseconds(c.link.latency.picoseconds() / 2);
  RC_ASSERT(step_of(c) <= before);
}

}  // namespace
}  // namespace stepcast
