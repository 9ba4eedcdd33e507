#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "src/lowering/layouts.h"

namespace stepcast::lowering {
namespace {

TEST(BalancedPartition, SharesACellEvenly) {
  EXPECT_EQ(BalancedPartition(std::vector<Cell>{{0, 0, 9}}, 3),
            (std::vector<std::vector<std::int64_t>>{{3, 3, 3}}));
  EXPECT_EQ(BalancedPartition(std::vector<Cell>{{0, 0, 1}, {0, 1, 1}}, 2),
            (std::vector<std::vector<std::int64_t>>{{1, 0}, {0, 1}}));
}

RC_GTEST_PROP(BalancedPartition, NoRankGetsMoreThanItsPartOfARowOrColumn, ()) {
  const int ranks = *rc::gen::inRange(1, 9);
  const int rows = *rc::gen::inRange(1, 7), columns = *rc::gen::inRange(1, 7);
  std::vector<Cell> cells;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      if (!*rc::gen::arbitrary<bool>()) continue;
      cells.push_back({row, column, *rc::gen::inRange<std::int64_t>(0, 40)});
    }
  }
  const auto shares = BalancedPartition(cells, ranks);
  RC_ASSERT(shares.size() == cells.size());
  std::map<int, std::vector<std::int64_t>> of_row, of_column;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    RC_ASSERT(static_cast<int>(shares[c].size()) == ranks);
    RC_ASSERT(std::accumulate(shares[c].begin(), shares[c].end(), std::int64_t{0}) ==
              cells[c].elements);
    auto& row = of_row[cells[c].row];
    auto& column = of_column[cells[c].column];
    row.resize(ranks);
    column.resize(ranks);
    for (int r = 0; r < ranks; ++r) {
      RC_ASSERT(shares[c][r] >= 0);
      row[r] += shares[c][r];
      column[r] += shares[c][r];
    }
  }
  for (const auto* side : {&of_row, &of_column}) {
    for (const auto& [key, parts] : *side) {
      const std::int64_t all = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
      for (const std::int64_t part : parts) RC_ASSERT(part <= (all + ranks - 1) / ranks);
    }
  }
}

}  // namespace
}  // namespace stepcast::lowering
