#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/time.h"
#include "src/report/table.h"
#include "src/scenario/resolved.h"

// The parts of an answer, from which text, JSON, CSV and HTML pages are written.
namespace stepcast::report {

// Converts values to their format in JSON documents. Internal to this package.

// A JSON document for output. Keys are in the order in which they were added.
using Json = nlohmann::ordered_json;

// Returns a time in seconds, correctly rounded: 12.5 ms is 0.0125, not 0.012500000000000001.
double JsonSeconds(Time time);

// Returns a number, such as a mean over ranks. A number without a fraction is written as an
// integer.
Json JsonNumber(double number);

Json ToJson(const scenario::Resolved& resolved);
// Returns an object with these keys and values.
Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings);

// Returns the document as text that ends in a newline. Invalid UTF-8 is replaced.
std::string Text(const Json& document);
// Returns the document on one line, without a newline. Invalid UTF-8 is replaced.
std::string OneLine(const Json& document);
// Returns the value as a CSV field: a string without quotes, an empty field for null, otherwise
// the text of OneLine.
std::string Field(const Json& value);

// A value in two forms: text for readers and JSON for programs.
struct Cell {
  std::string text;
  Json value;

  Cell(std::string text, Json value) : text(std::move(text)), value(std::move(value)) {}
  // A word: the same in text and JSON.
  Cell(std::string word) : Cell(word, Json(word)) {}
  Cell(std::string_view word) : Cell(std::string(word)) {}
  Cell(const char* word) : Cell(std::string(word)) {}
  // A count: "1,234" in text, 1234 in JSON.
  template <std::integral T>
  Cell(T count) : Cell(Grouped(static_cast<std::int64_t>(count)), Json(count)) {}
  // A time: milliseconds in text, seconds in JSON.
  Cell(Time time) : Cell(Milliseconds(time), Json(JsonSeconds(time))) {}
  // A value with an empty text, for programs only.
  Cell(Json value) : Cell("", std::move(value)) {}
  Cell(double value) : Cell("", Json(value)) {}
  // An optional value. A missing value is "-" in text and null in JSON.
  template <typename T>
  Cell(const std::optional<T>& value) : Cell(value ? Cell(*value) : Cell("-", Json())) {}
};

// Returns a cell without separators: "1234" in text, 1234 in JSON.
template <std::integral T>
Cell Plain(T count) {
  return {std::to_string(count), Json(count)};
}
// Returns a cell for a size: in `unit` in text, in bytes in JSON.
inline Cell Amount(ByteUnit unit, Bytes bytes) { return {In(unit, bytes), Json(bytes.count())}; }
// Returns a cell for a number: rounded to `digits` decimals in text, exact in JSON.
inline Cell Fixed(double number, int digits) { return {Decimal(number, digits), Json(number)}; }
// Returns a cell for a fraction: in per cent in text, unchanged in JSON.
inline Cell InPerCent(double part, int digits = 1) {
  return {Decimal(kHundred * part, digits), Json(part)};
}
// Returns a cell for a word. An empty word is `none` in text and null in JSON.
inline Cell WordOr(const std::string& word, const char* none = "-") {
  return word.empty() ? Cell(none, Json()) : Cell(word);
}

struct AnswerColumn {
  std::string heading;  // heading in text and on pages
  std::string key;      // key in JSON and CSV; empty: the column is only for readers
  Align align = Align::kRight;
  bool spare = false;  // omitted first if a text table is too wide

  // Returns whether text and pages show the column. Text and pages omit columns that have a key but
  // no heading.
  bool for_people() const { return !heading.empty() || key.empty(); }
};

// Returns columns without headings, for programs only. `keys` are separated by blanks.
std::vector<AnswerColumn> Keys(std::string_view keys);

// A cell together with its column.
struct Figure {
  AnswerColumn column;
  Cell cell;
};

struct AnswerTable {
  std::vector<AnswerColumn> columns{};
  std::vector<std::vector<Cell>> rows{};  // one cell for each column

  void Add(std::vector<Cell> cells) { rows.push_back(std::move(cells)); }
  // Adds a row. The first row determines the columns of all rows.
  void AddFigures(std::vector<Figure> figures);

  // Returns a table with at most the first `most` rows.
  Table ToTable(std::size_t most = static_cast<std::size_t>(-1)) const;
  std::string Text() const { return ToTable().ToString(); }
  // Returns an array with one object per row: [{KEY: VALUE, ...}, ...].
  Json ToJson() const;
  // Returns CSV: a heading line with the keys, followed by the rows.
  std::string Csv() const;
};

// The output of `stepcast list`: a table of names with their values.
struct Listing {
  std::string name;  // "models"
  std::vector<AnswerColumn> columns;
  std::vector<std::vector<Cell>> rows{};
  std::string footer{};  // a sentence below the table; may be empty

  std::string Text() const;
  // Returns a document such as {"models": [{"name": ..., "parameters": ...}, ...]}.
  std::string ToJson() const;
};

// Returns the table as Markdown.
std::string Markdown(const Table& table);

}  // namespace stepcast::report
