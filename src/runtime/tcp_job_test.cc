#include "src/runtime/tcp_job.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/runtime/admission.h"
#include "src/runtime/authentication.h"
#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"

namespace stepcast::runtime {
namespace {

// A port that is free now: rank 0 takes the first free one from there.
int FreePort() {
  const auto listener = Listener::Open("127.0.0.1", 0);
  return listener ? listener->port() : 29500;
}

Rendezvous At(int port, int rank, int ranks) {
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.ranks = ranks;
  rendezvous.address = "127.0.0.1";
  rendezvous.port = port;
  rendezvous.run_id = fmt::format("test {}", port);
  rendezvous.secret = "a secret of this test";
  return rendezvous;
}

// Ranks as threads: what they have in common is the port alone.
void OnRanks(int ranks, const std::function<void(Job&)>& body) {
  const int port = FreePort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, port, rank, ranks] {
      const auto job = JoinTcp(At(port, rank, ranks));
      ASSERT_TRUE(job) << job.error().message;
      body(**job);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TcpJob, RanksMeet) {
  OnRanks(4, [](Job& job) {
    const int rank = job.place().rank;
    EXPECT_EQ(job.place().ranks, 4);
    EXPECT_EQ(job.place().local_rank, rank);
    EXPECT_EQ(job.place().nodes, 1);
    for (int round = 0; round < 10; ++round) {
      ASSERT_TRUE(job.Barrier());
      const auto all = job.Gather(fmt::format("{}/{}", rank, round));
      ASSERT_TRUE(all);
      ASSERT_EQ(all->size(), rank == 0 ? 4u : 0u);
      for (std::size_t i = 0; i < all->size(); ++i) {
        EXPECT_EQ((*all)[i], fmt::format("{}/{}", i, round));
      }
      const auto news = job.Broadcast(fmt::format("round {} from {}", round, rank));
      ASSERT_TRUE(news);
      EXPECT_EQ(*news, fmt::format("round {} from 0", round));
    }
  });
}

TEST(TcpJob, LongMessagesArriveWhole) {
  OnRanks(2, [](Job& job) {
    const std::string bytes(std::size_t{5} << 20, static_cast<char>('a' + job.place().rank));
    const auto all = job.Gather(bytes);
    ASSERT_TRUE(all);
    if (job.place().rank != 0) return;
    EXPECT_EQ((*all)[1], std::string(std::size_t{5} << 20, 'b'));
  });
}

TEST(TcpJob, ARankThatIsGoneIsNamed) {
  OnRanks(3, [](Job& job) {
    if (job.place().rank == 2) return;
    const auto met = job.Barrier();
    // Rank 0 ends after its failure; rank 1 may learn of that.
    ASSERT_FALSE(met);
    const char* expected = job.place().rank == 0 ? "rank 2 on '" : "rank 0 on '";
    EXPECT_EQ(met.error().message.rfind(expected, 0), 0u) << met.error().message;
  });
}

TEST(TcpJob, APortThatSomethingElseHasIsPassedOver) {
  // As when torchrun's agent listens at MASTER_PORT: it takes connections and never answers.
  auto agent = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(agent);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([port = agent->port(), rank] {
      const auto job = JoinTcp(At(port, rank, 2));
      ASSERT_TRUE(job) << job.error().message;
      EXPECT_TRUE((*job)->Barrier());
    });
  }
  for (std::thread& thread : ranks) thread.join();
}

TEST(TcpJob, WithoutASecretRank0LeavesOneForItsUser) {
  const int port = FreePort();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([port, rank] {
      Rendezvous own = At(port, rank, 3);
      own.secret.clear();
      const auto job = JoinTcp(own);
      ASSERT_TRUE(job) << job.error().message;
      EXPECT_TRUE((*job)->Barrier());
      EXPECT_EQ((*job)->interface(), "127.0.0.1");
    });
  }
  for (std::thread& thread : ranks) thread.join();
}

