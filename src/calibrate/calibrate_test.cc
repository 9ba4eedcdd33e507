#include "src/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/simulate/simulate.h"

namespace stepcast::calibrate {
namespace {

// Simulates a machine with known costs in virtual time, so that tests can compare calibration
// results with the true costs.

// The true costs of the machine, in seconds, and seconds per byte or flop.
struct Laws {
  double kernel_start = 2e-6;
  double memory = 1e-10;      // per byte read or written
  double optimizer = 2e-10;   // per byte read or written
  double arithmetic = 1e-12;  // per flop
  double copy_start = 5e-6;
  double copy = 4e-11;
  double collective_start = 2e-5;
  double collective = 1e-9;  // per byte, counted as in nccl-tests
  double issue = 1e-6;       // kernels and copies
  double issue_collective = 3e-6;
  double noise = 0;  // relative, for every operation, symmetric
};

// Returns a runner of programs with these costs. An operation's noise depends only on its content,
// its position and the step number. Fails after `runs` programs.
Runner SimulatedMachine(const Laws& laws, int runs = 1'000'000);

// A job as rank 0 sees it, whose other ranks send the same bytes as rank 0.
class EchoJob : public runtime::Job {
 public:
  EchoJob(int ranks, int nodes);
  const runtime::Place& place() const override { return place_; }
  runtime::Attempt<void> Barrier() override { return {}; }
  // Returns rank 0's text for every rank, with "<node> <host>" replaced by that rank's own.
  runtime::Attempt<std::vector<std::string>> Gather(std::string bytes) override;
  runtime::Attempt<std::string> Broadcast(std::string bytes) override { return bytes; }

 private:
  runtime::Place place_;
};

using program::Index;
using program::Program;

Time TimeOf(double seconds) {
  return Picoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e12)));
}

double KernelTime(const Laws& laws, const Kernel& kernel) {
  const auto bytes = static_cast<double>((kernel.read + kernel.written).count());
  switch (kernel.kind) {
    case KernelKind::kGiven:
      return kernel.given.seconds();
    case KernelKind::kMemoryBound:
      return laws.kernel_start + laws.memory * bytes;
    case KernelKind::kOptimizer:
      return laws.kernel_start + laws.optimizer * bytes;
    case KernelKind::kGemm:
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      break;
  }
  return laws.kernel_start + laws.arithmetic * static_cast<double>(kernel.flops);
}

cost::Prices PricesOf(const Laws& laws, const Program& program) {
  cost::Prices prices;
  for (const Kernel& kernel : program.kernels) {
    cost::Demand demand;
    demand.work = TimeOf(KernelTime(laws, kernel));
    prices.kernels.push_back(demand);
  }
  for (const program::Collective& collective : program.collectives) {
    cost::CollectivePrice price;
    price.demand.work = TimeOf(laws.collective_start +
                               laws.collective * static_cast<double>(collective.bytes.count()));
    prices.collectives.push_back(price);
  }
  for (const program::Exchange& exchange : program.exchanges) {
    std::vector<cost::MessagePrice>& messages = prices.exchanges.emplace_back();
    for (const program::Message& message : exchange.messages) {
      messages.emplace_back().demand.work = TimeOf(
          laws.collective_start + laws.collective * static_cast<double>(message.bytes.count()));
    }
  }
  for (const program::Copy& copy : program.copies) {
    cost::Demand demand;
    demand.work = TimeOf(laws.copy_start + laws.copy * static_cast<double>(copy.bytes.count()));
    prices.copies.push_back(demand);
  }
  prices.issue_kernel = TimeOf(laws.issue);
  prices.issue_copy = TimeOf(laws.issue);
  prices.issue_collective = TimeOf(laws.issue_collective);
  return prices;
}

