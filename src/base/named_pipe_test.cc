#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

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

}  // namespace
}  // namespace stepcast
