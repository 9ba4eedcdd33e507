#include "src/runtime/host/thread_transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/proofs/transport_checks.h"

namespace stepcast::runtime::host {
namespace {

// Runs each rank on its own thread, with its transport.
void WithRanks(int ranks, const std::function<void(Transport& transport, int rank)>& body) {
  auto jobs = MakeThreadJobs(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Attempt<std::unique_ptr<Transport>> transport = ConnectThreads(*jobs[rank]);
      ASSERT_TRUE(transport.has_value()) << transport.error().message;
      ASSERT_NE(*transport, nullptr);
      body(**transport, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadTransport, AllCollectivesAreRight) {
  for (const int ranks : {1, 2, 3}) {
    WithRanks(ranks, [&](Transport& transport, int rank) {
      EXPECT_EQ(CheckTransport(transport, rank, ranks), "");
    });
  }
}

TEST(ThreadTransport, WhoWaitsForARankThatGaveUpIsToldWhy) {
  WithRanks(3, [](Transport& transport, int rank) {
    auto channel = transport.Open("data", {0, 1, 2});
    ASSERT_TRUE(channel.has_value());
    if (rank == 1) {
      transport.Abandon("rank 1 has no memory left");
      return;
    }
    float value = 1;
    const Attempt<void> done =
        (*channel)->Run({CollectiveKind::kAllReduce, DataType::kFp32, false, 1, &value, &value});
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().message, "rank 1 has no memory left");
  });
}

TEST(ThreadTransport, MembersThatDisagreeFail) {
  WithRanks(2, [](Transport& transport, int rank) {
    auto channel = transport.Open("data", {0, 1});
    ASSERT_TRUE(channel.has_value());
    std::vector<float> values(8, 1);
    const Attempt<void> done = (*channel)->Run({CollectiveKind::kAllReduce, DataType::kFp32, false,
                                                rank == 0 ? 8 : 4, values.data(), values.data()});
    ASSERT_FALSE(done.has_value());
    EXPECT_NE(done.error().message.find("differ"), std::string::npos);
  });
}

}  // namespace
}  // namespace stepcast::runtime::host