// The program with a separate operand for every operation, so that each can have its own noise, and
// with the step repeated.
Program Unrolled(const Program& program, int steps) {
  Program unrolled = program;
  unrolled.step.clear();
  unrolled.kernels.clear();
  unrolled.collectives.clear();
  unrolled.exchanges.clear();
  unrolled.copies.clear();
  unrolled.data_flow = {};
  const auto own = [](const auto& from, auto& to, Index& operand) {
    to.push_back(from[operand]);
    operand = static_cast<Index>(to.size() - 1);
  };
  for (int step = 0; step < steps; ++step) {
    for (program::Instruction instruction : program.step) {
      if (instruction.opcode == program::Opcode::kKernel) {
        own(program.kernels, unrolled.kernels, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kCollective) {
        own(program.collectives, unrolled.collectives, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kExchange) {
        own(program.exchanges, unrolled.exchanges, instruction.operand);
      } else if (instruction.opcode == program::Opcode::kCopy) {
        own(program.copies, unrolled.copies, instruction.operand);
      }
      unrolled.step.push_back(instruction);
    }
  }
  return unrolled;
}

// Between -1 and 1, the same for the same seed (splitmix64).
double Scatter(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15ULL;
  seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ULL;
  seed = (seed ^ seed >> 27) * 0x94d049bb133111ebULL;
  seed ^= seed >> 31;
  return static_cast<double>(seed >> 11) * 0x1p-52 - 1;
}

void AddNoise(double noise, std::vector<cost::Demand*> demands) {
  std::uint64_t place = 0;
  for (cost::Demand* demand : demands) {
    const auto work = static_cast<std::uint64_t>(demand->work.picoseconds());
    const double factor = 1 + noise * Scatter(work * 1'000'003 + place++);
    demand->work = TimeOf(demand->work.seconds() * factor);
  }
}

Runner SimulatedMachine(const Laws& laws, int runs) {
  auto left = std::make_shared<int>(runs);
  return [laws, left](const Program& program, int warmup_steps,
                      int measured_steps) -> runtime::Attempt<program::Timeline> {
    if ((*left)-- <= 0) return tl::unexpected(runtime::Failure{"the machine has stopped", false});
    const int steps = warmup_steps + measured_steps;
    const Program unrolled = Unrolled(program, steps);
    cost::Prices prices = PricesOf(laws, unrolled);
    std::vector<cost::Demand*> demands;
    for (cost::Demand& demand : prices.kernels) demands.push_back(&demand);
    for (cost::Demand& demand : prices.copies) demands.push_back(&demand);
    for (cost::CollectivePrice& price : prices.collectives) demands.push_back(&price.demand);
    for (std::vector<cost::MessagePrice>& messages : prices.exchanges) {
      for (cost::MessagePrice& message : messages) demands.push_back(&message.demand);
    }
    AddNoise(laws.noise, std::move(demands));
    const simulate::RankClass all{&unrolled, &prices, 0};
    const auto timelines = simulate::Simulate({&all, 1}, {.steps = 1});
    if (!timelines) return tl::unexpected(runtime::Failure{"deadlock", false});

    // Maps records back to the program's steps.
    const auto length = static_cast<Index>(program.step.size());
    program::Timeline timeline;
    for (program::OperationRecord record : timelines->front().operations) {
      const auto step = static_cast<int>(record.instruction / length);
      if (step < warmup_steps) continue;
      record.step = static_cast<std::uint32_t>(step - warmup_steps);
      record.instruction %= length;
      timeline.operations.push_back(record);
    }
    timeline.step_ends.assign(static_cast<std::size_t>(measured_steps),
                              timelines->front().step_ends.back());
    return timeline;
  };
}

EchoJob::EchoJob(int ranks, int nodes) {
  place_.ranks = ranks;
  place_.nodes = nodes;
  place_.local_ranks = ranks / nodes;
  place_.host = "node";
}

runtime::Attempt<std::vector<std::string>> EchoJob::Gather(std::string bytes) {
  std::vector<std::string> all;
  for (int rank = 0; rank < place_.ranks; ++rank) {
    const bool is_place = bytes == "0 node";
    all.push_back(is_place ? std::to_string(rank / place_.local_ranks) + " node" : bytes);
  }
  return all;
}

using calibration::Curve;

Options QuickOptions() {
  Options options;
  options.quick = true;
  options.name = "simulated";
  options.types = {DataType::kFp32};
  options.machine = {{"machine", "none"}};
  options.run = {{"when", "never"}};
  options.to = MiB(1);
  options.elapsed = [] { return 0.0; };
  return options;
}

Outcome MustCalibrate(const Laws& laws, const Options& options, int ranks = 4, int nodes = 4) {
  EchoJob job(ranks, nodes);
  const auto outcome = Calibrate(job, SimulatedMachine(laws), options);
  EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
  return outcome.value_or(Outcome());
}

double WorstMiss(const Curve& curve, double start, double rate) {
  double worst = curve.empty() ? 1 : 0;
  for (const auto& [bytes, time] : curve) {
    const double law = start + rate * static_cast<double>(bytes.count());
    worst = std::max(worst, std::abs(time.seconds() / law - 1));
  }
  return worst;
}

// Compares all results, including the slowdowns of both sides and the kinds of collectives, with
// the true costs. Noise of 3 % either way leaves medians of several repetitions well within 3 %.
TEST(CalibrateTest, FindsTheLawsOfTheMachine) {
  Laws laws;
  laws.noise = 0.03;
  const Outcome outcome = MustCalibrate(laws, QuickOptions());
  const calibration::Calibration& profile = outcome.profile;
  ASSERT_TRUE(profile.kernels.has_value());
  const calibration::KernelCosts& kernels = *profile.kernels;
  constexpr double kClose = 0.03;
  EXPECT_LT(WorstMiss(kernels.memory_curve, laws.kernel_start, laws.memory), kClose);
  EXPECT_LT(WorstMiss(kernels.optimizer_curve, laws.kernel_start, laws.optimizer), kClose);
  EXPECT_LT(WorstMiss(profile.copies.host_to_device, laws.copy_start, laws.copy), kClose);
  EXPECT_LT(WorstMiss(profile.copies.device_to_host, laws.copy_start, laws.copy), kClose);
  EXPECT_LT(WorstMiss(profile.copies.device_to_device, laws.copy_start, laws.copy), kClose);
  EXPECT_NEAR(profile.copies.both_ways, 1, kClose);
  // A kernel of 64 bytes takes slightly longer than the start.
  EXPECT_NEAR(kernels.start_latency.seconds(), laws.kernel_start, kClose * laws.kernel_start);
  EXPECT_NEAR(kernels.launch.seconds(), laws.issue, 1e-9);
  EXPECT_NEAR(kernels.collective_launch.seconds(), laws.issue_collective, 1e-9);
  EXPECT_EQ(kernels.memory_curve.back().first, MiB(64));

  const calibration::GemmSurface& surface = kernels.gemm_surface[0];
  ASSERT_EQ(surface.m.front(), 32);
  ASSERT_GE(surface.m.size(), 6u);
  for (std::size_t m = 0; m < surface.m.size(); ++m) {
    for (std::size_t k = 0; k < surface.k.size(); ++k) {
      const double flops = 2.0 * static_cast<double>(surface.m[m] * surface.n[1] * surface.k[k]);
      const double law = laws.kernel_start + laws.arithmetic * flops;
      EXPECT_NEAR(surface.at(m, 1, k).seconds() / law, 1, kClose) << m << " " << k;
    }
  }
  // Two sizes of heads, each with three numbers of heads. Two products, half masked.
  EXPECT_EQ(kernels.attention_backward_surface[0].size(), 6u);
  ASSERT_EQ(kernels.attention_forward_surface[0].size(), 6u);
  for (const calibration::AttentionCurve& curve : kernels.attention_forward_surface[0]) {
    EXPECT_GE(curve.points.size(), 4u);
    for (const auto& [sequence, time] : curve.points) {
      const double flops =
          2.0 * static_cast<double>(curve.heads * sequence * sequence * curve.head_size);
      EXPECT_NEAR(time.seconds() / (laws.kernel_start + laws.arithmetic * flops), 1, kClose)
          << curve.heads << " " << sequence;
    }
  }

  // All-reduce, reduce-scatter, all-gather and all-to-all, over all ranks and over pairs; messages
  // between two.
  ASSERT_EQ(profile.collectives.size(), 9u);
  for (const calibration::CollectiveTable& table : profile.collectives) {
    EXPECT_LT(WorstMiss(table.points, laws.collective_start, laws.collective), kClose);
    EXPECT_EQ(table.points.front().first, KiB(1));
    EXPECT_EQ(table.points.back().first, MiB(1));
    EXPECT_EQ(table.quantiles.size(), table.points.size());
    for (std::size_t i = 1; i < table.points.size(); ++i) {
      const auto step = static_cast<double>(table.points[i].first.count()) /
                        static_cast<double>(table.points[i - 1].first.count());
      EXPECT_LT(step, table.points[i].first > KiB(64) ? 1.415 : 2.001);
    }
  }
  EXPECT_EQ(profile.collectives[0].ranks, 4);
  EXPECT_EQ(profile.collectives[4].ranks, 2);
  EXPECT_EQ(profile.collectives[4].nodes, 2);
  EXPECT_EQ(profile.collectives[8].collective, CollectiveKind::kSendRecv);
  EXPECT_EQ(profile.collectives[8].ranks, 2);
  EXPECT_EQ(profile.collectives[8].nodes, 2);
  // On this machine nothing slows anything else.
  ASSERT_EQ(profile.interference.size(), 2u);
  for (const calibration::Interference& interference : profile.interference) {
    EXPECT_NEAR(interference.kernel_slowdown, 1, kClose);
    EXPECT_NEAR(interference.collective_slowdown, 1, kClose);
  }
  for (const calibration::Residual& residual : profile.residuals) {
    // Uniform noise of 3 % has a median absolute deviation of 1.5 %.
    EXPECT_NEAR(residual.spread, 0.015, 0.015) << residual.of;
  }
}

TEST(CalibrateTest, FitsStartAndRateForPeople) {
  Options options = QuickOptions();
  options.parts = {Part::kCollectives};
  options.collectives = {CollectiveKind::kAllGather};
  options.to = MiB(16);
  const Outcome outcome = MustCalibrate(Laws(), options, 2, 1);
  ASSERT_EQ(outcome.fits.size(), 1u);
  EXPECT_EQ(outcome.fits[0].what, "all_gather over 2 ranks on 1 node");
  EXPECT_NEAR(outcome.fits[0].start, 2e-5, 1e-6);
  EXPECT_NEAR(outcome.fits[0].per_unit, 1e-9, 1e-11);
  EXPECT_FALSE(outcome.profile.kernels.has_value());
}

Options CollectivesOnly(Bytes to) {
  Options options = QuickOptions();
  options.parts = {Part::kCollectives};
  options.to = to;
  return options;
}

// At 0.1 us per byte, one collective at each size up to 256 MiB takes 92 s in total: more than a
// table's share of 100 s. The measured sizes still have no gaps.
TEST(CalibrateTest, StopsWhereTimeIsUp) {
  Laws laws;
  laws.collective = 1e-7;
  const Outcome outcome = MustCalibrate(laws, CollectivesOnly(MiB(256)));
  ASSERT_EQ(outcome.profile.collectives.size(), 9u);
  for (const calibration::CollectiveTable& table : outcome.profile.collectives) {
    EXPECT_GE(table.points.back().first, MiB(2));
    EXPECT_LE(table.points.back().first, MiB(64));
    for (std::size_t i = 1; i < table.points.size(); ++i) {
      EXPECT_LT(static_cast<double>(table.points[i].first.count()),
                2.001 * static_cast<double>(table.points[i - 1].first.count()));
    }
  }
  ASSERT_EQ(outcome.warnings.size(), 9u);
  EXPECT_NE(outcome.warnings[0].find("all_reduce over 4 ranks on 4 nodes was measured only up to "),
            std::string::npos)
      << outcome.warnings[0];
}

// All-reduces over four ranks on links of 250 Mbit/s: 32 MiB take 1.6 s. With half the tables or
// three times the time, they are reached.
TEST(CalibrateTest, MoreTimeOrFewerGroupsReachFurther) {
  Laws laws;
  laws.collective = 4.8e-8;
  const auto largest = [&](const Options& options) {
    return MustCalibrate(laws, options).profile.collectives.front().points.back().first;
  };
  Options options = CollectivesOnly(MiB(32));
  EXPECT_EQ(largest(options), MiB(32));
  options = CollectivesOnly(MiB(256));
  EXPECT_LT(largest(options), MiB(100));
  options.time = Seconds(300);
  EXPECT_GE(largest(options), MiB(128));
  options.time = Time();
  options.group_sizes = {4};
  options.collectives = {CollectiveKind::kAllReduce};
  EXPECT_GE(largest(options), MiB(128));
  EXPECT_EQ(MustCalibrate(laws, options).profile.collectives.size(), 1u);
  // Messages are between two ranks, whatever groups are requested.
  options.collectives = {CollectiveKind::kSendRecv};
  EXPECT_EQ(MustCalibrate(laws, options).profile.collectives.front().ranks, 2);
  options.collectives = {CollectiveKind::kAllReduce};
  // Kernels used most of the time.
  options.elapsed = [] { return 90.0; };
  EXPECT_LT(largest(options), MiB(128));
}

TEST(CalibrateTest, KnowsWhichGroupsThereAre) {
  Options options = CollectivesOnly(MiB(1));
  options.group_sizes = {2, 3};
  const Outcome outcome = MustCalibrate(Laws(), options);
  EXPECT_EQ(outcome.no_group_of, 3);
  EXPECT_EQ(outcome.groups_of, (std::vector<int>{2, 4}));
  EXPECT_TRUE(outcome.profile.collectives.empty());
}

// Continuing an interrupted calibration gives the profile of an uninterrupted one, whenever it was
// interrupted.
TEST(CalibrateTest, ResumesToTheSameProfile) {
  Laws laws;
  laws.noise = 0.1;
  Options options = QuickOptions();
  options.parts = {Part::kLaunch, Part::kMemory, Part::kCollectives, Part::kInterference};
  const auto run = [&](int runs, std::string& state) {
    EchoJob job(4, 2);
    options.state = state;
    options.observer.save = [&](const std::string& text) -> runtime::Attempt<void> {
      state = text;
      return {};
    };
    return Calibrate(job, SimulatedMachine(laws, runs), options);
  };
  std::string whole_state;
  const auto whole = run(1'000'000, whole_state);
  ASSERT_TRUE(whole.has_value());
  int attempts = 0;
  std::string state;
  auto resumed = run(7, state);
  while (!resumed) {
    ASSERT_EQ(resumed.error().message, "the machine has stopped");
    ASSERT_LT(++attempts, 100);
    resumed = run(7, state);
  }
  EXPECT_GT(attempts, 3);
  EXPECT_EQ(state, whole_state);
  const calibration::Calibration& a = whole->profile;
  const calibration::Calibration& b = resumed->profile;
  EXPECT_EQ(a.provenance, b.provenance);
  EXPECT_EQ(a.kernels->memory_curve, b.kernels->memory_curve);
  EXPECT_EQ(a.kernels->launch, b.kernels->launch);
  EXPECT_EQ(a.interference, b.interference);
  EXPECT_EQ(a.residuals, b.residuals);
  ASSERT_EQ(a.collectives.size(), b.collectives.size());
  for (std::size_t i = 0; i < a.collectives.size(); ++i) {
    EXPECT_EQ(a.collectives[i].points, b.collectives[i].points);
    EXPECT_EQ(a.collectives[i].quantiles, b.collectives[i].quantiles);
  }
}

TEST(CalibrateTest, RefusesTheStateOfSomethingElse) {
  Options options = QuickOptions();
  options.parts = {Part::kLaunch};
  std::string state;
  options.observer.save = [&](const std::string& text) -> runtime::Attempt<void> {
    state = text;
    return {};
  };
  MustCalibrate(Laws(), options);
  options.state = state;
  EXPECT_EQ(MustCalibrate(Laws(), options).refused, "");
  options.quick = false;
  EXPECT_NE(MustCalibrate(Laws(), options).refused.find("differ from the machine"),
            std::string::npos);
  options.state = "nonsense";
  EXPECT_NE(MustCalibrate(Laws(), options).refused.find("does not contain the state"),
            std::string::npos);
}

// The ninth and all later runs take a tenth longer.
TEST(CalibrateTest, NoticesThrottling) {
  Options options = QuickOptions();
  options.parts = {Part::kLaunch, Part::kCopies};
  int runs = 0;
  const Runner cool = SimulatedMachine(Laws());
  Laws hot_laws;
  hot_laws.arithmetic *= 1.1;
  const Runner hot = SimulatedMachine(hot_laws);
  EchoJob job(2, 1);
  const auto outcome = Calibrate(
      job,
      [&](const program::Program& program, int warmup, int measured) {
        return ++runs > 8 ? hot(program, warmup, measured) : cool(program, warmup, measured);
      },
      options);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->warnings.size(), 1u);
  EXPECT_NE(outcome->warnings[0].find("the time of the reference kernel rose by up to 10 %"),
            std::string::npos)
      << outcome->warnings[0];
}

TEST(CalibrateTest, FailuresComeBack) {
  EchoJob job(2, 1);
  const auto outcome = Calibrate(job, SimulatedMachine(Laws(), 3), QuickOptions());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().message, "the machine has stopped");
}

