#include "src/validate/step_causes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/forecast/what_if.h"
#include "src/scenario/load.h"

namespace stepcast::validate {
namespace {

using forecast::MachineResource;
using forecast::PricedClass;
using forecast::Run;
using Settings = std::vector<std::string>;

// ---- events made by hand ----

Time Ms(std::int64_t milliseconds) { return Milliseconds(milliseconds); }

StepEvent KernelEvent(Activity activity, Time launched, Time begin, Time end) {
  return {.activity = activity, .name = "k", .begin = begin, .end = end, .launched = launched};
}

StepEvent CommunicationEvent(Activity activity, Time begin, Time end) {
  return {.activity = activity, .name = "data", .members = "0,1", .begin = begin, .end = end};
}

Time DifferenceBy(CauseKind kind, const StepCauses& causes) {
  Time sum;
  for (const Cause& cause : causes.causes) {
    if (cause.kind == kind) sum += cause.difference();
  }
  return sum;
}

Time Accounted(const StepCauses& causes) {
  Time sum = causes.remainder - causes.learned;
  for (const Cause& cause : causes.causes) sum += cause.difference();
  return sum;
}

// A product of 10 ms, an elementwise kernel of 5 ms, and an all-reduce of 8 ms that begins with the
// second: 3 ms of it are exposed.
RankStep Plain() {
  RankStep step{.begin = Ms(0), .end = Ms(18)};
  step.events = {KernelEvent(Activity::kProduct, Ms(-5), Ms(0), Ms(10)),
                 KernelEvent(Activity::kElementwise, Ms(-4), Ms(10), Ms(15)),
                 CommunicationEvent(Activity::kCollective, Ms(10), Ms(18))};
  step.events.back().transfer = Ms(8);
  return step;
}

TEST(StepCausesTest, EqualStepsHaveNoCauses) {
  const StepCauses causes = DifferenceOf(Plain(), Plain());
  EXPECT_TRUE(causes.causes.empty());
  EXPECT_EQ(causes.remainder, Time());
}

// The product takes 4 ms more, and all that follows is later.
TEST(StepCausesTest, SlowKernelsCountByKind) {
  RankStep slow = Plain();
  slow.end = Ms(22);
  slow.events[0].end += Ms(4);
  for (std::size_t i = 1; i < slow.events.size(); ++i) {
    slow.events[i].begin += Ms(4);
    slow.events[i].end += Ms(4);
  }
  const StepCauses causes = DifferenceOf(Plain(), slow);
  ASSERT_EQ(causes.causes.size(), 1u);
  EXPECT_EQ(causes.causes[0].kind, CauseKind::kProducts);
  EXPECT_EQ(causes.causes[0].difference(), Ms(4));
  EXPECT_EQ(causes.remainder, Time());
  ASSERT_EQ(causes.kernels.size(), 1u);
  EXPECT_EQ(causes.kernels[0].total, Ms(14));
}

// The elementwise kernel is launched 6 ms after the product ends. In the first 2 of them the host
// loads data, and for 1 ms it waits for a device that is done.
TEST(StepCausesTest, ALateHostIsLoadingOrLaunching) {
  RankStep late = Plain();
  late.end = Ms(24);
  late.events[1] = KernelEvent(Activity::kElementwise, Ms(16), Ms(16), Ms(21));
  late.events[2].begin += Ms(6);
  late.events[2].end += Ms(6);
  late.host = {{HostActivity::kDataLoading, Ms(9), Ms(12)},
               {HostActivity::kWaiting, Ms(12), Ms(13)}};
  const StepCauses causes = DifferenceOf(Plain(), late);
  EXPECT_EQ(DifferenceBy(CauseKind::kDataLoading, causes), Ms(2));
  EXPECT_EQ(DifferenceBy(CauseKind::kLaunches, causes), Ms(4));
  EXPECT_EQ(causes.remainder, Time());
  EXPECT_EQ(Accounted(causes), causes.difference());
}

// NCCL's kernel waits inside for other ranks: 5 ms on this rank, and none on the other, whose
// kernel begins later and takes 8 ms.
TEST(StepCausesTest, WaitingInsideACollectiveIsImbalance) {
  RankStep own = Plain(), other = Plain();
  own.end = other.end = Ms(23);
  own.events[2].end = other.events[2].end = Ms(23);
  other.events[2].begin = Ms(15);
  for (RankStep* step : {&own, &other}) step->events[2].transfer.reset();
  std::vector<RankStep> ranks{own, other};
  MarkTransfers(ranks);
  EXPECT_EQ(ranks[0].events[2].transfer, Ms(8));
  const StepCauses causes = DifferenceOf(Plain(), ranks[0]);
  // From 15 to 23 ms without a kernel, as forecast 3 ms; data move for the whole of it.
  EXPECT_EQ(DifferenceBy(CauseKind::kCommunication, causes), Ms(5));

  ranks[0].events[2].begin = Ms(2);
  ranks[0].events[2].end = ranks[0].end = Ms(30);
  const StepCauses longer = DifferenceOf(Plain(), ranks[0]);
  // Of 15 to 30 ms, data move for the last 8.
  EXPECT_EQ(DifferenceBy(CauseKind::kCommunication, longer), Ms(5));
  EXPECT_EQ(DifferenceBy(CauseKind::kImbalance, longer), Ms(7));
  EXPECT_EQ(Accounted(longer), longer.difference());
}

// ---- causes that are injected into a forecast ----

scenario::Scenario Loaded(const std::string& file, const Settings& set) {
  scenario::InputCache cache;
  auto scenario = scenario::Load(file, set, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return *scenario;
}

// A change of the machine, as prices, or of the job, as settings.
struct Injected {
  Settings set{};
  std::function<void(cost::Prices&, const program::Program&)> change{};
};

Injected Slower(MachineResource resource, double factor) {
  return {.change = [=](cost::Prices& prices, const program::Program&) {
    prices = Faster(std::move(prices), resource, 1 / factor);
  }};
}

Injected SlowProducts(std::int64_t percent) {
  return {.change = [=](cost::Prices& prices, const program::Program& program) {
    for (std::size_t i = 0; i < program.kernels.size(); ++i) {
      if (program.kernels[i].kind != KernelKind::kGemm) continue;
      cost::Demand& demand = prices.kernels[i];
      demand.work = Picoseconds(demand.work.picoseconds() * percent / 100);
      demand.latency = Picoseconds(demand.latency.picoseconds() * percent / 100);
    }
  }};
}

const Injected kSlowLoader{.set = {"training.data_loading={time: 60 ms, workers: 0}"}};
const Injected kSlowRank{.set = {"cluster.slow_devices=[{device: node0/gpu0, speed: 0.8}]"}};
const Injected kSmallBuckets{.set = {"data_parallel.bucket_size=0 B"}};

struct Job {
  std::string file;
  Settings set{};

  Run RunWith(const std::vector<Injected>& injected) const {
    Settings all = set;
    for (const Injected& one : injected) all.insert(all.end(), one.set.begin(), one.set.end());
    const scenario::Scenario scenario = Loaded(file, all);
    auto classes = forecast::PricedClassesOf(scenario);
    EXPECT_TRUE(classes.has_value());
    for (PricedClass& own : *classes) {
      for (const Injected& one : injected) {
        if (one.change) one.change(own.prices, own.program);
      }
    }
    auto run = forecast::SimulateAt(scenario, *std::move(classes));
    EXPECT_TRUE(run.has_value());
    return *std::move(run);
  }
};

// GPT-2 on four nodes of eight A100, and with one sample and gradients tensor by tensor on 64
// nodes.
const Job kGpt2{"scenarios/gpt2-ddp/scenario.yaml", {"cluster.nodes=4", "parallelism.data=32"}};
const Job kManyRanks{"scenarios/gpt2-ddp/scenario.yaml",
                     {"cluster.nodes=64", "parallelism.data=512", "training.micro_batch_size=1",
                      "data_parallel.framework=reference"}};

// What four ranks' profilers would have seen: NCCL's kernels do not tell waiting from moving data.
std::vector<RankStep> TracesOf(const Run& run) {
  std::vector<RankStep> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    RankStep& step = ranks.emplace_back(EventsOf(run, run.class_of(rank)));
    step.rank = rank;
    for (StepEvent& event : step.events) event.transfer.reset();
  }
  return ranks;
}

constexpr double kWithin = 0.1;

void ExpectClose(Time found, Time injected, const std::string& what) {
  EXPECT_NEAR(found.seconds(), injected.seconds(), kWithin * injected.seconds()) << what;
}

struct Expected {
  CauseKind kind;
  Injected injected;
};

// Injects the causes one after the other. Each makes the step longer by its size.
void ExpectCauses(const Job& job, const std::vector<Expected>& causes) {
  const Run plain = job.RunWith({});
  std::vector<Injected> injected;
  std::vector<std::pair<CauseKind, Time>> sizes;
  Time before = plain.forecast.step_time;
  std::optional<Run> slow;
  for (const Expected& cause : causes) {
    injected.push_back(cause.injected);
    slow = job.RunWith(injected);
    sizes.emplace_back(cause.kind, slow->forecast.step_time - before);
    before = slow->forecast.step_time;
  }
  const StepCauses found = CausesOf(plain, TracesOf(*slow));
  std::string text;
  for (const Cause& cause : found.causes) {
    text += fmt::format("{} {} {:.3f} ms\n", Name(cause.kind), cause.axis,
                        1e3 * cause.difference().seconds());
  }
  text += fmt::format("remainder {:.3f} ms of {:.3f} ms", 1e3 * found.remainder.seconds(),
                      1e3 * found.difference().seconds());
  SCOPED_TRACE(text);
  EXPECT_EQ(Accounted(found), found.difference());
  EXPECT_LT(std::abs(found.remainder.seconds()), 0.03 * found.measured.seconds());
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  ASSERT_GE(found.causes.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(found.causes[i].kind, sizes[i].first) << i;
    ExpectClose(found.causes[i].difference(), sizes[i].second, Name(sizes[i].first));
  }
}

TEST(StepCausesTest, SlowLink) {
  ExpectCauses(kGpt2, {{CauseKind::kCommunication, Slower(MachineResource::kNetwork, 32)}});
}

TEST(StepCausesTest, SlowRank) {
  ExpectCauses(kGpt2, {{CauseKind::kImbalance, kSlowRank}});
  EXPECT_EQ(CausesOf(kGpt2.RunWith({}), TracesOf(kGpt2.RunWith({kSlowRank}))).slowest_rank, 0);
}

TEST(StepCausesTest, SlowLoader) { ExpectCauses(kGpt2, {{CauseKind::kDataLoading, kSlowLoader}}); }

TEST(StepCausesTest, SmallBuckets) {
  ExpectCauses(kManyRanks, {{CauseKind::kCommunication, kSmallBuckets}});
}

TEST(StepCausesTest, LateHost) {
  ExpectCauses(kGpt2, {{CauseKind::kLaunches, Slower(MachineResource::kLaunch, 8)}});
}

TEST(StepCausesTest, SlowKernels) {
  ExpectCauses(kGpt2, {{CauseKind::kProducts, SlowProducts(150)}});
}

// Kernels beside a slow link's collectives take longer, too; that is little beside this.
TEST(StepCausesTest, SlowKernelsAndSlowLink) {
  ExpectCauses(kGpt2, {{CauseKind::kProducts, SlowProducts(200)},
                       {CauseKind::kCommunication, Slower(MachineResource::kNetwork, 32)}});
}

TEST(StepCausesTest, SlowKernelsAndSlowLoader) {
  ExpectCauses(kGpt2,
               {{CauseKind::kProducts, SlowProducts(150)}, {CauseKind::kDataLoading, kSlowLoader}});
}

TEST(StepCausesTest, SlowKernelsAndSlowRank) {
  ExpectCauses(kGpt2,
               {{CauseKind::kProducts, SlowProducts(150)}, {CauseKind::kImbalance, kSlowRank}});
}

TEST(StepCausesTest, SlowRankAndSlowLink) {
  ExpectCauses(kGpt2, {{CauseKind::kImbalance, kSlowRank},
                       {CauseKind::kCommunication, Slower(MachineResource::kNetwork, 32)}});
}

TEST(StepCausesTest, SlowLinkAndSlowLoader) {
  ExpectCauses(kGpt2, {{CauseKind::kCommunication, Slower(MachineResource::kNetwork, 32)},
                       {CauseKind::kDataLoading,
                        {.set = {"training.data_loading={time: 200 ms, workers: 0}"}}}});
}

TEST(StepCausesTest, SmallBucketsAndSlowKernels) {
  ExpectCauses(kManyRanks, {{CauseKind::kProducts, SlowProducts(200)},
                            {CauseKind::kCommunication, kSmallBuckets}});
}

}  // namespace
}  // namespace stepcast::validate
