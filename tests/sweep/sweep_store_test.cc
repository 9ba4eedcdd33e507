// Tests `stepcast sweep --store` end to end. However a run ends, the same command continues it, and
// the final output equals that without a store. Times are not checked, since the machine may be
// busy.

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"
#include "tests/samples/samples.h"
#include "tests/sweep/store_test.h"

namespace stepcast::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kBinary = "src/cli/stepcast";

// Collectives message by message on 40 ranks: a row takes some ten milliseconds.
constexpr const char* kScenario = R"(stepcast: 1
name: Messages of 40 ranks
model:
  kind: layers
  layers:
    - {name: block, repeat: 12, parameters: [400000, 2000], forward: 1 ms, backward: 2 ms,
       activation: 16 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 40, memory: 1 GiB, link: {latency: 20 us, bandwidth: 2 GB/s}}
  network: message
training: {sequence_length: 128, micro_batch_size: 1, precision: bf16, optimizer: adamw,
           gradient_accumulation: 1}
data_parallel: {zero_stage: 0, framework: reference, bucket_size: 1 MiB}
)";

// 4 stages x 5 bucket sizes x micro-batches, one of which exceeds any plan's limit. The short sweep
// takes a quarter of a second of CPU time; the long one two seconds, enough to disturb it.
struct Rows {
  const char* micro_batches;
  int count;
};
constexpr Rows kShort{"1,1000000", 40}, kLong{"1..7 +1,1000000", 160};

class SweepStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    const char* const given = std::getenv("TEST_TMPDIR");
    folder_ = fmt::format("{}/sweep.{}.{}", given == nullptr ? "/tmp" : given, ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    store_ = folder_ + "/results.sqlite";
    std::ofstream(folder_ + "/scenario.yaml") << kScenario;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Command(const std::string& rest) const {
    return fmt::format(
        "{} sweep '{}/scenario.yaml' --vary data_parallel.zero_stage=all "
        "--vary 'data_parallel.bucket_size=1 MiB..16 MiB x2' "
        "--vary 'training.micro_batch_size={}' {}",
        kBinary, folder_, rows_.micro_batches, rest);
  }
  std::string Stored(const std::string& rest) const {
    return Command(fmt::format("--store '{}' {}", store_, rest));
  }
  // The output without a store and without interruption.
  std::string Undisturbed(const std::string& form) const {
    static std::map<std::pair<int, std::string>, std::string> known;  // for all tests
    std::string& output = known[{rows_.count, form}];
    if (!output.empty()) return output;
    const ShellResult result = Shell(Command(form));
    EXPECT_EQ(result.status, 0) << result.messages;
    EXPECT_FALSE(result.output.empty());
    output = result.output;
    return output;
  }
  void ExpectTheRest(const std::string& form, const std::string& undisturbed) const {
    const ShellResult rest = Shell(Stored(form));
    EXPECT_EQ(rest.status, 0) << rest.messages;
    EXPECT_EQ(rest.output, undisturbed);
    EXPECT_EQ(Kept(), rows_.count);
  }

  Rows rows_ = kShort;
};

TEST_F(SweepStoreTest, KilledAgainAndAgainNothingIsLost) {
  rows_ = kLong;
  const std::string undisturbed = Undisturbed("--jsonl");
  std::mt19937 random(20);
  std::int64_t kept = 0;
  int kills = 0;
  int whole = 0;  // number of runs that ended before they were killed
  const int most = Samples(8, 20);
  while (kills < most) {
    const pid_t run = Start(Stored(fmt::format("--jsonl --threads {}", 1 + kills % 3)));
    // At a random time between start-up and the middle of the work.
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution(0, 250)(random)));
    ::kill(run, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(run, &status, 0), run);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0) << Read("err");
      EXPECT_EQ(Read("out"), undisturbed);
      EXPECT_EQ(Kept(), rows_.count);
      std::filesystem::remove(store_);
      kept = 0;
      ASSERT_LT(++whole, 100);
      continue;
    }
    ++kills;
    // Empty, unless it was killed while it wrote its output.
    EXPECT_TRUE(undisturbed.starts_with(Read("out"))) << Read("out");
    // Reading the store repairs it, which the next run should do by itself.
    if (kills % 4 != 0) continue;
    const std::int64_t now = Kept();
    EXPECT_GE(now, kept);
    kept = now;
  }
  ExpectTheRest("--jsonl --threads 2", undisturbed);
}