// A single rank does not communicate: no program has a communicator, and the time to issue a
// collective stays unknown.
TEST(CalibrateTest, OneRankStartsNoCollective) {
  EchoJob job(1, 1);
  const Runner machine = SimulatedMachine(Laws());
  int communicators = 0;
  const Runner counting = [&](const program::Program& program, int warmup, int measured) {
    communicators += static_cast<int>(program.communicators.size());
    return machine(program, warmup, measured);
  };
  const auto outcome = Calibrate(job, counting, QuickOptions());
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_EQ(communicators, 0);
  EXPECT_EQ(outcome->profile.kernels->collective_launch, Time());
  EXPECT_GT(outcome->profile.kernels->launch, Time());
}

// If layouts matter, each has its own surface. fp8 has one layout.
TEST(CalibrateTest, ProductsOfEveryLayoutAreMeasured) {
  EchoJob job(1, 1);
  const Runner machine = SimulatedMachine(Laws());
  // Weight gradients take twice as long here.
  const Runner by_layout = [&](program::Program program, int warmup, int measured) {
    for (Kernel& kernel : program.kernels) {
      if (kernel.layout != ProductLayout::kWeightGradient) continue;
      EXPECT_EQ(kernel.written, BytesOf(kernel.m * kernel.n, DataType::kFp32));
      kernel.flops *= 2;
    }
    return machine(program, warmup, measured);
  };
  Options options = QuickOptions();
  options.parts = {Part::kGemm};
  options.types = {DataType::kBf16, DataType::kFp8};
  options.layouts.assign(std::begin(kProductLayouts), std::end(kProductLayouts));
  const auto outcome = Calibrate(job, by_layout, options);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  const calibration::KernelCosts& kernels = *outcome->profile.kernels;
  const auto bf16 = static_cast<std::size_t>(DataType::kBf16);
  const calibration::GemmSurface& forward = kernels.gemm_surface[bf16];
  const calibration::GemmSurface& weights = kernels.gemm_weight_gradient_surface[bf16];
  EXPECT_EQ(kernels.gemm_input_gradient_surface[bf16], forward);
  // 512 cubed takes 268 us after a start of 2 us; the largest cube is now too slow.
  EXPECT_EQ(weights.m.size(), forward.m.size() - 1);
  EXPECT_NEAR(weights.at(4, 4, 4) / forward.at(4, 4, 4), 2, 0.02);
  const auto fp8 = static_cast<std::size_t>(DataType::kFp8);
  EXPECT_FALSE(kernels.gemm_surface[fp8].empty());
  EXPECT_TRUE(kernels.gemm_weight_gradient_surface[fp8].empty());
}

