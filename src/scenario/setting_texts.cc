#include "src/scenario/setting_texts.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

// Returns the cells of a table's row: "| a | b |". A bar within a cell is written "\\|".
std::vector<std::string> CellsOf(std::string_view row) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row.substr(i, 2) == "\\|") {
      cell += row[++i];
    } else if (row[i] == '|') {
      cells.push_back(cell.substr(1, cell.size() - 2));
      cell.clear();
    } else {
      cell += row[i];
    }
  }
  return cells;
}

}  // namespace

SettingText SettingTextOf(std::string_view section, std::string_view key) {
  const std::string_view tables = SettingTables();
  const std::size_t begin = tables.find(fmt::format("settings of {}: begin", section));
  const std::size_t end = tables.find(fmt::format("settings of {}: end", section));
  const std::size_t row = tables.find(fmt::format("\n| `{}` | ", key), begin);
  if (row >= end) return {};
  const std::string_view from_row = tables.substr(row + 1);
  std::vector<std::string> cells = CellsOf(from_row.substr(0, from_row.find('\n')));
  return {std::move(cells[1]), std::move(cells.back())};
}

}  // namespace stepcast::scenario