TEST_F(SweepStoreTest, EveryFormIsTheSameFromAStoreAndOnAnyNumberOfThreads) {
  for (const char* form : {"", "--csv", "--jsonl"}) {
    const std::string undisturbed = Undisturbed(form);
    ExpectTheRest(form, undisturbed);
  }
  EXPECT_EQ(Undisturbed("--csv --threads 5"), Undisturbed("--csv"));
  EXPECT_EQ(Undisturbed("--csv --threads 1"), Undisturbed("--csv"));
  json document = json::parse(Shell(Stored("--json")).output);
  EXPECT_EQ(document["run"]["from_store"], rows_.count);
  json undisturbed = json::parse(Undisturbed("--json"));
  EXPECT_EQ(undisturbed["run"]["from_store"], 0);
  document.erase("run");
  undisturbed.erase("run");
  EXPECT_EQ(document, undisturbed);
}

TEST_F(SweepStoreTest, AnInterruptSaysWhatIsKept) {
  rows_ = kLong;
  const std::string undisturbed = Undisturbed("--csv");
  const pid_t run = Start(Stored("--csv --threads 1"));
  AwaitResults();
  ::kill(run, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 0) GTEST_SKIP() << "the sweep was faster than the signal";
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(Read("out"), "");
  EXPECT_THAT(Read("err"), HasSubstr("stepcast: interrupted\nstepcast: "));
  EXPECT_THAT(Read("err"),
              HasSubstr(fmt::format(" of {} combinations are saved in '{}'; to continue, run the "
                                    "same command again",
                                    rows_.count, store_)));
  ExpectTheRest("--csv", undisturbed);
}

TEST_F(SweepStoreTest, TheSecondOfTwoProcessesIsRefused) {
  rows_ = kLong;
  const pid_t run = Start(Stored("--csv --threads 1"));
  AwaitResults();
  const ShellResult second = Shell(Stored("--csv"));
  ::kill(run, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  if (WIFEXITED(status)) GTEST_SKIP() << "the first was done before the second began";
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.output, "");
  EXPECT_THAT(second.messages, HasSubstr("another process uses the store"));
  ExpectTheRest("--csv", Undisturbed("--csv"));
}

TEST_F(SweepStoreTest, AFullDiskIsAFailureAndTheRestFollows) {
  rows_ = kLong;
  // 48 KiB, in the shell's units.
  const ShellResult full = Shell("ulimit -f 96; " + Stored("--csv"));
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.output, "");
  EXPECT_THAT(full.messages, HasSubstr("stepcast: cannot write the store '"));
  EXPECT_THAT(full.messages, HasSubstr("File too large"));
  EXPECT_THAT(full.messages, HasSubstr("combinations are saved in"));
  EXPECT_GT(Kept(), 0);
  ExpectTheRest("--csv", Undisturbed("--csv"));
}

