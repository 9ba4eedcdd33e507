#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::report {

// Returns one record of a CSV file (RFC 4180), which ends in CR LF. Fields with a comma, a quote or
// a line break are in double quotes, and quotes inside them are doubled. Text that a spreadsheet
// would read as a formula gets a leading single quote: text that is not a number and begins with =
// + - @, tab or CR (OWASP, CSV injection).
std::string CsvRecord(const std::vector<std::string>& fields);

// Wraps text to the terminal's width. Widths are in characters (Unicode code points).

// Returns the width of text lines: 80, or the width passed to SetTextWidth. The width applies to
// the process and must be set before commands run.
std::size_t TextWidth();
void SetTextWidth(std::size_t width);

// Returns the lines of a text, without their line breaks.
std::vector<std::string_view> LinesOf(std::string_view text);

std::size_t WidthOf(std::string_view text);
std::size_t LongestWord(std::string_view text);
// Returns the width of the longest piece that WrapWords does not break.
std::size_t LongestPiece(std::string_view text);

// How WrapWords treats a path that is wider than the line. kBroken, for table cells: breaks the
// path like any long word. kWhole, for sentences: writes the path on a separate line, which may be
// too wide, so that users can copy it.
enum class LongPaths { kBroken, kWhole };

// Breaks a text into lines of at most `width` characters. The result has at least one line. A word
// that is longer than a line is broken, if possible after one of the characters "/_.,=".
std::vector<std::string> WrapWords(std::string_view text, std::size_t width,
                                   LongPaths paths = LongPaths::kBroken);

// Breaks long lines of a text between words. Continuation lines are indented to the words after a
// label ("plan fsdp2, ..."), or else like the line itself. Commands (indented lines that begin with
// a program's name) continue with a backslash before an option.
std::string Wrapped(std::string_view text, std::size_t width = TextWidth());

// Joins the lines of each paragraph of a text, then wraps the paragraphs like Wrapped. An indented
// line begins a new paragraph, unless it is indented to the words after the label of the previous
// line.
std::string Reflowed(std::string_view text, std::size_t width = TextWidth());

// Tables as plain text: aligned columns, a heading line, and units in the headings.

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
  bool spare = false;  // omitted first if the table is too wide
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Adds a row, which must have one cell for each column.
  void AddRow(std::vector<std::string> cells);
  // Adds a horizontal line, usually above sums.
  void AddRule();

  // Returns heading, rule and rows. Columns are two spaces apart; lines have no trailing blanks and
  // end in a newline. No line is wider than `width` characters (Unicode code points). If a table is
  // too wide, these steps make it narrower, as far as needed:
  //   1. Headings are broken into several lines.
  //   2. Columns with equal cells in all rows are removed and written once above the rows.
  //   3. Text is broken between words.
  //   4. Columns are omitted and listed below the table: first spare columns, then other numbers,
  //     then text, each starting with the last column. The first column and one other column
  //     remain.
  std::string ToString(std::size_t width = TextWidth()) const;

  const std::vector<Column>& columns() const { return columns_; }
  // Returns the rows in order. A row without cells is a horizontal line.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Formats numbers for text output. These functions use one unit for a complete column, unlike
// FormatTime and FormatBytes (base/quantity.h).

// The factor that converts a fraction to per cent.
constexpr double kHundred = 100;

// Returns a text such as "8,030,261,248".
std::string Grouped(std::int64_t number);

// Returns a text such as "1,234.57", rounded to `digits` digits after the decimal point. Never
// "-0".
std::string Decimal(double number, int digits);

// Returns a number with a sign, such as "+1.50". Zero has no sign.
std::string Signed(double number, int digits);

// Returns a time in milliseconds with three digits after the decimal point, or with more digits if
// a nonzero time would appear as zero.
std::string Milliseconds(Time time);

// Returns `change` in per cent of `of`, with one digit after the decimal point, such as "+12.3".
// Returns "-" if `of` is zero, and ">1,000" for large changes.
std::string ChangeText(double change, double of);

// A binary unit of bytes, for the heading of a column.
struct ByteUnit {
  const char* name;  // "GiB"
  std::int64_t bytes;
};
// Returns the largest of B, KiB, MiB and GiB in which the column's largest value is at least 1.
ByteUnit UnitFor(double largest);
inline ByteUnit UnitFor(Bytes largest) { return UnitFor(static_cast<double>(largest.count())); }

// Returns the size in the given unit, such as "14.96", with two digits after the decimal point
// (bytes: none). Returns "<0.01" if a nonzero size would appear as zero.
std::string In(ByteUnit unit, double bytes);
inline std::string In(ByteUnit unit, Bytes bytes) {
  return In(unit, static_cast<double>(bytes.count()));
}

// Returns a size in the given unit, such as "-<0.01". The size may be negative.
std::string SignedIn(ByteUnit unit, Bytes bytes);

// Returns a fraction in per cent with one digit after the decimal point: "12.3" or, with a sign,
// "+12.3". Used in tables of accuracy.
std::string PerCent(double part);
std::string SignedPerCent(double part);

// Returns `part` in per cent of `whole`, with one digit after the decimal point. Returns "-" if
// `whole` is zero.
std::string Percent(Time part, Time whole);

// The properties of the terminal on which a drawing is shown.
struct TerminalStyle {
  int width = 80;       // columns of the terminal
  bool colour = false;  // colors by escape sequences, in addition to letters
};

}  // namespace stepcast::report
