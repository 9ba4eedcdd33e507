#include "src/runtime/launch.h"

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

Result<Launch> Find(const std::map<std::string, std::string>& variables) {
  return FindLaunch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(StartLimit, EndsAProcessWhoseOthersDoNotCome) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Launch launch{.launcher = Launcher::kMpi, .rank = 0, .ranks = 3, .rendezvous = {}};
  EXPECT_EXIT(
      {
        const StartLimit limit(launch, std::chrono::milliseconds(100));
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(1),
      "stepcast: rank 0 on '.*': not all of 3 ranks have started within 0.1 s");
}

TEST(StartLimit, MeansNothingOnceAllHaveMet) {
  { const StartLimit limit(Launch{}, std::chrono::milliseconds(50)); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

TEST(FindLaunch, NobodyLaunchedIt) {
  const auto launch = Find({{"PATH", "/bin"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kNone);
}

TEST(FindLaunch, Mpirun) {
  const auto launch = Find({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kMpi);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->ranks, 4);
}

TEST(FindLaunch, SrunWithPmix) {
  const auto launch = Find({{"SLURM_NTASKS", "8"}, {"PMIX_RANK", "5"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kMpi);
  EXPECT_EQ(launch->rank, 5);
  // An allocation alone (salloc) has started nothing.
  EXPECT_EQ(Find({{"SLURM_NTASKS", "8"}})->launcher, Launcher::kNone);
}

TEST(FindLaunch, MpiComesBeforeAStrayRank) {
  const auto launch =
      Find({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"RANK", "7"}, {"WORLD_SIZE", "9"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kMpi);
}

TEST(FindLaunch, Torchrun) {
  const auto launch = Find({{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"MASTER_ADDR", "node-0"},
                            {"MASTER_PORT", "29500"},
                            {"STEPCAST_JOB_SECRET", "0123456789abcdef"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"TORCHELASTIC_RUN_ID", "a1"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kTcp);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->ranks, 8);
  EXPECT_EQ(launch->rendezvous.rank, 5);
  EXPECT_EQ(launch->rendezvous.ranks, 8);
  EXPECT_EQ(launch->rendezvous.local_rank, 1);
  EXPECT_EQ(launch->rendezvous.address, "node-0");
  EXPECT_EQ(launch->rendezvous.port, 29500);
  EXPECT_TRUE(launch->rendezvous.port_taken);
  EXPECT_FALSE(launch->rendezvous.one_machine);
  EXPECT_EQ(launch->rendezvous.secret, "0123456789abcdef");
}

TEST(FindLaunch, SeveralMachinesNeedASecret) {
  std::map<std::string, std::string> variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node-0"}, {"MASTER_PORT", "29500"}};
  const auto open = Find(variables);
  ASSERT_FALSE(open);
  ASSERT_EQ(open.error().size(), 1u);
  EXPECT_EQ(open.error()[0].code, "launch.missing-secret");
  for (const char* const address : {"localhost", "127.0.0.1", "127.8.8.8", "::1"}) {
    variables["MASTER_ADDR"] = address;
    const auto launch = Find(variables);
    ASSERT_TRUE(launch) << address;
    EXPECT_TRUE(launch->rendezvous.one_machine) << address;
  }
  variables["MASTER_ADDR"] = "127.example.com";
  EXPECT_FALSE(Find(variables));
  variables["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_FALSE(Find(variables));
  variables["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_TRUE(Find(variables));
}

TEST(FindLaunch, ASecretThatIsNoneIsRefused) {
  std::map<std::string, std::string> variables = {{"RANK", "1"},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", "29500"},
                                                  {"STEPCAST_JOB_SECRET", "password"}};
  const auto guessable = Find(variables);
  ASSERT_FALSE(guessable);
  ASSERT_EQ(guessable.error().size(), 1u);
  EXPECT_EQ(guessable.error()[0].code, "launch.bad-secret");
  EXPECT_EQ(guessable.error()[0].message.find("password"), std::string::npos);
  variables.erase("STEPCAST_JOB_SECRET");
  variables["STEPCAST_JOB_SECRET_FILE"] = "/none";
  const auto missing = Find(variables);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].code, "launch.bad-secret");
}

TEST(StartLimit, ComesAfterTheRendezvousHasNamedWhoIsMissing) {
  const Launch launch{.launcher = Launcher::kTcp, .rank = 0, .ranks = 2, .rendezvous = {}};
  EXPECT_GT(StartLimit::Of(launch), launch.rendezvous.timeout + std::chrono::seconds(20));
}

TEST(FindLaunch, ALoneRankIsSomebodyElses) {
  EXPECT_EQ(Find({{"RANK", "1"}})->launcher, Launcher::kNone);
}

TEST(FindLaunch, WhatIsMissingIsNamedAllAtOnce) {
  const auto launch = Find({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  ASSERT_FALSE(launch);
  ASSERT_EQ(launch.error().size(), 2u);
  EXPECT_EQ(launch.error()[0].code, "launch.missing-variable");
  EXPECT_EQ(launch.error()[0].message, "RANK and WORLD_SIZE are set, but not MASTER_ADDR");
  EXPECT_EQ(launch.error()[1].message, "RANK and WORLD_SIZE are set, but not MASTER_PORT");
}

TEST(FindLaunch, ValuesAreChecked) {
  const auto launch =
      Find({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "http"}});
  ASSERT_FALSE(launch);
  ASSERT_EQ(launch.error().size(), 2u);
  EXPECT_EQ(launch.error()[0].code, "launch.bad-variable");
  EXPECT_EQ(launch.error()[0].message, "RANK must be an integer from 0 to 1: '2'");
  EXPECT_EQ(launch.error()[1].message, "MASTER_PORT must be an integer from 1 to 65535: 'http'");
}

}  // namespace
}  // namespace stepcast::runtime
