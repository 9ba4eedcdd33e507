#include "src/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast {
namespace {

std::string Written(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(ReadTextFile, ReturnsTheWholeText) {
  Diagnostics diagnostics;
  const std::string text = "key: \xC3\xA9\r\n\tvalue\n";
  EXPECT_EQ(ReadTextFile(Written("good.yaml", text), diagnostics), text);
  EXPECT_TRUE(diagnostics.empty());
}

TEST(ReadTextFile, SaysWhyNot) {
  const std::string large = Written("large.yaml", "");
  std::filesystem::resize_file(large, kLargestInputFile + 1);
  const struct {
    std::string path;
    std::string code;
  } cases[] = {
      {testing::TempDir() + "absent.yaml", "file.not-found"},
      {"", "file.not-found"},
      {std::string("a\0b", 3), "file.not-found"},
      {testing::TempDir(), "file.not-a-file"},
      {"/dev/zero", "file.not-a-file"},
      {large, "file.too-large"},
  };
  for (const auto& bad : cases) {
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadTextFile(bad.path, diagnostics).has_value()) << bad.path;
    ASSERT_EQ(diagnostics.size(), 1u) << bad.path;
    EXPECT_EQ(diagnostics[0].code, bad.code) << bad.path;
    EXPECT_EQ(diagnostics[0].location.file, bad.path);
    EXPECT_EQ(diagnostics[0].location.line, 0);
  }
}

TEST(CheckText, NamesTheFirstByteThatIsNoText) {
  const struct {
    std::string text;
    int line, column;
  } cases[] = {
      {"ab\ncd\xFF", 2, 3},            // no UTF-8 sequence starts with 0xFF
      {std::string("a\0b", 3), 1, 2},  // a control character
      {"\xC3\xA9\xC3", 1, 3},          // cut short; columns count bytes
      {"\xC0\xAF", 1, 1},              // overlong
      {"\xED\xA0\x80", 1, 1},          // a surrogate
      {"\xF4\x90\x80\x80", 1, 1},      // beyond U+10FFFF
      {"\x1b[31m", 1, 1},
      {"a\xC2\x9B", 1, 2},           // a control character of ISO 6429
      {"name: \xE2\x80\xAE", 1, 7},  // RIGHT-TO-LEFT OVERRIDE
  };
  for (const auto& bad : cases) {
    Diagnostics diagnostics;
    EXPECT_FALSE(CheckText(bad.text, "f", diagnostics));
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics[0].code, "file.not-text");
    EXPECT_EQ(diagnostics[0].location.line, bad.line);
    EXPECT_EQ(diagnostics[0].location.column, bad.column);
  }
}

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(FilesReadTest, DigestsAreFnv1aAndLength) {
  // The FNV-1a offset basis, and the published hash of "a".
  EXPECT_EQ(ContentDigest(""), "cbf29ce484222325-0");
  EXPECT_EQ(ContentDigest("a"), "af63dc4c8601ec8c-1");
}

TEST(FilesReadTest, WhatThisThreadReadsIsNoted) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/files_read.txt";
  std::ofstream(path) << "a";
  Diagnostics faults;
  FilesRead outer;
  {
    FilesRead inner;
    EXPECT_FALSE(ReadTextFile(path + ".none", faults).has_value());
    EXPECT_THAT(inner.digests(), IsEmpty());
    ASSERT_TRUE(ReadTextFile(path, faults).has_value());
    EXPECT_THAT(inner.digests(), ElementsAre(Pair(path, "af63dc4c8601ec8c-1")));
  }
  EXPECT_THAT(outer.digests(), ElementsAre(Pair(path, "af63dc4c8601ec8c-1")));
  FilesRead here;
  std::thread([&] { ReadTextFile(path, faults); }).join();
  EXPECT_THAT(here.digests(), IsEmpty());
}

std::string CodeOf(const std::string& path) {
  Diagnostics diagnostics;
  if (InputFile::Open(path, diagnostics)) return "";
  EXPECT_EQ(diagnostics.size(), 1u);
  return diagnostics[0].code;
}

TEST(InputFile, IsReadInPieces) {
  const std::string path = testing::TempDir() + "input_file";
  std::ofstream(path) << "abcde";
  Diagnostics diagnostics;
  auto file = InputFile::Open(path, diagnostics);
  ASSERT_TRUE(file);
  std::array<char, 3> room;
  EXPECT_EQ(file->Read(room, diagnostics), 3u);
  EXPECT_EQ(std::string(room.data(), 3), "abc");
  EXPECT_EQ(file->Read(room, diagnostics), 2u);
  EXPECT_EQ(std::string(room.data(), 2), "de");
  EXPECT_EQ(file->Read(room, diagnostics), 0u);
  EXPECT_TRUE(diagnostics.empty());
}

TEST(InputFile, IsNoDeviceOrFolder) {
  EXPECT_EQ(CodeOf(testing::TempDir()), "file.not-a-file");
  EXPECT_EQ(CodeOf("/dev/zero"), "file.not-a-file");
  EXPECT_EQ(CodeOf("/dev/tty"), "file.not-a-file");
  EXPECT_EQ(CodeOf(testing::TempDir() + "none"), "file.not-found");
  EXPECT_EQ(CodeOf(testing::TempDir() + std::string("a\0b", 3)), "file.not-found");
  EXPECT_EQ(CodeOf(""), "file.not-found");
}

TEST(InputFile, MayBeAPipe) {
  const std::string path = testing::TempDir() + "input_pipe";
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&path] { std::ofstream(path) << "abc"; });
  Diagnostics diagnostics;
  auto file = InputFile::Open(path, diagnostics);
  ASSERT_TRUE(file);
  std::array<char, 16> room;
  EXPECT_EQ(file->Read(room, diagnostics), 3u);
  writer.join();
}

std::string Pipe(const char* name) {
  const std::string path = testing::TempDir() + name;
  ::unlink(path.c_str());
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

TEST(NamedPipe, IsReadOnceSomethingIsWritten) {
  const std::string path = Pipe("to_read");
  std::thread writer([&path] {
    const int descriptor = ::open(path.c_str(), O_WRONLY);
    // Reading waits for later bytes too.
    EXPECT_EQ(::write(descriptor, "ab", 2), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(::write(descriptor, "cd", 2), 2);
    ::close(descriptor);
  });
  const int descriptor = OpenPipeToRead(path);
  ASSERT_GE(descriptor, 0);
  std::string text;
  char block[16];
  for (ssize_t count; (count = ::read(descriptor, block, sizeof block)) > 0;) {
    text.append(block, static_cast<std::size_t>(count));
  }
  EXPECT_EQ(text, "abcd");
  ::close(descriptor);
  writer.join();
}

TEST(NamedPipe, IsWrittenOnceSomethingReads) {
  const std::string path = Pipe("to_write");
  std::thread reader([&path] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    char block[16];
    EXPECT_EQ(::read(descriptor, block, sizeof block), 2);
    ::close(descriptor);
  });
  const int descriptor = OpenPipeToWrite(path);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(::write(descriptor, "ab", 2), 2);
  ::close(descriptor);
  reader.join();
}

TEST(NamedPipe, ThatIsNoneIsAnErrorAtOnce) {
  EXPECT_EQ(OpenPipeToRead(testing::TempDir() + "none"), -1);
  EXPECT_EQ(OpenPipeToWrite(testing::TempDir() + "none"), -1);
}

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
