// Tests `stepcast plan --store` and plan over ranks end to end. However a search ends, the same
// command continues it, and the final output equals that of one process without a store. Times are
// not checked, since the machine may be busy.

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
#include <string_view>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/cli/command_test.h"
#include "tests/samples/samples.h"
#include "tests/sweep/store_test.h"

namespace stepcast::cli {
namespace {

using std::chrono::milliseconds;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kBinary = "src/cli/stepcast";

// Collectives run message by message, whose prices are no bounds, so many plans are forecast. On 8
// ranks the search takes a seventh of a second of CPU time; on 32 more than one second, enough to
// disturb it.
constexpr int kShort = 8, kLong = 32;
constexpr const char* kScenario = R"(stepcast: 1
name: Messages
model:
  kind: layers
  layers:
    - {name: block, repeat: 12, parameters: [400000, 2000], forward: 1 ms, backward: 2 ms,
       activation: 16 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: RANKS, memory: 1 GiB, link: {latency: 20 us, bandwidth: 2 GB/s}}
  network: message
training: {sequence_length: 128, micro_batch_size: 1, global_batch_size: 128, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference, bucket_size: 1 MiB}
)";

class PlanStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    const char* const given = std::getenv("TEST_TMPDIR");
    folder_ = fmt::format("{}/plan.{}.{}", given == nullptr ? "/tmp" : given, ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    store_ = folder_ + "/results.sqlite";
    SearchOn(kShort);
  }
  // Sets the cluster of later commands.
  void SearchOn(int ranks) {
    ranks_ = ranks;
    const std::string_view text = kScenario, placeholder = "RANKS";
    const std::size_t at = text.find(placeholder);
    std::ofstream(folder_ + "/scenario.yaml")
        << text.substr(0, at) << ranks << text.substr(at + placeholder.size());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Command(const std::string& rest) const {
    return fmt::format("{} plan '{}/scenario.yaml' --only data --csv {}", kBinary, folder_, rest);
  }
  std::string Stored(const std::string& rest) const {
    return Command(fmt::format("--store '{}' {}", store_, rest));
  }
  // The output without a store and without interruption.
  std::string Undisturbed() const {
    static std::map<int, std::string> known;  // for all tests
    std::string& output = known[ranks_];
    if (!output.empty()) return output;
    const ShellResult result = Shell(Command(""));
    EXPECT_EQ(result.status, 0) << result.messages;
    EXPECT_FALSE(result.output.empty());
    output = result.output;
    return output;
  }

  int ranks_ = 0;
};

TEST_F(PlanStoreTest, KilledAgainAndAgainNothingIsLost) {
  SearchOn(kLong);
  const std::string undisturbed = Undisturbed();
  std::mt19937 random(10);
  std::int64_t kept = 0;
  int kills = 0;
  int whole = 0;  // number of searches that ended before they were killed
  const int most = Samples(8, 20);
  while (kills < most) {
    const pid_t run = Start(Stored(fmt::format("--threads {}", 1 + kills % 3)));
    // At a random time between start-up and the middle of the work.
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution(0, 250)(random)));
    ::kill(run, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(run, &status, 0), run);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0) << Read("err");
      EXPECT_EQ(Read("out"), undisturbed);
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
  const ShellResult rest = Shell(Stored("--threads 2"));
  EXPECT_EQ(rest.status, 0) << rest.messages;
  EXPECT_EQ(rest.output, undisturbed);
}

TEST_F(PlanStoreTest, TheSameFromAStoreAndOnAnyNumberOfThreads) {
  const std::string undisturbed = Undisturbed();
  EXPECT_EQ(Shell(Command("--threads 1")).output, undisturbed);
  EXPECT_EQ(Shell(Command("--threads 5")).output, undisturbed);
  const ShellResult first = Shell(Stored(""));
  EXPECT_EQ(first.output, undisturbed);
  const std::int64_t kept = Kept();
  EXPECT_GT(kept, 0);
  const ShellResult again = Shell(Stored(""));
  EXPECT_EQ(again.output, undisturbed);
  EXPECT_THAT(again.messages, HasSubstr(fmt::format("{} bounds and forecasts were in", kept)));
  EXPECT_EQ(Kept(), kept);  // nothing was worked out
  // Other goals and values use the stored results too.
  const std::string other = "--target memory --vary data_parallel.zero_stage=all --headroom 10%";
  const ShellResult of_store = Shell(Stored(other));
  EXPECT_EQ(of_store.status, 0) << of_store.messages;
  EXPECT_EQ(of_store.output, Shell(Command(other)).output);
}

TEST_F(PlanStoreTest, AnInterruptSaysWhatIsKept) {
  SearchOn(kLong);
  const std::string undisturbed = Undisturbed();
  const pid_t run = Start(Stored("--threads 1"));
  AwaitResults();
  ::kill(run, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 0) GTEST_SKIP() << "the search was faster than the signal";
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(Read("err"),
              HasSubstr("stepcast: stopping the search and printing the best plan so far"));
  EXPECT_THAT(Read("err"),
              HasSubstr(fmt::format(" bounds and forecasts are saved in '{}'; to continue, run the "
                                    "same command again",
                                    store_)));
  EXPECT_EQ(Shell(Stored("")).output, undisturbed);
}

