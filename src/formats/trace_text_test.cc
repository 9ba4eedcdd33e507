#include "src/formats/trace_text.h"

#include <zlib.h>

#include <fstream>
#include <iterator>

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

std::string Whole(const std::string& path, Diagnostics& faults,
                  std::size_t largest = kLargestTrace) {
  std::optional<TraceText> trace = TraceText::Open(path, faults, largest);
  std::string text;
  if (!trace) return text;
  for (std::string_view block; !(block = trace->Next()).empty();) text += block;
  EXPECT_TRUE(trace->Next().empty());
  return text;
}

void ExpectFault(const std::string& path, const char* code, std::size_t largest = kLargestTrace) {
  Diagnostics faults;
  Whole(path, faults, largest);
  ASSERT_EQ(faults.size(), 1u) << path;
  EXPECT_EQ(faults[0].code, code) << path;
}

std::string Numbers() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

TEST(TraceText, IsThatOfPlainAndPackedFiles) {
  const std::string text = Numbers();
  Diagnostics faults;
  WritePlain(Path("plain.json"), text);
  EXPECT_EQ(Whole(Path("plain.json"), faults), text);
  const std::string packed = Packed(Path("packed.json.gz"), text);
  EXPECT_LT(packed.size(), text.size());
  EXPECT_EQ(Whole(Path("packed.json.gz"), faults), text);
  // Two members, as from `cat a.gz b.gz`. Trailing data is ignored, as by gunzip.
  WritePlain(Path("two.json.gz"), packed + packed);
  EXPECT_EQ(Whole(Path("two.json.gz"), faults), text + text);
  WritePlain(Path("more.json.gz"), packed + "more");
  EXPECT_EQ(Whole(Path("more.json.gz"), faults), text);
  EXPECT_TRUE(faults.empty());
}

TEST(TraceText, SaysWhatIsWrong) {
  const std::string packed = Packed(Path("packed.json.gz"), Numbers());
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
  ExpectFault("/dev/zero", "file.not-a-file");
  // Small files that unpack to too much: in total, or relative to their size.
  Packed(Path("bomb.json.gz"), std::string(1 << 22, ' '));
  ExpectFault(Path("bomb.json.gz"), "file.too-large", 1 << 20);
  Packed(Path("bomb.json.gz"), std::string(2 * kFreelyUnpacked, ' '));
  ExpectFault(Path("bomb.json.gz"), "file.too-large");
}

}  // namespace
}  // namespace stepcast::formats
