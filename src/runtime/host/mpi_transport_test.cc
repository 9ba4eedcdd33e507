// Without a launcher this test starts itself under mpirun, and the ranks run the checks.
#include "src/runtime/host/mpi_transport.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include "src/runtime/mpi_session.h"
#include "tests/proofs/transport_checks.h"

namespace stepcast::runtime::host {
namespace {

TEST(MpiTransport, AllCollectivesAreRight) {
  if (!MpiSession::Available()) GTEST_SKIP() << "built without MPI";
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "MPI's own libraries are not built for ThreadSanitizer";
#endif
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not there";
  char own[PATH_MAX] = {};
  ASSERT_GT(::readlink("/proc/self/exe", own, sizeof own - 1), 0);
  for (const int ranks : {1, 2, 3}) {
    const std::string command = fmt::format(
        "mpirun --oversubscribe --allow-run-as-root --mca btl self,vader,tcp "
        "--mca mpi_yield_when_idle 1 -n {} '{}' --rank",
        ranks, own);
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

std::string ChecksOfARank() {
  const auto job = JoinMpi();
  if (!job) return job.error().message;
  const Attempt<std::unique_ptr<Transport>> transport = ConnectMpi(**job);
  if (!transport) return transport.error().message;
  if (*transport == nullptr) return "MPI runs and is not used";
  return CheckTransport(**transport, (*job)->place().rank, (*job)->place().ranks);
}

}  // namespace

int RunRank() {
  const std::string wrong = ChecksOfARank();
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  if (MpiSession* session = MpiSession::Current()) {
    if (!wrong.empty()) session->Abort(1);
    session->Finish();
  }
  return wrong.empty() ? 0 : 1;
}

}  // namespace stepcast::runtime::host

int main(int count, char** words) {
  if (count > 1 && std::string(words[1]) == "--rank") return stepcast::runtime::host::RunRank();
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
