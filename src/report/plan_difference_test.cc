#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "src/report/plan_rows.h"

namespace stepcast::report {
namespace {

using scenario::Resolved;
using Mapping = Resolved::Mapping;

Resolved Number(std::int64_t value) { return {value}; }

TEST(DifferentSettings, NamesKeysByTheirPaths) {
  const Resolved a{Mapping{{"name", Resolved{std::string("x")}},
                           {"training", Resolved{Mapping{{"mbs", Number(1)}, {"dp", Number(2)}}}},
                           {"only_a", Resolved{true}}}};
  const Resolved b{Mapping{{"name", Resolved{std::string("x")}},
                           {"training", Resolved{Mapping{{"dp", Number(4)}, {"mbs", Number(1)}}}},
                           {"list", Resolved{Resolved::Sequence{Number(1), Number(2)}}}}};
  const auto pairs = DifferentSettings(a, b);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].key, "training.dp");
  EXPECT_EQ(pairs[0].a, "2");
  EXPECT_EQ(pairs[0].b, "4");
  EXPECT_EQ(pairs[1].key, "only_a");
  EXPECT_EQ(pairs[1].b, "");
  EXPECT_EQ(pairs[2].key, "list");
  EXPECT_EQ(pairs[2].b, "[1,2]");
  EXPECT_TRUE(DifferentSettings(a, a).empty());
}

TEST(PairCollectives, MatchesKindAndGroup) {
  const auto summary = [](CollectiveKind kind, const char* group) {
    forecast::CollectiveSummary made;
    made.collective = kind;
    made.group = group;
    return made;
  };
  forecast::Forecast a, b;
  a.collectives = {summary(CollectiveKind::kAllGather, "data"),
                   summary(CollectiveKind::kAllReduce, "replica")};
  b.collectives = {summary(CollectiveKind::kAllReduce, "data"),
                   summary(CollectiveKind::kAllReduce, "replica")};
  const auto pairs = PairCollectives(a, b);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].b, nullptr);
  EXPECT_EQ(pairs[1].a, &a.collectives[1]);
  EXPECT_EQ(pairs[1].b, &b.collectives[1]);
  EXPECT_EQ(pairs[2].a, nullptr);
  EXPECT_EQ(pairs[2].any().group, "data");
}

}  // namespace
}  // namespace stepcast::report
