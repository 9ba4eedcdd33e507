#include "src/runtime/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/messaging/byte_stream.h"

// Each rank is a separate process, so that it can really be killed.
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
  std::string sentence;  // the printed sentence
};

// Messages between processes, over a socket for each pair of ranks. It replaces MPI's mailbox
// (mpi_mailbox.h).
class SocketMailbox final : public messaging::Mailbox {
 public:
  // `sockets`: by rank; -1 for the rank itself.
  SocketMailbox(int rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(sockets_.size()); }
  Attempt<void> Send(int rank, std::string bytes) override {
    // Messages to a rank that has ended are lost, as with MPI.
    [[maybe_unused]] const ssize_t sent =
        ::send(sockets_[static_cast<std::size_t>(rank)], bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return {};
  }
  Attempt<std::optional<messaging::Message>> Receive(std::chrono::microseconds timeout) override {
    std::vector<pollfd> entries;
    for (const int socket : sockets_) {
      entries.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    }
    ::poll(entries.data(), entries.size(), static_cast<int>(timeout.count() / 1000));
    for (std::size_t rank = 0; rank < entries.size(); ++rank) {
      if ((entries[rank].revents & POLLIN) == 0) continue;
      std::array<char, 4096> bytes;
      const ssize_t got = ::recv(sockets_[rank], bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) {
        sockets_[rank] = -1;
        continue;
      }
      return messaging::Message{static_cast<int>(rank),
                                {bytes.data(), static_cast<std::size_t>(got)}};
    }
    return std::optional<messaging::Message>();
  }
  Attempt<void> Flush() override { return {}; }

 private:
  const int rank_;
  std::vector<int> sockets_;
};

// The state shared by the ranks of a test: a socket for each pair, and the number of ranks at each
// barrier.
struct Shared {
  std::vector<std::vector<int>> sockets;  // [rank][other]
  std::atomic<int>* arrived = nullptr;    // in memory that all processes see; two barriers
};

Shared MakeShared(int ranks) {
  Shared shared;
  shared.sockets.assign(static_cast<std::size_t>(ranks),
                        std::vector<int>(static_cast<std::size_t>(ranks), -1));
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      int ends[2] = {-1, -1};
      // SOCK_SEQPACKET keeps message boundaries.
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        ADD_FAILURE() << "no socket";
      }
      shared.sockets[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = ends[0];
      shared.sockets[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = ends[1];
    }
  }
  void* const memory =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared.arrived = new (memory) std::atomic<int>[2]();
  return shared;
}

void Barrier(const Shared& shared, int number) {
  const int ranks = static_cast<int>(shared.sockets.size());
  ++shared.arrived[number];
  while (shared.arrived[number] < ranks) std::this_thread::sleep_for(milliseconds(5));
}

// A rank's work while its watch is on. Returning means success.
using Body = std::function<void(int rank, Watch&)>;

extern "C" void PassOn(int signal) { Watch::TakeSignal(signal); }

// The sockets of this process, once it is a rank.
std::vector<int>& TheSockets() {
  static std::vector<int> sockets;
  return sockets;
}

[[noreturn]] void RunRank(const Shared& shared, int rank, milliseconds timeout, int output,
                          const Body& body) {
  ::signal(SIGTERM, PassOn);
  ::signal(SIGINT, PassOn);
  ::alarm(60);  // whatever goes wrong, no process stays behind
  const auto ranks = static_cast<int>(shared.sockets.size());
  std::vector<Place> places;
  for (int each = 0; each < ranks; ++each) {
    places.push_back({.rank = each, .ranks = ranks, .host = HostName()});
  }
  TheSockets() = shared.sockets[static_cast<std::size_t>(rank)];
  auto mailbox =
      std::make_unique<SocketMailbox>(rank, shared.sockets[static_cast<std::size_t>(rank)]);
  const auto watch = Watch::OverProcesses(places, rank, std::move(mailbox), {.timeout = timeout},
                                          [output](int, const std::string& text) {
                                            [[maybe_unused]] const ssize_t written =
                                                ::write(output, text.data(), text.size());
                                          });
  static const program::Program program = OneCollective();
  watch->SetPrograms(
      std::vector<const program::Program*>(static_cast<std::size_t>(ranks), &program));
  watch->SetStage(rank, Stage::kRunning);
  watch->progress(rank).step = 6;
  watch->progress(rank).instruction = 0;
  // All ranks have sent a heartbeat.
  std::this_thread::sleep_for(milliseconds(600));
  Barrier(shared, 0);
  body(rank, *watch);
  Barrier(shared, 1);
  watch->Finish();
  ::_exit(0);
}

