#include "src/runtime/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/program/program.h"
#include "src/runtime/connection.h"
#include "src/runtime/rank_placement.h"
#include "src/runtime/tcp_job.h"
#include "src/runtime/thread_job.h"

// Each rank is a process of its own, so that it can really be killed.
namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);  // longer than any test

// One all-reduce.
program::Program OneCollective() {
  program::Program program;
  program.streams = {{"comm"}};
  program.groups = {{"data", {0, 1, 2, 3}}};
  program.communicators = {{"data", 0}};
  program.collectives = {{.kind = CollectiveKind::kAllReduce, .communicator = 0}};
  program.step = {{.opcode = program::Opcode::kCollective, .operand = 0}};
  return program;
}
constexpr const char* kOperation = "all_reduce on communicator 'data' on stream 'comm' in step 7";

struct Ended {
  int status = -1;       // exit status; 128 + signal if one ended it
  std::string sentence;  // what it said
};

// What a rank does; its watch is on. Returning means that the run went well for it.
using Body = std::function<void(Job&, Watch&)>;

extern "C" void PassOn(int signal) { Watch::TakeSignal(signal); }

[[noreturn]] void RunRank(int port, int rank, int ranks, milliseconds timeout, int output,
                          const Body& body) {
  ::signal(SIGTERM, PassOn);
  ::signal(SIGINT, PassOn);
  ::alarm(60);  // whatever goes wrong, no process stays behind
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.ranks = ranks;
  rendezvous.address = "127.0.0.1";
  rendezvous.port = port;
  rendezvous.secret = "a secret of this test";
  auto job = JoinTcp(rendezvous);
  if (!job) ::_exit(90);
  auto watch = Watch::OverJob(**job, {.timeout = timeout}, [output](int, const std::string& text) {
    [[maybe_unused]] const ssize_t written = ::write(output, text.data(), text.size());
  });
  if (!watch) ::_exit(91);
  static const program::Program program = OneCollective();
  (*watch)->SetPrograms(
      std::vector<const program::Program*>(static_cast<std::size_t>(ranks), &program));
  (*watch)->SetStage(rank, Stage::kRunning);
  (*watch)->progress(rank).step = 6;
  (*watch)->progress(rank).instruction = 0;
  // All ranks have sent a heartbeat.
  std::this_thread::sleep_for(milliseconds(600));
  if (!(*job)->Barrier()) ::_exit(92);
  body(**job, **watch);
  if (!(*job)->Barrier()) ::_exit(93);
  (*watch)->Finish();
  ::_exit(0);
}

struct Process {
  pid_t pid;
  int output;
};

std::vector<Process> Start(int ranks, milliseconds timeout, const Body& body) {
  int port = 0;
  {
    const auto free = Listener::Open("127.0.0.1", 0);
    port = free ? free->port() : 29500;
  }
  std::vector<Process> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    const pid_t pid = ::fork();
    if (pid == 0) RunRank(port, rank, ranks, timeout, ends[1], body);
    ::close(ends[1]);
    processes.push_back({pid, ends[0]});
  }
  return processes;
}

