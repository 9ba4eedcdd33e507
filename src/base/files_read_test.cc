
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/files.h"

namespace stepcast {
namespace {

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

}  // namespace
}  // namespace stepcast
