#include "src/collective/step_list.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/sample_lists.h"
#include "tests/proofs/list_interpreter.h"

namespace stepcast::collective {
namespace {

using Data = std::vector<std::vector<std::int64_t>>;

// The expected result of the collective: [rank][address], -1 if the rank has no result.
Data Promise(const StepList& list, const Data& in, int root) {
  const Partition& partition = list.partition();
  const auto ranks = static_cast<std::size_t>(list.ranks());
  const auto total = static_cast<std::size_t>(partition.total().count());
  const auto n = list.ranks();
  Data promise(ranks, std::vector<std::int64_t>(total, -1));
  // The block of every address, if blocks belong to ranks or pairs.
  std::vector<int> block_of(total);
  for (int block = 0; block < partition.blocks(); ++block) {
    for (std::int64_t part = 0; part < partition.parts(); ++part) {
      const auto begin = block_of.begin() + partition.Offset(block, part);
      std::fill(begin, begin + partition.Size(block, part), block);
    }
  }
  for (std::size_t address = 0; address < total; ++address) {
    std::int64_t sum = 0;
    for (const auto& rank : in) sum += rank[address];
    const int block = block_of[address];
    for (int rank = 0; rank < n; ++rank) {
      std::int64_t& out = promise[static_cast<std::size_t>(rank)][address];
      const auto of = [&](int other) { return in[static_cast<std::size_t>(other)][address]; };
      switch (list.kind()) {
        case CollectiveKind::kAllReduce:
          out = sum;
          break;
        case CollectiveKind::kReduceScatter:
          if (block == rank) out = sum;
          break;
        case CollectiveKind::kAllGather:
          out = of(block);
          break;
        case CollectiveKind::kBroadcast:
          out = of(root);
          break;
        case CollectiveKind::kReduce:
          if (rank == root) out = sum;
          break;
        case CollectiveKind::kScatter:
          if (block == rank) out = of(root);
          break;
        case CollectiveKind::kGather:
          if (rank == root) out = of(block);
          break;
        case CollectiveKind::kAllToAll:
          if (block % n == rank) out = of(block / n);
          break;
        case CollectiveKind::kSendRecv:
          if (block == (rank + n - 1) % n) out = of(block);
          break;
      }
    }
  }
  return promise;
}

void ExpectPromiseKept(const StepList& list, int root) {
  const auto total = static_cast<std::size_t>(list.partition().total().count());
  Data in(static_cast<std::size_t>(list.ranks()), std::vector<std::int64_t>(total));
  std::int64_t value = 1;
  for (auto& rank : in) {
    for (std::int64_t& number : rank) number = value = value * 31 % 1'000'003;
  }
  const Data promise = Promise(list, in, root);
  for (const bool lowest_first : {true, false}) {
    const Interpretation got = Interpret(list, in, lowest_first);
    RC_ASSERT(got.fault == "");
    for (std::size_t rank = 0; rank < promise.size(); ++rank) {
      for (std::size_t address = 0; address < total; ++address) {
        // Final exactly once if there is a result, and never elsewhere.
        const bool due = promise[rank][address] >= 0;
        RC_ASSERT(got.copies[rank][address] == (due ? 1 : 0));
        if (due) RC_ASSERT(got.results[rank][address] == promise[rank][address]);
      }
    }
  }
}

class EveryAlgorithm : public testing::TestWithParam<Sample> {};

TEST_P(EveryAlgorithm, DoesWhatItsCollectivePromises) {
  rc::detail::checkGTest([] {
    SampleShape shape;
    shape.nodes = *rc::gen::inRange(1, 7);
    shape.ranks_per_node = *rc::gen::inRange(1, 5);
    shape.size = Bytes(*rc::gen::inRange<std::int64_t>(0, 200));
    shape.channels = *rc::gen::inRange(1, 4);
    shape.loops = *rc::gen::inRange(1, 4);
    shape.slices = *rc::gen::inRange(1, 4);
    shape.root = *rc::gen::inRange(0, 30);
    shape.seed = *rc::gen::inRange<std::uint32_t>(0, 100);
    const std::unique_ptr<StepList> list = MakeSample(GetParam(), shape);
    ExpectPromiseKept(*list, shape.root % list->ranks());
  });
}

// docs/collectives.md, in units of S / (nodes x ranks per node), so that all values are whole
// numbers: the bytes sent by all ranks together, and by the busiest rank. There are n = m nodes x g
// ranks.
struct WireBytes {
  std::int64_t all = 0;
  std::int64_t busiest = 0;
};
WireBytes ClosedForm(const Sample& sample, std::int64_t m, std::int64_t g) {
  const std::int64_t n = m * g;
  switch (sample.kind) {
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      if (sample.algorithm != "nvls") return {n * (n - 1), n - 1};
      return sample.kind == CollectiveKind::kAllGather ? WireBytes{n, 1} : WireBytes{n * n, n};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return {(n - 1) * n, n == 1 ? 0 : n};
    case CollectiveKind::kScatter:
      return {n - 1, n - 1};
    case CollectiveKind::kGather:
      return {n - 1, n == 1 ? 0 : 1};
    case CollectiveKind::kSendRecv:
      return n == 1 ? WireBytes{} : WireBytes{n * n, n};
    case CollectiveKind::kAllToAll:
      if (sample.algorithm == "pairwise") return {n * (n - 1), n - 1};
      // g - 1 within the node, (g - 1)(m - 1) to the forwarding ranks, and g (m - 1) forwarded.
      return {n * (n - 1 + (g - 1) * (m - 1)), n - 1 + (g - 1) * (m - 1)};
    case CollectiveKind::kAllReduce:
      break;
  }
  if (sample.algorithm == "ring") return {2 * (n - 1) * n, 2 * (n - 1)};
  // S/2 up each tree, and S/2 down to each of two children. With fewer than 5 ranks, no node has
  // two children.
  if (sample.algorithm == "tree") return {2 * (n - 1) * n, n < 5 ? -1 : 2 * n};
  if (sample.algorithm == "nvls") return {n * (n + 1), n + 1};
  // Every rank sends to its switch, and every head sends back to it. Each head has 2 (m - 1) edges
  // of a tree: S/2g up in both trees, and down to each of two children in one.
  if (sample.algorithm == "nvls_tree") {
    return {n * n + n * m + 2 * (m - 1) * n, m < 5 ? -1 : n + 3 * m};
  }
  // (g - 1) blocks to the heads, the own block to the switches, and one to each of g - 1 others.
  if (sample.algorithm == "collnet") return {n * m * (2 * (g - 1) + 1), m * (2 * (g - 1) + 1)};
  return {n * (2 * (g - 1) * m + 2 * (m - 1)), 2 * (g - 1) * m + 2 * (m - 1)};  // hierarchical
}

TEST_P(EveryAlgorithm, SendsTheBytesOfTheClosedForm) {
  for (const auto& [m, g] :
       {std::pair(1, 1), {1, 2}, {2, 1}, {1, 4}, {3, 1}, {2, 3}, {4, 2}, {5, 3}}) {
    const std::int64_t n = std::int64_t{m} * g;
    const std::int64_t unit = 2 * n * n * 12;  // divides by blocks, channels, loops, slices
    const std::unique_ptr<StepList> list = MakeSample(GetParam(), {.size = Bytes(n * unit),
                                                                   .nodes = m,
                                                                   .ranks_per_node = g,
                                                                   .channels = 2,
                                                                   .loops = 3,
                                                                   .slices = 2,
                                                                   .seed = 7});
    std::vector<std::int64_t> sent(static_cast<std::size_t>(list->participants()));
    for (int worker = 0; worker < list->workers(); ++worker) {
      for (std::int64_t i = 0; i < list->StepCount(worker); ++i) {
        const Step step = list->At(worker, i);
        if (step.send_to == kNobody) continue;
        sent[static_cast<std::size_t>(list->ParticipantOf(worker))] += step.bytes;
      }
    }
    const auto ranks_end = sent.begin() + list->ranks();
    const WireBytes expected = ClosedForm(GetParam(), m, g);
    EXPECT_EQ(std::accumulate(sent.begin(), ranks_end, std::int64_t{0}), expected.all * unit)
        << m << " nodes of " << g;
    if (expected.busiest >= 0) {
      EXPECT_EQ(*std::max_element(sent.begin(), ranks_end), expected.busiest * unit)
          << m << " nodes of " << g;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, EveryAlgorithm, testing::ValuesIn(AllSamples()),
                         [](const testing::TestParamInfo<Sample>& info) {
                           return std::string(info.param.algorithm) + "_" +
                                  std::string(Name(info.param.kind));
                         });

TEST(Partition, CutsEvenlyAndWithoutGaps) {
  rc::detail::checkGTest([] {
    const auto total = *rc::gen::inRange<std::int64_t>(0, 1000);
    const Partition partition(Bytes(total), *rc::gen::inRange(1, 20), *rc::gen::inRange(1, 20));
    std::int64_t offset = 0;
    for (std::int64_t block = 0; block < partition.blocks(); ++block) {
      for (std::int64_t part = 0; part < partition.parts(); ++part) {
        RC_ASSERT(partition.Offset(block, part) == offset);
        const std::int64_t even = total / partition.blocks() / partition.parts();
        RC_ASSERT(partition.Size(block, part) >= even);
        RC_ASSERT(partition.Size(block, part) <= even + 1);
        offset += partition.Size(block, part);
      }
    }
    RC_ASSERT(offset == total);
  });
}

// 10 MiB over 4 channels is 2.5 MiB a channel; with messages of at most 1 MiB, 3 loops. One byte
// needs one loop.
TEST(LoopsFor, KeepsMessagesWithinTheirLimit) {
  EXPECT_EQ(LoopsFor(MiB(10), 4, MiB(1)), 3);
  EXPECT_EQ(LoopsFor(Bytes(1), 4, MiB(1)), 1);
  EXPECT_EQ(LoopsFor(Bytes(0), 4, MiB(1)), 1);
}

// 1 GiB over 4,096 ranks: 8,190 sends by each rank, 33.5 million in all, from tables whose size
// grows only with the ranks.
TEST(StepList, DescribesALargeRing) {
  const auto list = MakeSample({"ring", CollectiveKind::kAllReduce},
                               {.size = GiB(1), .nodes = 512, .ranks_per_node = 8});
  EXPECT_EQ(list->Describe(), "all_reduce of 1073741824 B by ring over 4096 ranks");
  EXPECT_EQ(list->StepCount(0), 8191);
  EXPECT_EQ(list->At(5, 0).bytes, 262144);
  EXPECT_EQ(list->At(5, 0).chunk.block, 4);
  EXPECT_EQ(list->At(5, 8190).send_to, kNobody);
}

}  // namespace
}  // namespace stepcast::collective