Ended Wait(const Process& process) {
  Ended ended;
  int status = 0;
  ::waitpid(process.pid, &status, 0);
  ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  char bytes[4096];
  for (ssize_t got; (got = ::read(process.output, bytes, sizeof bytes)) > 0;) {
    ended.sentence.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(process.output);
  return ended;
}

std::vector<Ended> RunRanks(int ranks, milliseconds timeout, const Body& body) {
  std::vector<Ended> all;
  for (const Process& process : Start(ranks, timeout, body)) all.push_back(Wait(process));
  return all;
}

[[noreturn]] void WaitForever() {
  for (;;) ::pause();
}

void ExpectSaid(const Ended& ended, int status, const std::string& sentence) {
  EXPECT_EQ(ended.status, status);
  EXPECT_EQ(ended.sentence, sentence);
}

std::string Named(int rank) { return fmt::format("rank {} on '{}'", rank, HostName()); }

TEST(Watch, SaysNothingWhenAllGoesWell) {
  for (const Ended& ended : RunRanks(3, kLong, [](Job&, Watch&) {})) ExpectSaid(ended, 0, "");
}

TEST(Watch, ADeadRankEndsTheRunWithItsNameAndOperation) {
  const auto all = RunRanks(4, kLong, [](Job& job, Watch&) {
    if (job.place().rank == 2) ::raise(SIGKILL);
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(2) + " has ended unexpectedly; it was at " + kOperation);
  ExpectSaid(all[1], 1, "");
  EXPECT_EQ(all[2].status, 128 + SIGKILL);
  ExpectSaid(all[3], 1, "");
}

TEST(Watch, TheLowestRankLeftTellsOfRank0sEnd) {
  const auto all = RunRanks(4, kLong, [](Job& job, Watch&) {
    if (job.place().rank == 0) ::raise(SIGKILL);
    WaitForever();
  });
  ExpectSaid(all[1], 1, Named(0) + " has ended unexpectedly; it was at " + kOperation);
  ExpectSaid(all[2], 1, "");
  ExpectSaid(all[3], 1, "");
}

TEST(Watch, TheLowestRankLeftIsNotAlwaysRank1) {
  const auto all = RunRanks(4, kLong, [](Job& job, Watch&) {
    // Rank 0 after rank 1, or rank 2 finds that rank 1 lives; but before it tells of its death.
    if (job.place().rank == 0) std::this_thread::sleep_for(milliseconds(50));
    if (job.place().rank <= 1) ::raise(SIGKILL);
    WaitForever();
  });
  EXPECT_EQ(all[2].status, 1);
  EXPECT_EQ(all[2].sentence.rfind(Named(0) + " has ended unexpectedly", 0), 0u) << all[2].sentence;
  ExpectSaid(all[3], 1, "");
}

TEST(Watch, AStoppedRankIsNotHeardOf) {
  // As when its link is taken down: the connection stays open and nothing comes.
  const auto processes = Start(3, milliseconds(2000), [](Job& job, Watch&) {
    if (job.place().rank == 1) ::raise(SIGSTOP);
    WaitForever();
  });
  ExpectSaid(Wait(processes[0]), 1,
             Named(1) + " has not been heard of for 1600 ms; it was at " + kOperation);
  ExpectSaid(Wait(processes[2]), 1, "");
  ::kill(processes[1].pid, SIGKILL);
  EXPECT_EQ(Wait(processes[1]).status, 128 + SIGKILL);
}

TEST(Watch, WhoDoesNotHearOfRank0Ends) {
  const auto processes = Start(2, milliseconds(2000), [](Job& job, Watch&) {
    if (job.place().rank == 0) ::raise(SIGSTOP);
    WaitForever();
  });
  ExpectSaid(Wait(processes[1]), 1,
             Named(0) + " has not been heard of for 1600 ms; it was at " + kOperation);
  ::kill(processes[0].pid, SIGKILL);
  Wait(processes[0]);
}

TEST(Watch, WhoWasStoppedItselfDoesNotBlameTheOthers) {
  for (const int stopped : {0, 1}) {
    const auto processes = Start(2, milliseconds(2000), [stopped](Job& job, Watch&) {
      if (job.place().rank == stopped) ::raise(SIGSTOP);
      WaitForever();
    });
    EXPECT_EQ(Wait(processes[1 - stopped]).status, 1);
    // As mpirun does then.
    ::kill(processes[stopped].pid, SIGCONT);
    ::kill(processes[stopped].pid, SIGTERM);
    ExpectSaid(Wait(processes[stopped]), 1, "");
  }
}

TEST(Watch, AHangNamesTheRankThatIsFurthestBehind) {
  const auto all = RunRanks(3, milliseconds(1500), [](Job& job, Watch& watch) {
    const int rank = job.place().rank;
    watch.progress(rank).operations = rank == 1 ? 10 : 12;
    WaitForever();
  });
  ExpectSaid(all[0], 1,
             "no operation has finished for 1500 ms: " + Named(1) +
                 " is the furthest behind; it was at " + kOperation);
  ExpectSaid(all[1], 1, "");
  ExpectSaid(all[2], 1, "");
}

TEST(Watch, ProgressAnywhereIsNoHang) {
  const auto all = RunRanks(2, milliseconds(1500), [](Job& job, Watch& watch) {
    for (int i = 0; i < 25; ++i) {
      std::this_thread::sleep_for(milliseconds(100));
      if (job.place().rank == 1) ++watch.progress(1).operations;
    }
  });
  for (const Ended& ended : all) ExpectSaid(ended, 0, "");
}

TEST(Watch, AFailureIsSaidOnce) {
  const auto all = RunRanks(3, kLong, [](Job& job, Watch& watch) {
    if (job.place().rank == 2) watch.Fail(2, {"rank 2: no memory for 'unit'", true});
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(2) + ": no memory for 'unit'");
  ExpectSaid(all[1], 1, "");
  ExpectSaid(all[2], 1, "");
}

TEST(Watch, ADeathCountsMoreThanWhatFailsAfterIt) {
  const auto all = RunRanks(3, kLong, [](Job& job, Watch& watch) {
    if (job.place().rank == 2) ::raise(SIGKILL);
    if (job.place().rank == 1) watch.Fail(1, {"the connection was reset"});
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(2) + " has ended unexpectedly; it was at " + kOperation);
  ExpectSaid(all[1], 1, "");
}

TEST(Watch, AnInterruptionIsSaidOnceWhoeverGetsIt) {
  for (const int rank : {0, 1}) {
    const auto all = RunRanks(3, kLong, [rank](Job& job, Watch&) {
      if (job.place().rank == rank) ::raise(SIGINT);
      WaitForever();
    });
    ExpectSaid(all[0], 130, "interrupted");
    ExpectSaid(all[1], 130, "");
    ExpectSaid(all[2], 130, "");
  }
}

TEST(Watch, ATerminationAfterADeathTellsOfTheDeath) {
  // mpirun terminates all ranks when one dies.
  const auto all = RunRanks(3, kLong, [](Job& job, Watch&) {
    ::raise(job.place().rank == 1 ? SIGKILL : SIGTERM);
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(1) + " has ended unexpectedly; it was at " + kOperation);
  ExpectSaid(all[2], 1, "");
}

TEST(Watch, TheSameWhenRank0Dies) {
  const auto all = RunRanks(3, kLong, [](Job& job, Watch&) {
    ::raise(job.place().rank == 0 ? SIGKILL : SIGTERM);
    WaitForever();
  });
  ExpectSaid(all[1], 1, Named(0) + " has ended unexpectedly; it was at " + kOperation);
  ExpectSaid(all[2], 1, "");
}

// All ranks as threads of one process.
Ended RunThreads(milliseconds timeout, const std::function<void(int rank, Watch&)>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGINT, PassOn);
    ::alarm(60);
    std::vector<Place> places;
    const auto jobs = MakeThreadJobs(3);
    for (const auto& job : jobs) places.push_back(job->place());
    const program::Program program = OneCollective();
    const auto watch =
        Watch::OverThreads(places, {.timeout = timeout}, [&](int, const std::string& text) {
          [[maybe_unused]] const ssize_t written = ::write(ends[1], text.data(), text.size());
        });
    watch->SetPrograms(std::vector<const program::Program*>(places.size(), &program));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        watch->SetStage(rank, Stage::kRunning);
        watch->progress(rank).step = 6;
        watch->progress(rank).instruction = 0;
        body(rank, *watch);
      });
    }
    for (std::thread& thread : threads) thread.join();
    watch->Finish();
    ::_exit(0);
  }
  ::close(ends[1]);
  return Wait({pid, ends[0]});
}