TEST_F(PlanStoreTest, TheSecondOfTwoProcessesIsRefused) {
  SearchOn(kLong);
  const pid_t run = Start(Stored("--threads 1"));
  AwaitResults();
  const ShellResult second = Shell(Stored(""));
  ::kill(run, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  if (WIFEXITED(status)) GTEST_SKIP() << "the first was done before the second began";
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.output, "");
  EXPECT_THAT(second.messages, HasSubstr("another process uses the store"));
  EXPECT_EQ(Shell(Stored("")).output, Undisturbed());
}

TEST_F(PlanStoreTest, AFullDiskIsAFailureAndTheRestFollows) {
  SearchOn(kLong);
  // 48 KiB, in the shell's units.
  const ShellResult full = Shell("ulimit -f 96; " + Stored(""));
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.output, "");
  EXPECT_THAT(full.messages, HasSubstr("stepcast: cannot write the store '"));
  EXPECT_THAT(full.messages, HasSubstr("File too large"));
  EXPECT_THAT(full.messages, HasSubstr("bounds and forecasts are saved in"));
  EXPECT_GT(Kept(), 0);
  EXPECT_EQ(Shell(Stored("")).output, Undisturbed());
}

TEST_F(PlanStoreTest, WhatIsNotThisScenariosStoreIsRefused) {
  ASSERT_EQ(Shell(Stored("")).status, 0);
  const auto refused = [&](const std::string& command, const std::string& message) {
    const ShellResult result = Shell(command);
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_EQ(result.output, "") << command;
    EXPECT_THAT(result.messages, HasSubstr(message)) << command;
  };
  refused(Stored("--set training.sequence_length=64"),
          "--set was '' before and is 'training.sequence_length=64'");
  refused(fmt::format("{} sweep '{}/scenario.yaml' --vary data_parallel.overlap=all --store '{}'",
                      kBinary, folder_, store_),
          "the command was 'plan' before and is 'sweep'");
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

TEST_F(PlanStoreTest, RanksPrintWhatOneProcessPrints) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const std::string undisturbed = Undisturbed();
  const ShellResult three = Shell(Mpirun(3) + Command(""));
  EXPECT_EQ(three.status, 0) << three.messages;
  EXPECT_EQ(three.output, undisturbed);
  const ShellResult stored = Shell(Mpirun(2) + Stored(""));
  EXPECT_EQ(stored.status, 0) << stored.messages;
  EXPECT_EQ(stored.output, undisturbed);
  EXPECT_GT(Kept(), 0);
  EXPECT_EQ(Shell(Stored("")).output, undisturbed);
  const ShellResult wrong = Shell(Mpirun(2) + Command("--vary nonsense=1"));
  EXPECT_EQ(wrong.status, 2) << wrong.messages;
  EXPECT_EQ(wrong.output, "");
  EXPECT_THAT(wrong.messages, HasSubstr("unknown key"));
}

TEST_F(PlanStoreTest, AKilledRankEndsTheJobAndTheRestFollows) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  SearchOn(kLong);
  const std::string undisturbed = Undisturbed();
  const pid_t run = Start(fmt::format(
      "{} sh -c 'echo $$ > \"$0/new.$OMPI_COMM_WORLD_RANK\"; "
      "mv \"$0/new.$OMPI_COMM_WORLD_RANK\" \"$0/pid.$OMPI_COMM_WORLD_RANK\"; exec \"$@\"' '{}' {}",
      Mpirun(3), folder_, Stored("--threads 1")));
  AwaitResults();
  const bool killed = Shell(fmt::format("kill -KILL $(cat '{}/pid.1')", folder_)).status == 0;
  int status = 0;
  ASSERT_EQ(::waitpid(run, &status, 0), run);
  ASSERT_TRUE(WIFEXITED(status));
  if (!killed || WEXITSTATUS(status) == 0) GTEST_SKIP() << "the search was faster than the signal";
  EXPECT_EQ(Read("out"), "");
  EXPECT_THAT(Read("err"), HasSubstr("rank 1 on '"));
  // Ranks report their stage only from time to time, so this one may still be setting up.
  EXPECT_THAT(Read("err"),
              AnyOf(HasSubstr("the rank was forecasting"), HasSubstr("the rank was setting up")));
  EXPECT_THAT(Read("err"), HasSubstr(" bounds and forecasts are saved in '"));
  const std::int64_t kept = Kept();
  EXPECT_GT(kept, 0);
  const ShellResult rest = Shell(Stored(""));
  EXPECT_EQ(rest.status, 0) << rest.messages;
  EXPECT_EQ(rest.output, undisturbed);
  EXPECT_THAT(rest.messages, HasSubstr(fmt::format("{} bounds and forecasts were in", kept)));
}

}  // namespace
}  // namespace stepcast::cli
