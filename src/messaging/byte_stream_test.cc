#include "src/messaging/byte_stream.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::messaging {
namespace {

TEST(ByteStream, SmallNumbersAreOneByte) {
  ByteWriter writer;
  writer.Number(127);
  writer.Signed(-64);
  EXPECT_EQ(writer.Take().size(), 2u);
}

TEST(ByteStream, TheWidestNumbersComeBack) {
  ByteWriter writer;
  writer.Number(std::numeric_limits<std::uint64_t>::max());
  writer.Signed(std::numeric_limits<std::int64_t>::min());
  writer.Signed(std::numeric_limits<std::int64_t>::max());
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Number(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(reader.Signed(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reader.Signed(), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.bad());
}

TEST(ByteStream, WhatIsNotThereIsZeroAndBad) {
  ByteReader reader(
      "\x05"
      "ab");
  EXPECT_EQ(reader.Text(), "");
  EXPECT_TRUE(reader.bad());
}

TEST(ByteStream, ACountIsNeverMoreThanTheBytesLeft) {
  ByteWriter writer;
  writer.Number(std::uint64_t{1} << 60);
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Count(), 0u);
  EXPECT_TRUE(reader.bad());
}

RC_GTEST_PROP(ByteStream, ComesBack,
              (const std::vector<std::int64_t>& numbers, const std::string& text)) {
  ByteWriter writer;
  for (const std::int64_t number : numbers) writer.Signed(number);
  writer.Text(text);
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  for (const std::int64_t number : numbers) RC_ASSERT(reader.Signed() == number);
  RC_ASSERT(reader.Text() == text);
  RC_ASSERT(reader.at_end() && !reader.bad());
}

}  // namespace
}  // namespace stepcast::messaging
