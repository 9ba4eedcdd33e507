#include "src/report/answer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::report {

double JsonSeconds(Time time) { return static_cast<double>(time.picoseconds()) / 1e12; }

Json JsonNumber(double number) {
  constexpr double kLastExactInteger = 9007199254740992.0;  // 2^53
  if (std::abs(number) <= kLastExactInteger && number == std::floor(number)) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

Json ToJson(const scenario::Resolved& resolved) {
  using scenario::Resolved;
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&resolved.value)) {
    Json object = Json::object();
    for (const auto& [key, element] : *mapping) object[key] = ToJson(element);
    return object;
  }
  if (const auto* sequence = std::get_if<Resolved::Sequence>(&resolved.value)) {
    Json array = Json::array();
    for (const Resolved& element : *sequence) array.push_back(ToJson(element));
    return array;
  }
  if (const auto* text = std::get_if<std::string>(&resolved.value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&resolved.value)) return *number;
  if (const auto* flag = std::get_if<bool>(&resolved.value)) return *flag;
  return nullptr;
}

Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings) {
  Json set = Json::object();
  for (const auto& [key, value] : settings) set[key] = value;
  return set;
}

std::string Text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string OneLine(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return OneLine(value);
}

std::vector<AnswerColumn> Keys(std::string_view keys) {
  std::vector<AnswerColumn> columns;
  while (!keys.empty()) {
    const std::size_t end = std::min(keys.find(' '), keys.size());
    columns.push_back({"", std::string(keys.substr(0, end))});
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
  return columns;
}

void AnswerTable::AddFigures(std::vector<Figure> figures) {
  const bool first = columns.empty();
  std::vector<Cell> cells;
  for (Figure& figure : figures) {
    if (first) columns.push_back(std::move(figure.column));
    cells.push_back(std::move(figure.cell));
  }
  Add(std::move(cells));
}

Table AnswerTable::ToTable(std::size_t most) const {
  std::vector<Column> shown;
  for (const AnswerColumn& column : columns) {
    if (column.for_people()) shown.push_back({column.heading, column.align, column.spare});
  }
  Table table(std::move(shown));
  for (std::size_t row = 0; row < std::min(most, rows.size()); ++row) {
    STEPCAST_CHECK(rows[row].size() == columns.size(), "a row must have one cell for each column");
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].for_people()) cells.push_back(rows[row][i].text);
    }
    table.AddRow(std::move(cells));
  }
  return table;
}

Json AnswerTable::ToJson() const {
  Json array = Json::array();
  for (const std::vector<Cell>& row : rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].key.empty()) object[columns[i].key] = row[i].value;
    }
    array.push_back(std::move(object));
  }
  return array;
}

std::string AnswerTable::Csv() const {
  std::vector<std::string> fields;
  for (const AnswerColumn& column : columns) {
    if (!column.key.empty()) fields.push_back(column.key);
  }
  std::string out = CsvRecord(fields);
  for (const std::vector<Cell>& row : rows) {
    fields.clear();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].key.empty()) fields.push_back(Field(row[i].value));
    }
    out += CsvRecord(fields);
  }
  return out;
}

std::string Listing::Text() const {
  return AnswerTable{columns, rows}.Text() + (footer.empty() ? "" : "\n" + footer + "\n");
}

std::string Listing::ToJson() const {
  return report::Text(Json{{name, AnswerTable{columns, rows}.ToJson()}});
}

std::string Markdown(const Table& table) {
  const auto line = [](const auto& cells, const auto& text) {
    std::string out = "|";
    for (const auto& cell : cells) out += text(cell);
    return out + "\n";
  };
  std::string out = line(table.columns(),
                         [](const Column& column) { return fmt::format(" {} |", column.heading); });
  out += line(table.columns(),
              [](const Column& column) { return column.align == Align::kLeft ? "---|" : "---:|"; });
  for (const std::vector<std::string>& row : table.rows()) {
    out += line(row, [](const std::string& cell) { return fmt::format(" {} |", cell); });
  }
  return out;
}

}  // namespace stepcast::report
