#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Tables for people: aligned columns of plain text, one heading line, units in the headings.
namespace stepcast::report {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // One cell for each column.
  void AddRow(std::vector<std::string> cells);
  // A line across the table: sums stand below it.
  void AddRule();

  // Heading, rule, rows. Columns are two spaces apart; no line ends in a blank; every line ends
  // in a newline. Width counts characters (code points of UTF-8), not bytes.
  std::string ToString() const;

  const std::vector<Column>& columns() const { return columns_; }
  // A row without cells is a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepcast::report