// A board whose products slow to 0.8 of their rate after a while because of its power limit.
TEST(CalibrateTest, TheClockThatProductsHoldIsMeasured) {
  EchoJob job(1, 1);
  Laws burst;
  Laws lasting;
  lasting.arithmetic = burst.arithmetic / 0.8;
  const Runner short_runs = SimulatedMachine(burst);
  const Runner long_runs = SimulatedMachine(lasting);
  const Runner machine = [&](const program::Program& program, int warmup, int measured) {
    const bool lasts = program.kernels.back().flops > 1'000'000'000'000 && program.step.size() > 8;
    return (lasts ? long_runs : short_runs)(program, warmup, measured);
  };
  Options options = QuickOptions();
  options.parts = {Part::kGemm};
  options.health = [] {
    return runtime::DeviceHealth{
        .clock_mhz = 1980, .watts = 100, .limit_watts = 700, .celsius = 40, .slowed_by = {"it"}};
  };
  const auto outcome = Calibrate(job, machine, options);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  const calibration::PowerDraw& power = outcome->profile.kernels->power;
  EXPECT_EQ(power.idle, 100);
  EXPECT_NEAR(std::cbrt((700 - power.idle) / power.products), 0.8, 0.001);
  std::string provenance;
  for (const auto& [key, value] : outcome->profile.provenance)
    provenance += key + ": " + value + "\n";
  EXPECT_NE(provenance.find("device_before: 1980 MHz, 100 of 700 W, 40 C, slowed by: it"),
            std::string::npos)
      << provenance;
  EXPECT_NE(provenance.find("device_after: "), std::string::npos);
  EXPECT_NE(provenance.find("sustained_clock: the clock is 0.800 times"), std::string::npos)
      << provenance;
}

}  // namespace

}  // namespace stepcast::calibrate