struct Process {
  pid_t pid;
  int output;
};

std::vector<Process> Start(int ranks, milliseconds timeout, const Body& body) {
  const Shared shared = MakeShared(ranks);
  std::vector<Process> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    const pid_t pid = ::fork();
    if (pid == 0) RunRank(shared, rank, timeout, ends[1], body);
    ::close(ends[1]);
    processes.push_back({pid, ends[0]});
  }
  for (const std::vector<int>& sockets : shared.sockets) {
    for (const int socket : sockets) {
      if (socket >= 0) ::close(socket);
    }
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
  for (const Ended& ended : RunRanks(3, kLong, [](int, Watch&) {})) ExpectSaid(ended, 0, "");
}

// Acts like a launcher: terminates all ranks when one has died. Ranks in `dead` end by themselves.
std::vector<Ended> RunAndKill(int ranks, const std::vector<int>& dead) {
  const auto processes = Start(ranks, kLong, [&](int rank, Watch&) {
    if (std::find(dead.begin(), dead.end(), rank) != dead.end()) ::raise(SIGKILL);
    WaitForever();
  });
  std::vector<Ended> all(processes.size());
  for (const int rank : dead)
    all[static_cast<std::size_t>(rank)] = Wait(processes[static_cast<std::size_t>(rank)]);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (all[rank].status < 0) ::kill(processes[rank].pid, SIGTERM);
  }
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (all[rank].status < 0) all[rank] = Wait(processes[rank]);
  }
  return all;
}

TEST(Watch, ADeadRankEndsTheRunWithItsNameAndOperation) {
  const auto all = RunAndKill(4, {2});
  ExpectSaid(all[0], 1, Named(2) + " has ended unexpectedly; the rank was at " + kOperation);
  ExpectSaid(all[1], 1, "");
  EXPECT_EQ(all[2].status, 128 + SIGKILL);
  ExpectSaid(all[3], 1, "");
}

TEST(Watch, Rank1TellsOfRank0sEnd) {
  const auto all = RunAndKill(4, {0});
  ExpectSaid(all[1], 1, Named(0) + " has ended unexpectedly; the rank was at " + kOperation);
  ExpectSaid(all[2], 1, "");
  ExpectSaid(all[3], 1, "");
}

TEST(Watch, NoRankStaysWhenBothThatDecideAreGone) {
  const auto all = RunAndKill(4, {0, 1});
  EXPECT_EQ(all[2].status, 128 + SIGTERM);
  EXPECT_EQ(all[3].status, 128 + SIGTERM);
}

TEST(Watch, AStoppedRankIsNotHeardOf) {
  // Simulates a network link that goes down: the connection stays open and nothing arrives.
  const auto processes = Start(3, milliseconds(2000), [](int rank, Watch&) {
    if (rank == 1) ::raise(SIGSTOP);
    WaitForever();
  });
  ExpectSaid(Wait(processes[0]), 1,
             Named(1) + " sent no heartbeat in the last 1600 ms; the rank was at " + kOperation);
  ExpectSaid(Wait(processes[2]), 1, "");
  ::kill(processes[1].pid, SIGKILL);
  EXPECT_EQ(Wait(processes[1]).status, 128 + SIGKILL);
}

TEST(Watch, WhoDoesNotHearOfRank0Ends) {
  const auto processes = Start(2, milliseconds(2000), [](int rank, Watch&) {
    if (rank == 0) ::raise(SIGSTOP);
    WaitForever();
  });
  ExpectSaid(Wait(processes[1]), 1,
             Named(0) + " sent no heartbeat in the last 1600 ms; the rank was at " + kOperation);
  ::kill(processes[0].pid, SIGKILL);
  Wait(processes[0]);
}

