#include "src/report/table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"

namespace stepcast::report {
namespace {

std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a continuation byte
  }));
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  STEPCAST_CHECK(!columns_.empty(), "a table has columns");
}

void Table::AddRow(std::vector<std::string> cells) {
  STEPCAST_CHECK(cells.size() == columns_.size(), "a row has one cell for each column");
  rows_.push_back(std::move(cells));
}

void Table::AddRule() { rows_.emplace_back(); }

std::string Table::ToString() const {
  std::vector<std::size_t> widths;
  std::vector<std::string> headings;
  for (const Column& column : columns_) {
    widths.push_back(Width(column.heading));
    headings.push_back(column.heading);
  }
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::size_t total = 2 * (widths.size() - 1);
  for (std::size_t width : widths) total += width;

  std::string out;
  const auto rule = [&] { out.append(total, '-').push_back('\n'); };
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out.append(2, ' ');
      const std::size_t blanks = widths[i] - Width(cells[i]);
      if (columns_[i].align == Align::kRight) out.append(blanks, ' ');
      out.append(cells[i]);
      if (columns_[i].align == Align::kLeft) out.append(blanks, ' ');
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out.push_back('\n');
  };
  line(headings);
  rule();
  for (const std::vector<std::string>& row : rows_) {
    if (row.empty()) {
      rule();
    } else {
      line(row);
    }
  }
  return out;
}

}  // namespace stepcast::report
