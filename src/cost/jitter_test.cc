#include "src/cost/jitter.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/cost/device_speed.h"

namespace stepcast::cost {
namespace {

using program::Index;
using program::Opcode;
using program::Program;

constexpr std::uint16_t kCompute = 0;
constexpr std::uint16_t kCommunication = 1;

// Runs of 1 ms kernels, with a collective over `ranks` after each run. Kernels wait for each
// collective, or only for the last.
struct Step {
  Step(int ranks, int kernels_of_a_run, int runs, bool waits_for_each) {
    program.streams.resize(2);
    program.groups.resize(1);
    program.groups[0].ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(program.groups[0].ranks.begin(), program.groups[0].ranks.end(), 0);
    program.communicators.push_back({.name = "data", .group = 0});
    program.collectives.push_back({.communicator = 0});
    program.events.resize(1);
    program.kernels.resize(1);
    for (int run = 0; run < runs; ++run) {
      for (int kernel = 0; kernel < kernels_of_a_run; ++kernel) Add(Opcode::kKernel, kCompute, 0);
      Add(Opcode::kCollective, kCommunication, 0);
      if (!waits_for_each) continue;
      Add(Opcode::kRecordEvent, kCommunication, 0);
      Add(Opcode::kWaitEvent, kCompute, 0);
    }
    prices.kernels.resize(1);
    prices.kernels[0].work = Milliseconds(1);
    prices.collectives.resize(1);
    prices.collectives[0].demand = {.latency = Microseconds(10), .work = Milliseconds(2)};
  }

  void Add(Opcode opcode, std::uint16_t stream, Index operand) {
    program.step.push_back({.opcode = opcode, .stream = stream, .operand = operand});
  }
  // The addition to the collective's latency, in milliseconds.
  double Wait(const Jitter& jitter) const {
    Prices own = prices;
    AddJitter(program, jitter, own);
    EXPECT_GE(own.collectives[0].demand.work, prices.collectives[0].demand.work);
    return (own.collectives[0].demand.latency - prices.collectives[0].demand.latency)
               .microseconds() /
           1000;
  }

  Program program;
  Prices prices;
};

double LargestOf(int count) { return SlowestDevice(1, count) - 1; }

// 2 % of 1 ms, 9 times: a standard deviation of 0.06 ms; the largest of 8 is 1.42 times that.
TEST(Jitter, RanksWaitForTheLargestOfTheirSums) {
  const Step step(8, 9, 1, true);
  EXPECT_NEAR(step.Wait({.kernels = 0.02, .devices = 8}), 0.06 * LargestOf(8), 1e-6);
  EXPECT_NEAR(step.Wait({.kernels = 0.02, .devices = 64}), 0.06 * LargestOf(8), 1e-6);
}

TEST(Jitter, NothingWaitsWithoutIt) {
  const Step step(8, 9, 1, true);
  EXPECT_EQ(step.Wait({.devices = 8}), 0);
  EXPECT_EQ(step.Wait({.kernels = 0.02, .devices = 1}), 0);
  const Step alone(1, 9, 1, true);
  EXPECT_EQ(alone.Wait({.kernels = 0.02, .devices = 8}), 0);
}

// The same 36 kernels: synchronizing four times costs twice as much as once.
TEST(Jitter, EvensOutBetweenMeetings) {
  const Jitter jitter{.kernels = 0.02, .devices = 8};
  const double often = 4 * Step(8, 9, 4, true).Wait(jitter);
  const double once = Step(8, 36, 1, true).Wait(jitter);
  EXPECT_NEAR(often, 2 * once, 1e-6);
}

// Kernels that overlap a collective continue to drift apart.
TEST(Jitter, RanksMeetWhereKernelsWait) {
  const Jitter jitter{.kernels = 0.02, .devices = 8};
  const double mean = 0.02 * LargestOf(8) * (3 + std::sqrt(18.0) + std::sqrt(27.0)) / 3;
  EXPECT_NEAR(Step(8, 9, 3, false).Wait(jitter), mean, 1e-6);
  EXPECT_NEAR(Step(8, 9, 3, true).Wait(jitter), 0.06 * LargestOf(8), 1e-6);
}

TEST(Jitter, MoreRanksWaitLonger) {
  double last = 0;
  for (int ranks = 2; ranks <= 4096; ranks *= 2) {
    const double wait = Step(ranks, 9, 1, true).Wait({.kernels = 0.02, .devices = ranks});
    EXPECT_GT(wait, last);
    last = wait;
  }
}

// 16 groups of 8: the slowest of 16.
TEST(Jitter, TheSlowestGroupSetsThePace) {
  const Step step(8, 9, 1, true);
  Prices own = step.prices;
  AddJitter(step.program, {.collectives = 0.1, .devices = 128}, own);
  EXPECT_NEAR(own.collectives[0].demand.work.microseconds() / 1000, 2 * (1 + 0.1 * LargestOf(16)),
              1e-6);
  AddJitter(step.program, {.collectives = 0.1, .devices = 8}, own = step.prices);
  EXPECT_EQ(own.collectives[0].demand.work, Milliseconds(2));
}

}  // namespace
}  // namespace stepcast::cost
