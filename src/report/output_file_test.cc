#include "src/report/output_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/output_file.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  int Files() const {
    return static_cast<int>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, AppearsOnlyWhenCommitted) {
  auto file = OutputFile::Create(Path("trace.json"));
  ASSERT_TRUE(file.has_value()) << file.error();
  ASSERT_TRUE(file->Write("one ").has_value());
  ASSERT_TRUE(file->Write("two").has_value());
  EXPECT_FALSE(fs::exists(Path("trace.json")));
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(Read(Path("trace.json")), "one two");
  EXPECT_EQ(Files(), 1);
}

std::string Unpacked(const std::string& path) {
  const gzFile file = ::gzopen(path.c_str(), "rb");
  std::string text(1 << 20, '\0');
  const int read = ::gzread(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
  text.resize(static_cast<std::size_t>(std::max(read, 0)));
  return text;
}

TEST_F(OutputFileTest, ANameThatEndsInGzIsCompressed) {
  std::string whole;
  for (const std::string name : {"a.json.gz", "b.json.gz"}) {
    auto file = OutputFile::Create(Path(name));
    ASSERT_TRUE(file.has_value()) << file.error();
    whole.clear();
    for (int i = 0; i < 1000; ++i) {
      const std::string piece = "{\"step\": " + std::to_string(i) + "}\n";
      ASSERT_TRUE(file->Write(piece).has_value());
      whole += piece;
    }
    ASSERT_TRUE(file->Commit().has_value());
  }
  EXPECT_EQ(Unpacked(Path("a.json.gz")), whole);
  EXPECT_LT(fs::file_size(Path("a.json.gz")), whole.size() / 2);
  EXPECT_EQ(Read(Path("a.json.gz")), Read(Path("b.json.gz")));
}

TEST_F(OutputFileTest, LeavesNothingBehindWhenGivenUp) {
  {
    auto file = OutputFile::Create(Path("trace.json"));
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->Write("half").has_value());
    EXPECT_EQ(Files(), 1);
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(OutputFileTest, AnOldFileStaysUntilTheNewOneIsComplete) {
  std::ofstream(Path("trace.json")) << "old";
  {
    auto file = OutputFile::Create(Path("trace.json"));
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->Write("new").has_value());
  }
  EXPECT_EQ(Read(Path("trace.json")), "old");
}

TEST_F(OutputFileTest, ASignalHandlerCanRemoveWhatIsUnfinished) {
  auto file = OutputFile::Create(Path("trace.json"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(Files(), 1);
  RemoveUnfinishedFiles();
  EXPECT_EQ(Files(), 0);
}

TEST_F(OutputFileTest, ACommittedFileIsNotUnfinished) {
  auto file = OutputFile::Create(Path("trace.json"));
  ASSERT_TRUE(file.has_value() && file->Commit().has_value());
  RemoveUnfinishedFiles();
  EXPECT_TRUE(fs::exists(Path("trace.json")));
}

TEST_F(OutputFileTest, ALinkKeepsPointingToItsTarget) {
  std::ofstream(Path("target.json")) << "old";
  fs::create_symlink(Path("target.json"), Path("link.json"));
  auto file = OutputFile::Create(Path("link.json"));
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write("new").has_value() && file->Commit().has_value());
  EXPECT_TRUE(fs::is_symlink(Path("link.json")));
  EXPECT_EQ(Read(Path("target.json")), "new");
}

TEST_F(OutputFileTest, ADeviceIsWrittenAndStaysADevice) {
  auto file = OutputFile::Create("/dev/null");
  ASSERT_TRUE(file.has_value()) << file.error();
  ASSERT_TRUE(file->Write("gone").has_value() && file->Commit().has_value());
  struct stat status = {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST_F(OutputFileTest, AFullDiskIsAnError) {
  auto file = OutputFile::Create("/dev/full");
  ASSERT_TRUE(file.has_value()) << file.error();
  const auto written = file->Write("x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error(), "cannot write '/dev/full': No space left on device");
}

TEST_F(OutputFileTest, AFolderThatDoesNotExistIsNamed) {
  const auto file = OutputFile::Create(Path("none/trace.json"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error(),
            "cannot create '" + Path("none/trace.json") + "': No such file or directory");
}

TEST_F(OutputFileTest, AFolderIsNotAFile) {
  const auto file = OutputFile::Create(folder_.string());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error(), testing::HasSubstr("Is a directory"));
  EXPECT_FALSE(OutputFile::Create(folder_.string() + "/").has_value());
  EXPECT_FALSE(OutputFile::Create("").has_value());
}

}  // namespace
}  // namespace stepcast::report
