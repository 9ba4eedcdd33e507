#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "src/report/step_figures.h"

namespace stepcast::report {
namespace {

TEST(JsonValuesTest, SecondsAreTheNearestDecimal) {
  EXPECT_EQ(Json(JsonSeconds(Microseconds(12'500))).dump(), "0.0125");
  EXPECT_EQ(Json(JsonSeconds(Picoseconds(1))).dump(), "1e-12");
  EXPECT_EQ(Json(JsonSeconds(Picoseconds(123'456'789'012))).dump(), "0.123456789012");
}

TEST(JsonValuesTest, WholeNumbersHaveNoFraction) {
  EXPECT_EQ(JsonNumber(26214400.0).dump(), "26214400");
  EXPECT_EQ(JsonNumber(0.0).dump(), "0");
  EXPECT_EQ(JsonNumber(1.5).dump(), "1.5");
  EXPECT_EQ(JsonNumber(1e300).dump(), "1e+300");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
}

TEST(JsonValuesTest, CategoriesStandInTheContractsOrder) {
  Json object = Json::object();
  AddCategories(object, {Bytes(1), Bytes(2), Bytes(3), Bytes(4), Bytes(5), Bytes(6)});
  EXPECT_EQ(object.dump(), R"({"parameters_bytes":1,"gradients_bytes":2,"optimizer_bytes":3,)"
                           R"("activations_bytes":4,"communication_bytes":5,"workspace_bytes":6})");
}

TEST(JsonValuesTest, ResolvedTreesKeepOrderAndKinds) {
  using scenario::Resolved;
  const Resolved tree{Resolved::Mapping{
      {"zebra", Resolved{std::int64_t{1}}},
      {"apple", Resolved{Resolved::Sequence{Resolved{true}, Resolved{std::string("25 MiB")},
                                            scenario::Nothing()}}},
      {"empty", Resolved{Resolved::Mapping{}}},
      {"none", Resolved{Resolved::Sequence{}}},
  }};
  EXPECT_EQ(ToJson(tree).dump(),
            R"({"zebra":1,"apple":[true,"25 MiB",null],"empty":{},"none":[]})");
}

TEST(JsonValuesTest, TextThatIsNotUtf8DoesNotBreakTheDocument) {
  EXPECT_EQ(Text(Json{{"name", "a\xff"}}), "{\n  \"name\": \"a\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace stepcast::report