TEST(TcpJob, ARankWithAnotherSecretIsAStranger) {
  const int port = FreePort();
  std::thread stranger([port] {
    Rendezvous own = At(port, 1, 2);
    own.secret = "another secret, wherever it is from";
    own.timeout = std::chrono::seconds(2);
    const auto job = JoinTcp(own);
    ASSERT_FALSE(job);
    EXPECT_NE(job.error().message.find("another secret (STEPCAST_JOB_SECRET)"), std::string::npos)
        << job.error().message;
  });
  std::string note;
  std::thread first([&note, port] {
    Rendezvous own = At(port, 0, 2);
    own.note = [&note](const std::string& sentence) { note = sentence; };
    const auto job = JoinTcp(own);
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE((*job)->Barrier());
  });
  stranger.join();
  const auto job = JoinTcp(At(port, 1, 2));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE((*job)->Barrier());
  first.join();
  EXPECT_EQ(note.rfind("rank 0 turned away ", 0), 0u) << note;
  EXPECT_NE(note.find("that did not prove to be of this job: 127.0.0.1 ("), std::string::npos)
      << note;
}

TEST(TcpJob, AnAddressOfAnotherMachineIsNotRank0s) {
  Rendezvous own = At(FreePort(), 0, 2);
  own.address = "192.0.2.1";  // of documentation (RFC 5737)
  const auto job = JoinTcp(own);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message.rfind("MASTER_ADDR '192.0.2.1' is no address of '", 0), 0u)
      << job.error().message;
}

TEST(TcpJob, WhoDoesNotComeIsNamed) {
  Rendezvous alone = At(FreePort(), 0, 3);
  alone.timeout = std::chrono::seconds(1);
  const auto job = JoinTcp(alone);
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("for ranks 1, 2"), std::string::npos) << job.error().message;
}

TEST(TcpJob, WhereNobodyIsIsSaid) {
  Rendezvous lost = At(FreePort(), 1, 2);
  lost.timeout = std::chrono::seconds(1);
  const auto job = JoinTcp(lost);
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("did not find rank 0 at 127.0.0.1"), std::string::npos)
      << job.error().message;
}

TEST(TcpJob, TwoOfOneRankAreRefused) {
  const int port = FreePort();
  std::vector<std::string> reasons(3);
  std::vector<std::thread> threads;
  const std::vector<int> ranks{0, 1, 1};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      Rendezvous own = At(port, ranks[i], 3);
      own.timeout = std::chrono::seconds(20);
      const auto job = JoinTcp(own);
      ASSERT_FALSE(job);
      reasons[i] = job.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reasons[0], "two processes were started as rank 1");
}

// It gave up waiting for the answer, say, while rank 0 was stopped.
TEST(TcpJob, AProcessThatComesTwiceIsOne) {
  const int port = FreePort();
  std::thread rank0([port] {
    Rendezvous own = At(port, 0, 3);
    own.timeout = std::chrono::seconds(5);
    const auto job = JoinTcp(own);
    ASSERT_FALSE(job);
    EXPECT_NE(job.error().message.find("for rank 2"), std::string::npos) << job.error().message;
  });
  ByteWriter hello;
  hello.Number(3);
  hello.Number(1);
  hello.Text("here");
  hello.Signed(1);
  hello.Text("the same process");
  const std::string text = hello.Take();
  const Rendezvous job = At(port, 1, 3);
  const std::string secret = AuthenticationCode(job.secret, job.run_id);
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  std::vector<Connection> kept;  // open, so that rank 0 does not see that one was given up
  while (kept.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    auto connection = Connect("127.0.0.1", port, deadline);
    if (!connection) continue;  // rank 0 does not listen yet
    const auto answer = Introduce(*connection, port, secret, text, deadline);
    EXPECT_TRUE(answer) << answer.error().message;
    kept.push_back(std::move(*connection));
  }
  EXPECT_EQ(kept.size(), 2u);
  rank0.join();
}

TEST(TcpJob, AnotherNumberOfRanksIsRefused) {
  const int port = FreePort();
  std::thread first([port] {
    const auto job = JoinTcp(At(port, 0, 2));
    ASSERT_FALSE(job);
    EXPECT_NE(job.error().message.find("as one of 3, rank 0 as one of 2"), std::string::npos)
        << job.error().message;
  });
  const auto job = JoinTcp(At(port, 1, 3));
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("as one of 3"), std::string::npos) << job.error().message;
  first.join();
}

}  // namespace
}  // namespace stepcast::runtime
