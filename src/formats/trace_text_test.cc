#include "src/formats/trace_text.h"

#include <zlib.h>

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace stepcast::formats {
namespace {

std::string Path(const char* name) { return testing::TempDir() + "/" + name; }

void WritePlain(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string Packed(const std::string& path, const std::string& text) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  EXPECT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  ::gzclose(file);
  std::ifstream packed(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(packed), std::istreambuf_iterator<char>()};
}

void ExpectFault(const std::string& path, const char* code, std::size_t largest = kLargestTrace) {
  Diagnostics faults;
  EXPECT_FALSE(ReadTrace(path, faults, largest).has_value());
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].code, code);
}

TEST(ReadTrace, ReadsPlainAndPackedFiles) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i * 7919) + "\n";
  Diagnostics faults;
  WritePlain(Path("plain.json"), text);
  EXPECT_EQ(ReadTrace(Path("plain.json"), faults), text);
  EXPECT_LT(Packed(Path("packed.json.gz"), text).size(), text.size());
  EXPECT_EQ(ReadTrace(Path("packed.json.gz"), faults), text);
  EXPECT_TRUE(faults.empty());
}

TEST(ReadTrace, SaysWhatIsWrong) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string packed = Packed(Path("packed.json.gz"), text);
  WritePlain(Path("cut.json.gz"), packed.substr(0, packed.size() / 2));
  ExpectFault(Path("cut.json.gz"), "file.bad-compression");
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(~damaged[packed.size() / 2]);
  WritePlain(Path("damaged.json.gz"), damaged);
  ExpectFault(Path("damaged.json.gz"), "file.bad-compression");
  WritePlain(Path("empty.json"), "");
  ExpectFault(Path("empty.json"), "file.empty");
  ExpectFault(Path("none.json"), "file.not-found");
  ExpectFault("", "file.not-found");
  ExpectFault(testing::TempDir(), "file.not-a-file");
  // A small file that unpacks to more than is taken.
  Packed(Path("bomb.json.gz"), std::string(1 << 22, ' '));
  ExpectFault(Path("bomb.json.gz"), "file.too-large", 1 << 20);
}

}  // namespace
}  // namespace stepcast::formats
