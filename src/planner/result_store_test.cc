#include "src/planner/result_store.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::planner {
namespace {

using testing::HasSubstr;

const std::vector<StoreFact> kFacts = {{"the command", "sweep", false},
                                       {"file a.yaml", "1f-3", true}};

class ResultStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const given = std::getenv("TEST_TMPDIR");
    folder_ = fmt::format("{}/store.{}.{}", given == nullptr ? "/tmp" : given, ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/results.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<ResultStore> Opened() const {
    auto store = ResultStore::Open(path_, kFacts);
    if (store) return std::move(*store);
    ADD_FAILURE() << store.error().failure << Format(store.error().wrong_input);
    return nullptr;
  }

  // The mistake, or the failure, with which a store is not opened.
  static std::string Refusal(const std::string& path, const std::vector<StoreFact>& facts) {
    const auto store = ResultStore::Open(path, facts);
    if (store) return "opened";
    if (store.error().wrong_input.empty()) return "failed: " + store.error().failure;
    const Diagnostic& fault = store.error().wrong_input[0];
    EXPECT_EQ(fault.location.file, path);
    EXPECT_FALSE(fault.hint.empty());
    return fault.code + ": " + fault.message;
  }

  void Sql(const char* statements) const {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, statements, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::string folder_, path_;
};

TEST_F(ResultStoreTest, KeepsResultsFromRunToRun) {
  const std::string bytes("\0\1\xff\n", 4);
  {
    const auto store = Opened();
    EXPECT_EQ(store->Find("a=1\n"), std::nullopt);
    store->Put("a=1\n", bytes);
    store->Put("a=2\n", "");
    store->Put("a=1\n", "another");  // the first counts
    ASSERT_TRUE(store->Finish().has_value());
    EXPECT_EQ(store->kept(), 2);
    EXPECT_EQ(store->Find("a=1\n"), bytes);
  }
  const auto store = Opened();
  EXPECT_EQ(store->kept(), 2);
  EXPECT_EQ(store->Find("a=1\n"), bytes);
  EXPECT_EQ(store->Find("a=2\n"), "");
  EXPECT_EQ(store->Find("a=3\n"), std::nullopt);
}

TEST_F(ResultStoreTest, AFileWithoutContentIsANewStore) {
  std::ofstream(path_).close();
  Opened()->Put("a", "1");
  EXPECT_EQ(Opened()->kept(), 1);
}

TEST_F(ResultStoreTest, ManyThreadsPut) {
  {
    const auto store = Opened();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&store, t] {
        for (int i = 0; i < 250; ++i) store->Put(fmt::format("{}.{}", t, i), std::to_string(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto store = Opened();
  EXPECT_EQ(store->kept(), 1000);
  EXPECT_EQ(store->Find("3.249"), "249");
}

TEST_F(ResultStoreTest, AnotherRunIsRefusedWithWhatDiffers) {
  Opened().reset();
  const auto with = [](std::size_t i, StoreFact fact) {
    std::vector<StoreFact> facts = kFacts;
    facts[i] = std::move(fact);
    return facts;
  };
  EXPECT_EQ(
      Refusal(path_, with(0, {"the command", "plan", false})),
      "store.other-run: this store was made by another run: the command was 'sweep' before and is "
      "'plan' now");
  EXPECT_EQ(Refusal(path_, with(1, {"file a.yaml", "2f-3", true})),
            "store.other-run: this store was made by another run: file a.yaml has changed");
  EXPECT_EQ(Refusal(path_, with(1, {"file b.yaml", "1f-3", true})),
            "store.other-run: this store was made by another run: file b.yaml is new; "
            "file a.yaml is gone");
  EXPECT_EQ(Refusal(path_, kFacts), "opened");
}

TEST_F(ResultStoreTest, AnotherFormatIsRefused) {
  Opened()->Put("a", "1");
  Sql("PRAGMA user_version=7");
  EXPECT_EQ(Refusal(path_, kFacts),
            "store.other-format: this program reads version 2 of the store's format, not version "
            "7");
  Sql("PRAGMA user_version=2");
  EXPECT_EQ(Opened()->kept(), 1);
}

TEST_F(ResultStoreTest, AResultUnderAnotherKeyIsNotBelieved) {
  {
    const auto store = Opened();
    store->Put("a", "1");
    store->Put("b", "2");
  }
  Sql("UPDATE results SET result = (SELECT result FROM results WHERE key = 'b') WHERE key = 'a'");
  EXPECT_EQ(Refusal(path_, kFacts),
            "store.damaged: this store is damaged: a stored entry is not a result of 'a'");
}

TEST_F(ResultStoreTest, OtherFilesAreRefusedAndStayAsTheyAre) {
  std::ofstream(path_) << "stepcast: 1\n";
  EXPECT_EQ(Refusal(path_, kFacts), "store.not-a-store: this file is not a store of stepcast");
  EXPECT_EQ(Content(), "stepcast: 1\n");
  std::filesystem::remove(path_);
  Sql("CREATE TABLE mine (x)");
  const std::string before = Content();
  EXPECT_EQ(Refusal(path_, kFacts), "store.not-a-store: this database is not a store of stepcast");
  EXPECT_EQ(Content(), before);
}

TEST_F(ResultStoreTest, PathsThatCannotBeWrittenAreRefused) {
  EXPECT_THAT(Refusal(folder_, kFacts), HasSubstr("the path is a directory"));
  EXPECT_THAT(Refusal("/dev/null", kFacts), HasSubstr("the path is not a file"));
  EXPECT_THAT(Refusal(folder_ + "/none/results.sqlite", kFacts),
              HasSubstr("store.cannot-write: the store cannot be written: No such file"));
}

TEST_F(ResultStoreTest, TwoAtATimeAreRefused) {
  const auto store = Opened();
  EXPECT_THAT(Refusal(path_, kFacts), HasSubstr("another process uses the store"));
  store->Put("a", "1");
  ASSERT_TRUE(store->Finish().has_value());
}

// A full disk, simulated by a limit on file size: written results remain, and the rest can be
// written when there is space.
TEST_F(ResultStoreTest, AFullDiskIsAFailureAndLeavesAGoodStore) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 64 * 1024;
  const std::string result(1000, 'x');
  std::int64_t kept = 0;
  {
    const auto store = Opened();
    store->Put("0", result);
    ASSERT_TRUE(store->Finish().has_value());
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 1; i < 1000 && store->good(); ++i) {
      store->Put(std::to_string(i), result);
      static_cast<void>(store->Finish());
    }
    EXPECT_FALSE(store->good());
    const auto finished = store->Finish();
    ASSERT_FALSE(finished.has_value());
    EXPECT_THAT(finished.error(),
                HasSubstr(fmt::format("cannot write the store '{}': File too large", path_)));
    kept = store->kept();
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 1000);
  }
  // A new store has no room for its first page either.
  small.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(Refusal(folder_ + "/other.sqlite", kFacts), HasSubstr("failed: cannot write"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  const auto store = Opened();
  EXPECT_EQ(store->kept(), kept);
  for (int i = 0; i < 1000; ++i) store->Put(std::to_string(i), result);
  ASSERT_TRUE(store->Finish().has_value());
  EXPECT_EQ(store->kept(), 1000);
}

// A file from elsewhere may contain its own SQL, none of which may run.
TEST_F(ResultStoreTest, RefusesAStoreWithOtherTables) {
  const char* const tampered[] = {
      // Results vanish as they are written.
      "CREATE TRIGGER thief BEFORE INSERT ON results BEGIN SELECT RAISE(IGNORE); END",
      // Reading this table never ends.
      "DROP TABLE facts; CREATE VIEW facts AS WITH RECURSIVE endless(position) AS (SELECT 1 UNION "
      "ALL SELECT position + 1 FROM endless) SELECT position, 'name' AS name, 'value' AS value, 0 "
      "AS digest FROM endless",
      "CREATE INDEX more ON results (digest)",
      "CREATE TABLE more (x)",
      "DROP TABLE results; CREATE TABLE results (key TEXT PRIMARY KEY, result BLOB NOT NULL,"
      " digest TEXT NOT NULL DEFAULT 'x') WITHOUT ROWID",
  };
  for (const char* sql : tampered) {
    std::filesystem::remove(path_);
    Opened();
    Sql(sql);
    EXPECT_THAT(Refusal(path_, kFacts), HasSubstr("store.not-a-store: this store was changed"))
        << sql;
  }
}

// A blob of zeros is a few pages on a compressing disk, but a gigabyte when read.
TEST_F(ResultStoreTest, RefusesValuesThatNoResultHas) {
  Opened();
  Sql("INSERT INTO results VALUES ('a=1', zeroblob(100000000), 'x')");
  const rlim_t megabytes = 64;
  const pid_t child = ::fork();
  if (child == 0) {
    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);
    const std::string refusal = Refusal(path_, kFacts);
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    const bool cheap = after.ru_maxrss - before.ru_maxrss < static_cast<long>(megabytes * 1024);
    ::_exit(refusal.find("store.not-a-store") == 0 && cheap ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepcast::planner