TEST_F(SweepStoreTest, WhatIsNotThisSweepsStoreIsRefused) {
  ASSERT_EQ(Shell(Stored("--csv")).status, 0);
  const auto refused = [&](const std::string& command, const std::string& message) {
    const ShellResult result = Shell(command);
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_EQ(result.output, "") << command;
    EXPECT_THAT(result.messages, HasSubstr(message)) << command;
  };
  refused(Stored("--set training.sequence_length=64"),
          "--set was '' before and is 'training.sequence_length=64'");
  refused(Stored("--vary data_parallel.overlap=all"), "--vary data_parallel.overlap is new");
  // A comment changes no result, but the file's digest differs.
  std::ofstream(folder_ + "/scenario.yaml", std::ios::app) << "# larger\n";
  refused(Stored(""), "scenario.yaml has changed");
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(store_.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(connection, "PRAGMA user_version=9", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(connection);
  refused(Stored(""), "reads version 2 of the store's format, not version 9");
  refused(Command("--store /none/results.sqlite"), "the store cannot be written");
  // Results of a wrong scenario are not stored for the correct one.
  const std::string other = folder_ + "/other.sqlite";
  refused(Command(fmt::format("--set training.surprise=1 --store '{}'", other)), "surprise");
  EXPECT_FALSE(std::filesystem::exists(other));
}

// An unreadable store cannot be continued.
TEST_F(SweepStoreTest, ADamagedStoreIsToBeRemovedAndNothingElse) {
  ASSERT_EQ(Shell(Stored("--csv")).status, 0);
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(store_.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(connection, "UPDATE results SET result = x'ff'", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(connection);
  const ShellResult damaged = Shell(Stored("--csv"));
  EXPECT_EQ(damaged.status, 2);
  EXPECT_EQ(damaged.output, "");
  EXPECT_THAT(damaged.messages, HasSubstr("error[store.damaged]: this store is damaged"));
  EXPECT_THAT(damaged.messages, HasSubstr("emove the store to start again"));
  EXPECT_THAT(damaged.messages, testing::Not(HasSubstr("again to continue")));
}

TEST_F(SweepStoreTest, RanksPrintWhatOneProcessPrints) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const std::string undisturbed = Undisturbed("--csv");
  const ShellResult three = Shell(Mpirun(3) + Command("--csv"));
  EXPECT_EQ(three.status, 0) << three.messages;
  EXPECT_EQ(three.output, undisturbed);
  const ShellResult stored = Shell(Mpirun(2) + Stored("--csv"));
  EXPECT_EQ(stored.status, 0) << stored.messages;
  EXPECT_EQ(stored.output, undisturbed);
  EXPECT_EQ(Kept(), rows_.count);
  const ShellResult wrong = Shell(Mpirun(2) + Command("--vary nonsense=1"));
  EXPECT_EQ(wrong.status, 2) << wrong.messages;
  EXPECT_EQ(wrong.output, "");
  EXPECT_THAT(wrong.messages, HasSubstr("unknown key"));
}

TEST_F(SweepStoreTest, AKilledRankEndsTheJobAndTheRestFollows) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  rows_ = kLong;
  const std::string undisturbed = Undisturbed("--csv");
  const pid_t run = Start(fmt::format(
      "{} sh -c 'echo $$ > \"$0/new.$OMPI_COMM_WORLD_RANK\"; "
      "mv \"$0/new.$OMPI_COMM_WORLD_RANK\" \"$0/pid.$OMPI_COMM_WORLD_RANK\"; exec \"$@\"' '{}' {}",
      Mpirun(3), folder_, Stored("--csv --threads 1")));
  AwaitResults();
  ASSERT_EQ(Shell(fmt::format("kill -KILL $(cat '{}/pid.1')", folder_)).status, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), 0);
  EXPECT_EQ(Read("out"), "");
  EXPECT_THAT(Read("err"), HasSubstr("rank 1 on '"));
  // Ranks report their stage only from time to time, so this one may still be setting up.
  EXPECT_THAT(Read("err"),
              AnyOf(HasSubstr("the rank was forecasting"), HasSubstr("the rank was setting up")));
  EXPECT_THAT(Read("err"),
              HasSubstr(fmt::format(" of {} combinations are saved in '", kLong.count)));
  const std::int64_t kept = Kept();
  EXPECT_GT(kept, 0);
  const ShellResult rest = Shell(Stored("--csv"));
  EXPECT_EQ(rest.status, 0) << rest.messages;
  EXPECT_EQ(rest.output, undisturbed);
  EXPECT_THAT(rest.messages,
              HasSubstr(fmt::format("{} of {} combinations were in", kept, kLong.count)));
}

}  // namespace
}  // namespace stepcast::cli
