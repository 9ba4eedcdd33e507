#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 65534;

class TrustedPathTest : public testing::Test {
 protected:
  TrustedPathTest() : folder_(fs::canonical(testing::TempDir()) / "trusted_path_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inner");
    std::ofstream(folder_ / "inner" / "file") << "text";
  }
  ~TrustedPathTest() override { fs::remove_all(folder_); }

  // Makes a link that another user owns. Returns false if this process may not do so.
  bool MakeAnothersLink(const fs::path& target, const fs::path& link) {
    fs::create_symlink(target, link);
    return ::lchown(link.c_str(), kStranger, kStranger) == 0;
  }

  fs::path folder_;
};

TEST_F(TrustedPathTest, NamesWithoutLinksStandForThemselves) {
  const auto file = FollowTrustedLinks((folder_ / "inner" / "file").string());
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_EQ(file->path, (folder_ / "inner" / "file").string());
  EXPECT_TRUE(file->status && S_ISREG(file->status->st_mode));
  const auto none = FollowTrustedLinks((folder_ / "none" / "file").string());
  ASSERT_TRUE(none.has_value()) << none.error();
  EXPECT_EQ(none->path, (folder_ / "none" / "file").string());
  EXPECT_FALSE(none->status);
  const auto here = FollowTrustedLinks(".");
  ASSERT_TRUE(here.has_value()) << here.error();
  EXPECT_EQ(here->path, ".");
  EXPECT_TRUE(here->status && S_ISDIR(here->status->st_mode));
  const auto relative = FollowTrustedLinks("some-name-that-is-not-there");
  ASSERT_TRUE(relative.has_value()) << relative.error();
  EXPECT_EQ(relative->path, "some-name-that-is-not-there");
}

TEST_F(TrustedPathTest, OwnLinksAreFollowedInFoldersToo) {
  fs::create_symlink("inner", folder_ / "link");
  fs::create_symlink("../link/file", folder_ / "inner" / "again");
  const auto file = FollowTrustedLinks((folder_ / "link" / "again").string());
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_TRUE(fs::equivalent(file->path, folder_ / "inner" / "file"));
  EXPECT_TRUE(file->status && S_ISREG(file->status->st_mode));
}

TEST_F(TrustedPathTest, LinksThatLeadRoundAreAnError) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  const auto round = FollowTrustedLinks((folder_ / "a").string());
  ASSERT_FALSE(round.has_value());
  EXPECT_NE(round.error().find("Too many levels"), std::string::npos) << round.error();
}

TEST_F(TrustedPathTest, NothingIsBelowAFile) {
  const std::string path = (folder_ / "inner" / "file" / "more").string();
  const auto below = FollowTrustedLinks(path);
  ASSERT_TRUE(below.has_value()) << below.error();
  EXPECT_EQ(below->path, path);
  EXPECT_FALSE(below->status);
}

TEST_F(TrustedPathTest, AnothersLinksAreRefusedWhereverTheyStand) {
  if (!MakeAnothersLink("inner", folder_ / "theirs")) {
    GTEST_SKIP() << "this user may not give links away";
  }
  fs::create_symlink("theirs", folder_ / "own");
  for (const char* name : {"theirs", "theirs/file", "theirs/none", "own", "own/file"}) {
    const auto followed = FollowTrustedLinks((folder_ / name).string());
    ASSERT_FALSE(followed.has_value()) << name;
    EXPECT_NE(followed.error().find("belongs to another user"), std::string::npos);
  }
}

// In /tmp, the owner of a folder can replace it with a link. Elsewhere, another user's folder is
// ordinary, such as a colleague's folder that the group may write to.
TEST_F(TrustedPathTest, AnothersFoldersAreRefusedWhereAllMayMakeSome) {
  const fs::path shared = folder_ / "shared";
  fs::create_directories(shared / "theirs" / "inner");
  fs::create_directory(shared / "own");
  if (::lchown((shared / "theirs").c_str(), kStranger, kStranger) != 0) {
    GTEST_SKIP() << "this user may not give folders away";
  }
  const auto followed = [&](const char* name) {
    const auto destination = FollowTrustedLinks((shared / name).string());
    return destination ? std::string("yes") : destination.error();
  };
  EXPECT_EQ(followed("theirs/page.html"), "yes");
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  for (const char* name :
       {"theirs", "theirs/page.html", "theirs/inner", "theirs/inner/page.html"}) {
    EXPECT_EQ(followed(name), "cannot write '" + (shared / name).string() + "': the folder '" +
                                  (shared / "theirs").string() + "' belongs to another user");
  }
  EXPECT_EQ(followed("own/page.html"), "yes");
  EXPECT_EQ(followed("none/page.html"), "yes");
}

TEST_F(TrustedPathTest, DescriptorsOfTheProcessAreNamed) {
  const auto out = FollowTrustedLinks("/proc/self/fd/1");
  ASSERT_TRUE(out.has_value()) << out.error();
  EXPECT_EQ(out->descriptor, 1);
}

}  // namespace
}  // namespace stepcast
