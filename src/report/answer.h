#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/report/json.h"
#include "src/report/table.h"

// Parts of an answer as values. Text, JSON, CSV and pages are printed from the same value.
namespace stepcast::report {

// A value in the form for people and in the form for programs.
struct Cell {
  std::string text;
  Json value;

  Cell(std::string text, Json value) : text(std::move(text)), value(std::move(value)) {}
  // The same in both forms.
  Cell(std::string word) : Cell(word, Json(word)) {}
  Cell(std::string_view word) : Cell(std::string(word)) {}
  Cell(const char* word) : Cell(std::string(word)) {}
  // "1,234" and 1234.
  template <std::integral T>
  Cell(T count) : Cell(Grouped(static_cast<std::int64_t>(count)), Json(count)) {}
  // Milliseconds and seconds.
  Cell(Time time) : Cell(Milliseconds(time), Json(JsonSeconds(time))) {}
  // Only for programs.
  Cell(Json value) : Cell("", std::move(value)) {}
  Cell(double value) : Cell("", Json(value)) {}
  // "-" and null without a value.
  template <typename T>
  Cell(const std::optional<T>& value) : Cell(value ? Cell(*value) : Cell("-", Json())) {}
};

// "1234" and 1234.
template <std::integral T>
Cell Plain(T count) {
  return {std::to_string(count), Json(count)};
}
// An amount in a unit, and in bytes.
inline Cell Amount(ByteUnit unit, Bytes bytes) { return {In(unit, bytes), Json(bytes.count())}; }
// With `digits` after the decimal point, and exactly.
inline Cell Fixed(double number, int digits) { return {Decimal(number, digits), Json(number)}; }
// A fraction in per cent, and as it is.
inline Cell InPerCent(double part, int digits = 1) {
  return {Decimal(kHundred * part, digits), Json(part)};
}
// A word that may be empty: then `none`, and null.
inline Cell WordOr(const std::string& word, const char* none = "-") {
  return word.empty() ? Cell(none, Json()) : Cell(word);
}

struct AnswerColumn {
  std::string heading;  // in text and on pages
  std::string key;      // in JSON and CSV; empty: the column is only for people
  Align align = Align::kRight;
  bool spare = false;  // Column::spare

  // Without a heading but with a key, the column is only for programs.
  bool for_people() const { return !heading.empty() || key.empty(); }
};

// A value with its column.
struct Figure {
  AnswerColumn column;
  Cell cell;
};

struct AnswerTable {
  std::vector<AnswerColumn> columns{};
  std::vector<std::vector<Cell>> rows{};  // one cell for each column

  void Add(std::vector<Cell> cells) { rows.push_back(std::move(cells)); }
  // The first row determines the columns; all rows have the same ones.
  void AddFigures(std::vector<Figure> figures);

  // The first `most` rows.
  Table ToTable(std::size_t most = static_cast<std::size_t>(-1)) const;
  std::string Text() const { return ToTable().ToString(); }
  // [{KEY: VALUE, ...}, ...]
  Json ToJson() const;
  // A heading line with the keys, then the rows.
  std::string Csv() const;
};

// The output of `stepcast list`: names with a few figures each.
struct Listing {
  std::string name;  // "models"
  std::vector<AnswerColumn> columns;
  std::vector<std::vector<Cell>> rows{};
  std::string footer{};  // a sentence below the text; may be empty

  std::string Text() const;
  // {"models": [{"name": ..., "parameters": ...}, ...]}
  std::string ToJson() const;
};

// A table as Markdown.
std::string Markdown(const Table& table);

}  // namespace stepcast::report
