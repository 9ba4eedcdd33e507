#include "tests/samples/samples.h"

#include <stdlib.h>

#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(Samples, AreFewUnlessAllAreAskedFor) {
  ::unsetenv("STEPCAST_SAMPLES");
  EXPECT_EQ(Samples(8, 20), 8);
  ::setenv("STEPCAST_SAMPLES", "few", 1);
  EXPECT_EQ(Samples(8, 20), 8);
  ::setenv("STEPCAST_SAMPLES", "all", 1);
  EXPECT_EQ(Samples(8, 20), 20);
  EXPECT_STREQ(Samples("--source torchtitan", ""), "");
}

}  // namespace
}  // namespace stepcast
