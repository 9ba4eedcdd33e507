#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"
#include "src/engine/event_queue.h"
#include "src/engine/shared_resources.h"
#include "src/network/analytic.h"
#include "src/network/message.h"
#include "tests/examples/sample_lists.h"
#include "tests/examples/sample_networks.h"

// The three fidelities compared with each other, with closed forms, and with the limits of links.
namespace stepcast::network {
namespace {

using collective::Sample;
using collective::SampleShape;
using collective::StepList;

struct FlowJob {
  const Traffic* traffic = nullptr;
  Time start{};
};

// An event: a job's links become busy, or its work is done.
struct Happening {
  std::uint32_t job : 31;
  std::uint32_t ends : 1;
};

// Runs the jobs and returns the end of each. The traffic of all jobs must be on `network`.
std::vector<Time> RunFlows(const Network& network, std::span<const FlowJob> jobs) {
  std::vector<FlowDemand> demands;
  demands.reserve(jobs.size());
  engine::EventQueue<Happening> queue;
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    STEPCAST_CHECK(&jobs[job].traffic->network() == &network, "jobs share one network");
    demands.push_back(DemandOf(*jobs[job].traffic));
    queue.Push(jobs[job].start + demands.back().latency, {job, 0});
  }
  engine::SharedResources links(static_cast<std::uint32_t>(network.links()),
                                static_cast<std::uint32_t>(jobs.size()));
  std::vector<Time> ends(jobs.size());
  std::vector<bool> over(jobs.size());
  while (!queue.empty()) {
    const auto [time, happening] = queue.Pop();
    const std::uint32_t job = happening.job;
    if (happening.ends == 0) {
      links.Start(job, time, demands[job].work, demands[job].uses);
    } else if (!over[job] && links.end(job) == time) {
      // An end that has moved since is a different event.
      over[job] = true;
      ends[job] = time;
      links.Finish(job);
    }
    if (!links.unsettled() || (!queue.empty() && queue.Top().time == time)) continue;
    links.Settle(time);
    for (const engine::SharedResources::Activity moved : links.moved()) {
      queue.Push(links.end(moved), {moved, 1});
    }
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    STEPCAST_CHECK(ends[job] - jobs[job].start >= jobs[job].traffic->bandwidth_bound(),
                   "a collective must not be faster than its links");
  }
  return ends;
}

class EveryAlgorithm : public testing::TestWithParam<Sample> {};

SampleShape AnyShape() {
  SampleShape shape;
  shape.nodes = *rc::gen::inRange(1, 6);
  shape.ranks_per_node = *rc::gen::inRange(1, 5);
  shape.size = Bytes(std::int64_t{1} << *rc::gen::inRange(0, 31));
  shape.size += Bytes(*rc::gen::inRange<std::int64_t>(0, shape.size.count() + 1));
  shape.channels = *rc::gen::inRange(1, 4);
  // Loops as they come about: to keep messages within a limit, 4 KiB to 1 MiB.
  const Bytes most(std::int64_t{4096} << *rc::gen::inRange(0, 9));
  const int ranks = shape.nodes * shape.ranks_per_node;
  shape.loops =
      std::min(40, collective::LoopsFor(Bytes(shape.size.count() / ranks), shape.channels, most));
  shape.slices = *rc::gen::inRange(1, 4);
  shape.root = *rc::gen::inRange(0, 30);
  shape.seed = *rc::gen::inRange<std::uint32_t>(0, 100);
  return shape;
}

std::string Describe(const SampleShape& shape) {
  return std::to_string(shape.nodes) + " x " + std::to_string(shape.ranks_per_node) + ", " +
         std::to_string(shape.size.count()) + " B, channels " + std::to_string(shape.channels) +
         ", loops " + std::to_string(shape.loops) + ", slices " + std::to_string(shape.slices) +
         ", root " + std::to_string(shape.root) + ", seed " + std::to_string(shape.seed);
}

// An uncontended collective never waits for itself, so the three agree for any links.
TEST_P(EveryAlgorithm, FidelitiesAgreeWithinAPercent) {
  rc::detail::checkGTest([] {
    const SampleShape shape = AnyShape();
    const auto seed = *rc::gen::inRange<std::uint32_t>(0, 1'000'000);
    const SampleNetwork sample = MakeSampleNetwork(shape.nodes, shape.ranks_per_node, seed);
    const std::unique_ptr<StepList> list = MakeSample(GetParam(), shape);
    const Traffic traffic = Traffic::Make(*list, sample.network, sample.PlacesOf(*list)).value();
    const AnalyticTime analytic = PriceAnalytically(traffic);
    const MessageRun run = RunMessages(traffic);
    const Time message = run.ends.front();
    const FlowJob job{.traffic = &traffic};
    const Time flow = RunFlows(sample.network, std::span(&job, 1)).front();
    RC_LOG() << Describe(shape) << ", network " << seed << "\n"
             << "analytic " << analytic.total.microseconds() << " us, message "
             << message.microseconds() << " us, flow " << flow.microseconds() << " us\n";
    if (list->ranks() == 1 && traffic.connections().empty()) {
      RC_ASSERT(analytic.total == Time());
      RC_ASSERT(message == Time());
      RC_ASSERT(flow == Time());
      return;
    }
    // If links differ, a rank may be a stage ahead of another so that both meet on a link. This
    // takes longer than the uncontended time.
    const bool contends = run.queued > Time();
    RC_ASSERT(!contends || !list->LoopsOverlap());
    RC_CLASSIFY(contends);
    if (!contends) RC_ASSERT(message.seconds() <= analytic.total.seconds() * 1.01);
    RC_ASSERT(message.seconds() >= analytic.total.seconds() / 1.01);
    RC_ASSERT(flow.seconds() <= analytic.total.seconds() * 1.000001);
    RC_ASSERT(flow.seconds() >= analytic.total.seconds() / 1.000001);
    for (const Time time : {analytic.total, message, flow}) {
      RC_ASSERT(time >= analytic.latency_bound);
      RC_ASSERT(time >= analytic.bandwidth_bound);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Samples, EveryAlgorithm, testing::ValuesIn(collective::AllSamples()),
                         [](const testing::TestParamInfo<Sample>& info) {
                           return std::string(info.param.algorithm) + "_" +
                                  std::string(Name(info.param.kind));
                         });

using collective::Ring;

// Two leaves of two ranks each; a rank's link and the leaves' uplinks to one spine. No latency.
Network TwoLeaves(int rank_gigabytes, int uplink_gigabytes) {
  Network::Description description;
  const int spine = description.AddDevice("spine", true);
  for (int leaf = 0; leaf < 2; ++leaf) {
    const int id = description.AddDevice("leaf", true);
    description.AddBothWays(
        {.from = id, .to = spine, .bandwidth = Bandwidth::GigabytesPerSecond(uplink_gigabytes)});
    for (int i = 0; i < 2; ++i) {
      const int rank = description.AddDevice("rank", false);
      description.AddBothWays(
          {.from = rank, .to = id, .bandwidth = Bandwidth::GigabytesPerSecond(rank_gigabytes)});
      description.AddPlace({rank});
    }
  }
  return Network::Make(std::move(description)).value();
}

Ring AllReduce(int ranks, std::int64_t bytes) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return Ring({CollectiveKind::kAllReduce, Bytes(bytes), {order}, 10, 10});
}

// Pairs across the spine: 0 with 2, and 1 with 3, 1 GB each, so each rank sends 1 GB: 100 ms at 10
// GB/s. An uplink carries both: 200 ms on 10 GB/s, and no delay on 20.
TEST(FlowTest, AnOversubscribedSpineIsShared) {
  const Ring pair = AllReduce(2, 1'000'000'000);
  for (const auto& [uplink, expected] : {std::pair(20, 100), {10, 200}, {5, 400}}) {
    const Network network = TwoLeaves(10, uplink);
    const std::vector<int> first = {0, 2};
    const std::vector<int> second = {1, 3};
    const Traffic a = Traffic::Make(pair, network, first).value();
    const Traffic b = Traffic::Make(pair, network, second).value();
    const std::vector<FlowJob> jobs = {{&a, Time()}, {&b, Time()}};
    for (const Time end : RunFlows(network, jobs)) {
      EXPECT_NEAR(end.seconds() * 1e3, expected, 0.1) << uplink;
    }
    const std::vector<MessageJob> messages = {{.calls = {&a}}, {.calls = {&b}}};
    const auto run = RunMessages(network, messages);
    ASSERT_TRUE(run.has_value());
    for (const Time end : run->ends) EXPECT_NEAR(end.seconds() * 1e3, expected, expected * 0.01);
  }
}

// The pair inside a leaf (0, 1) needs 100 ms uncontended and uses all of rank 0's link. The pair
// across (0, 2) needs 500 ms, limited by its uplink of 2 GB/s, and uses a fifth of rank 0's link.
// Together that is 1.2 times the link, so both run at 5/6. The first ends after 120 ms, when 400 of
// the other's 500 ms are left.
TEST(FlowTest, BothAreSlowedAlike) {
  const Ring pair = AllReduce(2, 1'000'000'000);
  const Network network = TwoLeaves(10, 2);
  const std::vector<int> inside = {0, 1};
  const std::vector<int> across = {0, 2};
  const Traffic a = Traffic::Make(pair, network, inside).value();
  const Traffic b = Traffic::Make(pair, network, across).value();
  const std::vector<FlowJob> jobs = {{&a, Time()}, {&b, Time()}};
  const std::vector<Time> ends = RunFlows(network, jobs);
  EXPECT_NEAR(ends[0].seconds() * 1e3, 120, 1);
  EXPECT_NEAR(ends[1].seconds() * 1e3, 520, 1);
}

// One slow link slows the ring to its rate: 1.5 GB through 10 or 1 GB/s.
TEST(FlowTest, ASlowLinkSlowsTheRing) {
  const Ring ring = AllReduce(4, 1'000'000'000);
  const std::vector<int> places = {0, 1, 2, 3};
  for (const auto& [slow, expected] : {std::pair(10, 150), {1, 1500}}) {
    const std::vector<Time> latencies(4);
    std::vector<Bandwidth> bandwidths(4, Bandwidth::GigabytesPerSecond(10));
    bandwidths[2] = Bandwidth::GigabytesPerSecond(slow);
    const Network network = MakeStar(latencies, bandwidths);
    const Traffic traffic = Traffic::Make(ring, network, places).value();
    const FlowJob job{.traffic = &traffic};
    EXPECT_NEAR(RunFlows(network, std::span(&job, 1))[0].seconds() * 1e3, expected, 0.1);
  }
}

// Two concurrent collectives take at least as long as each alone, and at most as long as both in
// turn.
TEST(FlowTest, TogetherIsBetweenApartAndInTurn) {
  rc::detail::checkGTest([] {
    const int nodes = *rc::gen::inRange(1, 4);
    const int ranks_per_node = *rc::gen::inRange(2, 4);
    const SampleNetwork sample =
        MakeSampleNetwork(nodes, ranks_per_node, *rc::gen::inRange<std::uint32_t>(0, 10'000));
    const auto samples = collective::AllSamples();
    std::vector<std::unique_ptr<collective::StepList>> lists;
    std::vector<Traffic> traffics;
    for (int job = 0; job < 2; ++job) {
      lists.push_back(MakeSample(*rc::gen::elementOf(samples),
                                 {.size = Bytes(*rc::gen::inRange<std::int64_t>(1, 10'000'000)),
                                  .nodes = nodes,
                                  .ranks_per_node = ranks_per_node,
                                  .loops = *rc::gen::inRange(1, 9)}));
      traffics.push_back(
          Traffic::Make(*lists.back(), sample.network, sample.PlacesOf(*lists.back())).value());
    }
    std::vector<Time> alone;
    std::vector<FlowJob> jobs;
    for (const Traffic& traffic : traffics) {
      const FlowJob job{.traffic = &traffic};
      jobs.push_back(job);
      alone.push_back(RunFlows(sample.network, std::span(&job, 1))[0]);
    }
    const std::vector<Time> together = RunFlows(sample.network, jobs);
    const double slack = 1 + 1e-6;
    for (int job = 0; job < 2; ++job) {
      const auto at = static_cast<std::size_t>(job);
      RC_ASSERT(together[at].seconds() * slack >= alone[at].seconds());
    }
    RC_ASSERT(std::max(together[0], together[1]).seconds() <=
              (alone[0] + alone[1]).seconds() * slack);
  });
}

}  // namespace

}  // namespace stepcast::network
