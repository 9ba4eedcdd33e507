// The three fidelities compared with each other, with closed forms, and with the limits of links.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/collective/ring.h"
#include "src/collective/sample_lists.h"
#include "src/network/analytic.h"
#include "src/network/message.h"
#include "src/network/sample_networks.h"

namespace stepcast::network {
namespace {

using collective::Sample;
using collective::SampleShape;
using collective::StepList;

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

}  // namespace
}  // namespace stepcast::network
