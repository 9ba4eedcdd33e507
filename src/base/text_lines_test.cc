#include "src/base/text_lines.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(YamlScalar, IsPlainWhereYamlTakesItForItself) {
  for (const char* text : {"bf16", "llama3.1-8b", "configs/a b.json", "./a", "1e-3", "true"}) {
    EXPECT_EQ(YamlScalar(text), text);
  }
}

TEST(YamlScalar, QuotesWhatYamlWouldTakeForSomethingElse) {
  EXPECT_EQ(YamlScalar(""), "\"\"");
  EXPECT_EQ(YamlScalar("null"), "\"null\"");
  EXPECT_EQ(YamlScalar("~"), "\"~\"");
  EXPECT_EQ(YamlScalar("- a"), "\"- a\"");
  EXPECT_EQ(YamlScalar(" a"), "\" a\"");
  EXPECT_EQ(YamlScalar("a: b"), "\"a: b\"");
  EXPECT_EQ(YamlScalar("a #b"), "\"a #b\"");
  EXPECT_EQ(YamlScalar("[a, b]"), "\"[a, b]\"");
  EXPECT_EQ(YamlScalar("gr\xC3\xB6\xC3\x9F"
                       "er"),
            "\"gr\xC3\xB6\xC3\x9F"
            "er\"");
}

TEST(YamlQuoted, StaysOnOneLine) {
  EXPECT_EQ(YamlQuoted("a\nb\tc\rd"), "\"a\\nb\\tc\\rd\"");
  EXPECT_EQ(YamlQuoted("\"\\"), "\"\\\"\\\\\"");
}

// Invalid characters are written as messages show them.
TEST(YamlQuoted, ShowsWhatADocumentMayNotHold) {
  EXPECT_EQ(YamlQuoted("\x1b[2J"), "\"\\\\x1b[2J\"");
  EXPECT_EQ(YamlQuoted("\xFF"), "\"\\\\xff\"");
  EXPECT_EQ(YamlQuoted("\xE2\x80\xAE"), "\"\\\\u202e\"");
}

TEST(TemporaryNameTest, IsHiddenBesideItsTarget) {
  EXPECT_THAT(TemporaryName("/a/b.json"), testing::MatchesRegex("/a/\\.b\\.json\\.[0-9a-f]+"));
  EXPECT_THAT(TemporaryName("b.json"), testing::MatchesRegex("\\.b\\.json\\.[0-9a-f]+"));
  EXPECT_NE(TemporaryName("b.json"), TemporaryName("b.json"));
}

TEST(SyncFolderTest, TellsWhatCannotBe) {
  EXPECT_TRUE(SyncFolder(testing::TempDir()));
  EXPECT_TRUE(SyncFolder(""));
  EXPECT_FALSE(SyncFolder("/none/of/these"));
}

// Runs in a child process that a signal ends while another thread makes two files. The exit status
// is the number of files found then.
int FilesAtTheEnd(const std::string& folder) {
  static std::atomic<bool> begun;
  // A signal handler must not allocate.
  static char one[PATH_MAX], two[PATH_MAX];
  std::snprintf(one, sizeof one, "%s/one", folder.c_str());
  std::snprintf(two, sizeof two, "%s/two", folder.c_str());
  begun = false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, [](int) {
      SignalsHeldBack::LetFinish();
      ::_exit((::access(one, F_OK) == 0 ? 1 : 0) + (::access(two, F_OK) == 0 ? 1 : 0));
    });
    std::thread([] {
      const SignalsHeldBack held_back;
      ::close(::open(one, O_CREAT | O_WRONLY, 0600));
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ::close(::open(two, O_CREAT | O_WRONLY, 0600));
    }).detach();
    while (!begun) std::this_thread::yield();
    ::kill(::getpid(), SIGINT);
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SignalsHeldBackTest, AnotherThreadsSignalWaitsUntilBothFilesAreThere) {
  std::string folder = testing::TempDir() + "/held.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(FilesAtTheEnd(folder), 2);
}

}  // namespace

}  // namespace stepcast
