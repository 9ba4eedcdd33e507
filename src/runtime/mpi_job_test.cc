// Without a launcher this test starts itself under mpirun, and the ranks run the checks.

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime {
namespace {

constexpr int kRanks = 3;

#define EXPECT_OR_FAIL(condition)                                                  \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return false;                                                                \
    }                                                                              \
  } while (false)

bool ChecksOfARank() {
  auto joined = JoinMpi();
  EXPECT_OR_FAIL(joined);
  Job& job = **joined;
  EXPECT_OR_FAIL(job.place().ranks == kRanks);
  EXPECT_OR_FAIL(job.place().local_ranks == kRanks);
  EXPECT_OR_FAIL(job.place().nodes == 1);
  EXPECT_OR_FAIL(job.place().local_rank == job.place().rank);
  for (int round = 0; round < 10; ++round) {
    EXPECT_OR_FAIL(job.Barrier());
    const auto all = job.Gather(fmt::format("{}/{}", job.place().rank, round));
    EXPECT_OR_FAIL(all);
    EXPECT_OR_FAIL(all->size() == (job.place().rank == 0 ? std::size_t{kRanks} : 0));
    for (std::size_t i = 0; i < all->size(); ++i) {
      EXPECT_OR_FAIL((*all)[i] == fmt::format("{}/{}", i, round));
    }
    const auto news = job.Broadcast(fmt::format("{} of {}", round, job.place().rank));
    EXPECT_OR_FAIL(news);
    EXPECT_OR_FAIL(*news == fmt::format("{} of 0", round));
  }
  const auto large = job.Gather(std::string(std::size_t{3} << 20, 'x'));
  EXPECT_OR_FAIL(large);
  if (job.place().rank == 0) EXPECT_OR_FAIL((*large)[2].size() == std::size_t{3} << 20);
  EXPECT_OR_FAIL(job.Gather("")->size() == large->size());
  return true;
}

TEST(MpiJob, RanksMeetUnderMpirun) {
  if (!MpiSession::Available()) GTEST_SKIP() << "built without MPI";
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not there";
  char own[PATH_MAX] = {};
  ASSERT_GT(::readlink("/proc/self/exe", own, sizeof own - 1), 0);
  const std::string command = fmt::format(
      "mpirun --oversubscribe --allow-run-as-root --mca btl self,vader,tcp "
      "--mca mpi_yield_when_idle 1 -n {} '{}' --rank",
      kRanks, own);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace

int RunRank() {
  const bool right = ChecksOfARank();
  if (MpiSession* session = MpiSession::Current()) {
    if (!right) session->Abort(1);
    session->Finish();
  }
  return right ? 0 : 1;
}

}  // namespace stepcast::runtime

int main(int count, char** words) {
  if (count > 1 && std::string(words[1]) == "--rank") return stepcast::runtime::RunRank();
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