TEST(Watch, WhoWasStoppedItselfDoesNotBlameTheOthers) {
  for (const int stopped : {0, 1}) {
    const auto processes = Start(2, milliseconds(2000), [stopped](int rank, Watch&) {
      if (rank == stopped) ::raise(SIGSTOP);
      WaitForever();
    });
    EXPECT_EQ(Wait(processes[1 - stopped]).status, 1);
    // mpirun does the same in this case.
    ::kill(processes[stopped].pid, SIGCONT);
    ::kill(processes[stopped].pid, SIGTERM);
    ExpectSaid(Wait(processes[stopped]), 1, "");
  }
}

TEST(Watch, AHangNamesTheRankThatIsFurthestBehind) {
  const auto all = RunRanks(3, milliseconds(1500), [](int rank, Watch& watch) {
    watch.progress(rank).operations = rank == 1 ? 10 : 12;
    WaitForever();
  });
  ExpectSaid(all[0], 1,
             "no operation finished in the last 1500 ms: " + Named(1) +
                 " is the furthest behind; the rank was at " + kOperation);
  ExpectSaid(all[1], 1, "");
  ExpectSaid(all[2], 1, "");
}

TEST(Watch, ProgressAnywhereIsNoHang) {
  const auto all = RunRanks(2, milliseconds(1500), [](int rank, Watch& watch) {
    for (int i = 0; i < 25; ++i) {
      std::this_thread::sleep_for(milliseconds(100));
      if (rank == 1) ++watch.progress(1).operations;
    }
  });
  for (const Ended& ended : all) ExpectSaid(ended, 0, "");
}

TEST(Watch, AFailureIsSaidOnce) {
  const auto all = RunRanks(3, kLong, [](int rank, Watch& watch) {
    if (rank == 2) watch.Fail(2, {"rank 2: no memory for 'unit'", true});
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(2) + ": no memory for 'unit'");
  ExpectSaid(all[1], 1, "");
  ExpectSaid(all[2], 1, "");
}

TEST(Watch, ADeathCountsMoreThanWhatFailsAfterIt) {
  const auto all = RunRanks(3, kLong, [](int rank, Watch& watch) {
    if (rank == 2) ::raise(SIGKILL);
    // MPI's calls fail some time after a rank has died.
    std::this_thread::sleep_for(milliseconds(300));
    if (rank == 1) watch.Fail(1, {"the connection was reset"});
    WaitForever();
  });
  ExpectSaid(all[0], 1, Named(2) + " has ended unexpectedly; the rank was at " + kOperation);
  ExpectSaid(all[1], 1, "");
}

TEST(Watch, AnInterruptionIsSaidOnceWhoeverGetsIt) {
  for (const int signalled : {0, 1}) {
    const auto all = RunRanks(3, kLong, [signalled](int rank, Watch&) {
      if (rank == signalled) ::raise(SIGINT);
      WaitForever();
    });
    ExpectSaid(all[0], 130, "interrupted");
    ExpectSaid(all[1], 130, "");
    ExpectSaid(all[2], 130, "");
  }
}

TEST(Watch, WhatIsNoMessageChangesNothing) {
  const auto all = RunRanks(3, kLong, [](int rank, Watch&) {
    if (rank != 1) return;
    messaging::ByteWriter heartbeat;  // with an invalid stage, step and instruction
    for (const std::uint64_t number : {0ull, 99ull, 1ull, ~0ull, ~0ull}) heartbeat.Number(number);
    SocketMailbox stranger(1, TheSockets());
    for (const std::string& bytes :
         {std::string("\xff\xff"), std::string(4096, 'x'), std::string("\x09"), heartbeat.Take()}) {
      ASSERT_TRUE(stranger.Send(0, bytes));
    }
    std::this_thread::sleep_for(milliseconds(500));
  });
  for (const Ended& ended : all) ExpectSaid(ended, 0, "");
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
             "no operation finished in the last 700 ms: " + Named(2) +
                 " is the furthest behind; the rank was at " + kOperation);
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