TEST(ThreadWatch, SaysNothingWhenAllGoesWell) {
  ExpectSaid(RunThreads(kLong, [](int, Watch&) {}), 0, "");
}

TEST(ThreadWatch, AHangNamesTheRankThatIsFurthestBehind) {
  const Ended ended = RunThreads(milliseconds(700), [](int rank, Watch& watch) {
    watch.progress(rank).operations = rank == 2 ? 3 : 4;
    WaitForever();
  });
  ExpectSaid(ended, 1,
             "no operation has finished for 700 ms: " + Named(2) +
                 " is the furthest behind; it was at " + kOperation);
}

TEST(ThreadWatch, AFailureEndsAllRanks) {
  const Ended ended = RunThreads(kLong, [](int rank, Watch& watch) {
    if (rank == 1) watch.Fail(1, {"a wrong sum"});
    WaitForever();
  });
  ExpectSaid(ended, 1, Named(1) + ": a wrong sum");
}

TEST(ThreadWatch, AnInterruptionEndsAllRanks) {
  const Ended ended = RunThreads(kLong, [](int rank, Watch&) {
    if (rank == 1) ::kill(::getpid(), SIGINT);
    WaitForever();
  });
  ExpectSaid(ended, 130, "interrupted");
}

}  // namespace
}  // namespace stepcast::runtime
