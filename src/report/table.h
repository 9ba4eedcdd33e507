#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::report {

// One record of a CSV file (RFC 4180). Fields with a comma, a quote or a line break are in double
// quotes, with quotes doubled; the line ends in CR LF. Text that a spreadsheet would take for a
// formula gets a single quote in front (OWASP, CSV injection). That is text that is no number and
// begins with = + - @, tab or CR.
std::string CsvRecord(const std::vector<std::string>& fields);

// Wraps text for people to the terminal's width. Widths count characters (Unicode code points).

// The width of text lines: 80, or the terminal's width if set. One value per process; set it before
// commands run.
std::size_t TextWidth();
void SetTextWidth(std::size_t width);

std::size_t WidthOf(std::string_view text);
std::size_t LongestWord(std::string_view text);
// The longest piece into which WrapWords may break the text.
std::size_t LongestPiece(std::string_view text);

// What to do with a path wider than the line. A table's cell breaks it, like any long word. A
// sentence puts it on its own line, which may be too wide, so that it can be copied.
enum class LongPaths { kBroken, kWhole };

// The words of a text in lines of at most `width`; at least one line. A longer word is broken, if
// possible after one of "/_.,=".
std::vector<std::string> WrapWords(std::string_view text, std::size_t width,
                                   LongPaths paths = LongPaths::kBroken);

// The text with long lines broken between words. Continuation lines are indented to the words after
// a label ("plan       fsdp2, ..."), or like the line itself. Commands, which are indented lines
// that begin with a program's name, are continued with a backslash before an option.
std::string Wrapped(std::string_view text, std::size_t width = TextWidth());

// The same for text whose source is already broken into lines: the lines of a paragraph are joined
// first. An indented line begins a new paragraph, unless it is indented like the words after the
// label above it.
std::string Reflowed(std::string_view text, std::size_t width = TextWidth());

// Tables for people: aligned columns of plain text, a heading line, and units in the headings.

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
  bool spare = false;  // left out first if the table is too wide
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // One cell for each column.
  void AddRow(std::vector<std::string> cells);
  // Adds a line across the table, above sums.
  void AddRule();

  // Heading, rule and rows. Columns are two spaces apart; lines have no trailing blanks and end in
  // a newline. No line is wider than `width` characters (Unicode code points). If a table is too
  // wide, these steps are taken as needed:
  // 1. Headings take several lines.
  // 2. Columns with equal cells in all rows are stated once above the rows.
  // 3. Text is broken between words.
  // 4. Columns are left out and named below: spare ones, then other figures, then text, last ones
  //    first. The first column and one other stay.
  std::string ToString(std::size_t width = TextWidth()) const;

  const std::vector<Column>& columns() const { return columns_; }
  // A row without cells is a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Numbers as in the text output. FormatTime and FormatBytes (base/quantity.h) choose a unit for
// each value; these functions use one unit for a whole column.

// Factor from a fraction to per cent.
constexpr double kHundred = 100;

// "8,030,261,248"
std::string Grouped(std::int64_t number);

// "1,234.57" with `digits` after the decimal point, rounded to nearest; never "-0".
std::string Decimal(double number, int digits);

// The same with its sign, "+1.50"; zero has no sign.
std::string Signed(double number, int digits);

// Milliseconds with three digits after the decimal point. A nonzero time that would print as zero
// gets the digits up to its first significant one.
std::string Milliseconds(Time time);

// A change in per cent of what changes, with one digit after the decimal point: "+12.3". "-" if
// that is zero; ">1,000" for large changes.
std::string ChangeText(double change, double of);

// A binary unit of bytes in a column's heading.
struct ByteUnit {
  const char* name;  // "GiB"
  std::int64_t bytes;
};
// The largest of B, KiB, MiB and GiB in which a column's largest amount is at least 1.
ByteUnit UnitFor(double largest);
inline ByteUnit UnitFor(Bytes largest) { return UnitFor(static_cast<double>(largest.count())); }

// "14.96": in the given unit, two digits after the decimal point, none for bytes. "<0.01" for a
// nonzero amount that would print as zero.
std::string In(ByteUnit unit, double bytes);
inline std::string In(ByteUnit unit, Bytes bytes) {
  return In(unit, static_cast<double>(bytes.count()));
}

// The same with a minus before the amount: "-<0.01".
std::string SignedIn(ByteUnit unit, Bytes bytes);

// A fraction in per cent with one digit after the decimal point: "12.3", or with its sign "+12.3".
// For tables of accuracy.
std::string PerCent(double part);
std::string SignedPerCent(double part);

// `part` in per cent of `whole`, with one digit after the decimal point; "-" if `whole` is zero.
std::string Percent(Time part, Time whole);

// How to draw on a terminal.
struct TerminalStyle {
  int width = 80;       // columns of the terminal
  bool colour = false;  // with escape sequences, in addition to letters
};

}  // namespace stepcast::report
