#include "src/forecast/intervals.h"

#include <gtest/gtest.h>

namespace stepcast::forecast {
namespace {

Interval Span(std::int64_t start, std::int64_t end) {
  return {Picoseconds(start), Picoseconds(end)};
}

TEST(Intervals, UnionSortsJoinsAndDropsEmptyOnes) {
  // 5-7 and 6-9 overlap, 9-10 touches them, 3-3 is empty.
  EXPECT_EQ(Union({Span(6, 9), Span(3, 3), Span(0, 2), Span(5, 7), Span(9, 10)}),
            (Intervals{Span(0, 2), Span(5, 10)}));
}

TEST(Intervals, IntersectionKeepsWhatIsInBoth) {
  const Intervals a{Span(0, 4), Span(6, 10)};
  const Intervals b{Span(2, 7), Span(9, 12)};
  EXPECT_EQ(Intersection(a, b), (Intervals{Span(2, 4), Span(6, 7), Span(9, 10)}));
}

TEST(Intervals, DifferenceCutsHoles) {
  const Intervals a{Span(0, 10), Span(12, 14)};
  const Intervals b{Span(-1, 1), Span(3, 4), Span(9, 13)};
  EXPECT_EQ(Difference(a, b), (Intervals{Span(1, 3), Span(4, 9), Span(13, 14)}));
}

TEST(Intervals, LengthOfDifferenceAndIntersectionAddUp) {
  const Intervals a{Span(0, 10), Span(12, 14), Span(20, 30)};
  const Intervals b{Span(-1, 1), Span(3, 4), Span(9, 13), Span(25, 40)};
  EXPECT_EQ(Length(Difference(a, b)) + Length(Intersection(a, b)), Length(a));
}

}  // namespace
}  // namespace stepcast::forecast
