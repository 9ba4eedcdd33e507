#include "src/runtime/job_secret.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class JobSecretTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/secret.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string File(const std::string& text, mode_t mode) const {
    const std::string path = (folder_ / "secret").string();
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  int Files() const {
    return static_cast<int>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(JobSecretTest, AFileOfOnesOwnIsRead) {
  const auto secret = ReadSecret(File("0123456789abcdef0123\n", 0600));
  ASSERT_TRUE(secret) << secret.error().message;
  EXPECT_EQ(*secret, "0123456789abcdef0123");
}

TEST_F(JobSecretTest, AFileThatOthersMayReadIsNot) {
  for (const mode_t mode : {0640, 0604, 0660}) {
    const auto secret = ReadSecret(File("0123456789abcdef0123\n", mode));
    ASSERT_FALSE(secret);
    EXPECT_THAT(secret.error().message, HasSubstr("chmod 600"));
  }
}

TEST_F(JobSecretTest, AGuessableOneALinkAndAFolderAreNot) {
  EXPECT_FALSE(ReadSecret(File("short\n", 0600)));
  const std::string path = File("0123456789abcdef0123\n", 0600);
  fs::create_symlink(path, folder_ / "link");
  EXPECT_FALSE(ReadSecret((folder_ / "link").string()));
  EXPECT_FALSE(ReadSecret(folder_.string()));
  EXPECT_FALSE(ReadSecret((folder_ / "none").string()));
}

TEST_F(JobSecretTest, Rank0sIsKnownToTheOthersAndGoesWithIt) {
  const SharedSecret other("job 1");
  const auto none = other.Read();
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->has_value());
  {
    SharedSecret first("job 1");
    const auto written = first.Write();
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(written->size(), 64u);
    const auto read = other.Read();
    ASSERT_TRUE(read && read->has_value());
    EXPECT_EQ(**read, *written);
    EXPECT_FALSE(SharedSecret("job 2").Read()->has_value());
    EXPECT_EQ(Files(), 1);
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(JobSecretTest, AFolderThatOthersMayReadIsNotUsed) {
  ::chmod(folder_.c_str(), 0755);
  SharedSecret first("job 3");
  const auto written = first.Write();
  if (written) {
    EXPECT_EQ(Files(), 0);  // it is in the user's own folder below /tmp
  } else {
    EXPECT_THAT(written.error().message, HasSubstr("STEPCAST_JOB_SECRET"));
  }
}

}  // namespace
}  // namespace stepcast::runtime
