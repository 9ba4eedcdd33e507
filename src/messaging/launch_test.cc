#include "src/messaging/launch.h"

#include <map>

#include "gtest/gtest.h"

namespace stepcast::messaging {
namespace {

Result<Launch> Find(const std::map<std::string, std::string>& variables) {
  return FindLaunch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
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
  // salloc makes an allocation but starts no processes.
  EXPECT_EQ(Find({{"SLURM_NTASKS", "8"}})->launcher, Launcher::kNone);
}

TEST(FindLaunch, MpiComesBeforeAStrayRank) {
  const auto launch =
      Find({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"RANK", "7"}, {"WORLD_SIZE", "9"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kMpi);
}

TEST(FindLaunch, TorchrunsRanksHaveNoMpi) {
  const auto several = Find({{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node-0"},
                             {"MASTER_PORT", "29500"}});
  ASSERT_FALSE(several);
  ASSERT_EQ(several.error().size(), 1u);
  EXPECT_EQ(several.error()[0].code, "launch.needs-mpi");
  EXPECT_NE(several.error()[0].hint.find("mpirun -n 8 stepcast"), std::string::npos);
  EXPECT_NE(several.error()[0].hint.find("srun -n 8 stepcast"), std::string::npos);
  const auto one_node = Find({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "8"}});
  ASSERT_FALSE(one_node);
  EXPECT_NE(one_node.error()[0].hint.find("without torchrun"), std::string::npos);
}

// A job of one rank does not communicate.
TEST(FindLaunch, OneRankOfTorchrunIsAlone) {
  const auto launch = Find({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, Launcher::kNone);
}

TEST(FindLaunch, EscapesInTheEnvironmentArePrintable) {
  const auto launch = Find({{"RANK", "0"}, {"WORLD_SIZE", "\x1b[2J"}});
  ASSERT_FALSE(launch);
  const std::string text = Format(launch.error());
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(FindLaunch, ALoneRankIsSomebodyElses) {
  EXPECT_EQ(Find({{"RANK", "1"}})->launcher, Launcher::kNone);
}

}  // namespace
}  // namespace stepcast::messaging
