#include "src/collective/rounds.h"

#include <memory>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "tests/examples/sample_lists.h"

namespace stepcast::collective {
namespace {

std::vector<SentChunk> Sent(std::string_view algorithm, CollectiveKind kind, int ranks) {
  return MessagesByRound(*MakeSample(
      {algorithm, kind}, {.size = Bytes(1024), .nodes = 2, .ranks_per_node = ranks / 2}));
}

// Each of 2 (n - 1) rounds has a message from every rank; the first half adds.
TEST(RoundsTest, ARing) {
  constexpr int kRanks = 4, kRounds = 2 * (kRanks - 1);
  const std::vector<SentChunk> sent = Sent("ring", CollectiveKind::kAllReduce, kRanks);
  ASSERT_EQ(sent.size(), static_cast<std::size_t>(kRanks * kRounds));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].round, static_cast<int>(i) / kRanks);
    EXPECT_EQ(sent[i].from, static_cast<int>(i) % kRanks);
    EXPECT_EQ(sent[i].to, (sent[i].from + 1) % kRanks);
    EXPECT_EQ(sent[i].reduce, sent[i].round < kRounds / 2);
  }
}

// Every rank sends to every other rank once, to one in each round.
TEST(RoundsTest, AnAllToAll) {
  constexpr int kRanks = 6;
  const std::vector<SentChunk> sent = Sent("pairwise", CollectiveKind::kAllToAll, kRanks);
  std::set<std::pair<int, int>> pairs, rounds;
  for (const SentChunk& message : sent) {
    pairs.emplace(message.from, message.to);
    rounds.emplace(message.from, message.round);
    EXPECT_FALSE(message.reduce);
  }
  EXPECT_EQ(sent.size(), static_cast<std::size_t>(kRanks * (kRanks - 1)));
  EXPECT_EQ(pairs.size(), sent.size());
  EXPECT_EQ(rounds.size(), sent.size());
}

TEST(RoundsTest, EveryAlgorithmSendsInFewRounds) {
  for (const Sample& sample : AllSamples()) {
    const std::vector<SentChunk> sent = Sent(sample.algorithm, sample.kind, 4);
    EXPECT_FALSE(sent.empty()) << sample.algorithm;
    for (const SentChunk& message : sent) EXPECT_LT(message.round, 64) << sample.algorithm;
  }
}

}  // namespace
}  // namespace stepcast::collective
