#include "src/nccl/version.h"

#include "gtest/gtest.h"

namespace stepcast::nccl {
namespace {

TEST(VersionTest, NamesAreRead) {
  for (Version version : kVersions) EXPECT_EQ(VersionFromName(Name(version)), version);
}

TEST(VersionTest, AReleaseInBetweenBehavesAsTheOneBefore) {
  EXPECT_EQ(VersionFromName("2.27.3"), Version::kV227);
  EXPECT_EQ(VersionFromName("2.26"), Version::kV223);
  EXPECT_EQ(VersionFromName("2.29.2"), Version::kV228);
  EXPECT_EQ(VersionFromName("2.31"), Version::kV230);
}

TEST(VersionTest, OtherTextIsNoVersion) {
  for (const char* text :
       {"", "2", "2.", "2.27.", "2.27.3.1", "3.1", "2.20", "v2.27", "2.27x", "2.-3"}) {
    EXPECT_EQ(VersionFromName(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace stepcast::nccl
