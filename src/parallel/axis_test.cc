#include "src/parallel/axis.h"

#include "gtest/gtest.h"

namespace stepcast::parallel {
namespace {

TEST(NameOf, AxesThatFactorOneHaveItsName) {
  EXPECT_EQ(NameOf(Axis::kTensor), "tensor");
  EXPECT_EQ(NameOf(Axis::kTensor | Axis::kPipeline), "tensor and pipeline");
  EXPECT_EQ(NameOf(kContext), "context");
  EXPECT_EQ(NameOf(Axis::kContextInner), "context inner");
  EXPECT_EQ(NameOf(kContext | Axis::kTensor), "tensor and context");
  EXPECT_EQ(NameOf(kExpert), "expert");
  EXPECT_EQ(NameOf(Axis::kExpertOuter), "expert outer");
  EXPECT_EQ(NameOf(kExpert | Axis::kExpertTensor), "expert tensor and expert");
  EXPECT_EQ(NameOf(Axis::kExpertInner | Axis::kExpertTensor), "expert tensor and expert inner");
  EXPECT_EQ(NameOf(kExpertAxes), "expert tensor and expert and expert data");
  EXPECT_EQ(NameOf(AxisSet()), "");
}

}  // namespace
}  // namespace stepcast::parallel
