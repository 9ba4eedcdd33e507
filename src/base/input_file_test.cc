#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

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

}  // namespace
}  // namespace stepcast
