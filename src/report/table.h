#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::report {

// One record of a CSV file as RFC 4180 has it: fields that hold a comma, a quote or a line break
// stand in double quotes, quotes in them doubled; the line ends in CR LF. Text that a spreadsheet
// would take for a formula, because it begins with one of = + - @, a tab or CR and is no number,
// has a single quote before it, by which spreadsheets tell text (OWASP, CSV injection).
std::string CsvRecord(const std::vector<std::string>& fields);

// Text for people in lines that are not wider than the terminal. Widths count characters (code
// points of UTF-8).

// How wide the lines of text for people may be: 80, unless a terminal is there whose width is set.
// One for the process; set before commands run.
std::size_t TextWidth();
void SetTextWidth(std::size_t width);

std::size_t WidthOf(std::string_view text);
std::size_t LongestWord(std::string_view text);
// The same of the pieces into which WrapWords breaks words.
std::size_t LongestPiece(std::string_view text);

// Whether a path that is wider than the line is broken. A table's cell breaks it, as it does any
// long word. A sentence gives it a line of its own, which may be too wide, so that the path can be
// copied.
enum class LongPaths { kBroken, kWhole };

// The words of a text in lines of at most `width`, at least one line. A word that is longer than
// that is broken, where it can be behind one of "/_.,=".
std::vector<std::string> WrapWords(std::string_view text, std::size_t width,
                                   LongPaths paths = LongPaths::kBroken);

// The text, with lines that are too wide broken at word boundaries. The rest of such a line begins
// where its words behind a label do ("plan       fsdp2, ..."), else where it does itself. Commands
// to paste, which are lines that begin with blanks and the name of a program, go on behind a
// backslash, before an option.
std::string Wrapped(std::string_view text, std::size_t width = TextWidth());

// The same of pages whose source is broken into lines already: the lines of a paragraph are joined
// before. Those that are indented begin one, unless they are indented as the words behind the
// label above them are.
std::string Reflowed(std::string_view text, std::size_t width = TextWidth());

// Tables for people: aligned columns of plain text, one heading line, units in the headings.

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string heading;
  Align align = Align::kRight;
  bool spare = false;  // left out where the table is wider than the line, unless AllColumns
};

// Whether tables keep their spare columns and go on in further blocks. One for the process; set
// before commands run.
bool& AllColumns();

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // One cell for each column.
  void AddRow(std::vector<std::string> cells);
  // A line across the table: sums stand below it.
  void AddRule();

  // Heading, rule, rows. Columns are two spaces apart; no line ends in a blank; every line ends
  // in a newline. No line is wider than `width` characters (code points of UTF-8): of a table that
  // would be, as far as it takes, headings stand in several lines, columns with the same cell in
  // all rows are said once above the rows, text is broken at word boundaries, spare columns are
  // left out, the last ones first, and named below; columns that still find no place stand in
  // further blocks, whose rows begin with the first columns, or with numbers where these do not
  // tell rows apart.
  std::string ToString(std::size_t width = TextWidth()) const;

  const std::vector<Column>& columns() const { return columns_; }
  // A row without cells is a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Numbers as the text pages print them. Where a column needs one unit for all of its rows,
// FormatTime and FormatBytes (base/quantity.h), which choose a unit for each value, do not fit.

// A part of a whole times this is in per cent.
constexpr double kHundred = 100;

// "8,030,261,248"
std::string Grouped(std::int64_t number);

// "1,234.57" with `digits` after the point, rounded to nearest; what rounds to zero has no sign.
std::string Decimal(double number, int digits);

// The same with its sign, "+1.50"; what rounds to zero has none.
std::string Signed(double number, int digits);

// Times in milliseconds with three digits after the point; a time that would print as zero and is
// not gets as many digits as its first significant one needs.
std::string Milliseconds(Time time);

// A difference of times in milliseconds as Milliseconds prints it, with a minus where it is
// negative.
std::string SignedMilliseconds(Time time);

// A binary unit of bytes that a column has in its heading.
struct ByteUnit {
  const char* name;  // "GiB"
  std::int64_t bytes;
};
// The largest of B, KiB, MiB and GiB in which the largest amount of a column is at least 1.
ByteUnit UnitFor(double largest);
inline ByteUnit UnitFor(Bytes largest) { return UnitFor(static_cast<double>(largest.count())); }

// "14.96": in the unit given, two digits after the point, none for whole bytes. "<0.01" for an
// amount that would print as zero and is not.
std::string In(ByteUnit unit, double bytes);
inline std::string In(ByteUnit unit, Bytes bytes) {
  return In(unit, static_cast<double>(bytes.count()));
}

// A part of a whole in per cent with one digit after the point, "12.3" and with its sign "+12.3",
// as the tables of accuracy print it.
std::string PerCent(double part);
std::string SignedPerCent(double part);

// The part of a whole in per cent, one digit after the point; "-" of a whole of zero.
std::string Percent(Time part, Time whole);

// How to draw for a terminal.
struct TerminalStyle {
  int width = 80;       // columns of the terminal
  bool colour = false;  // by escape sequences; letters say the same
};

}  // namespace stepcast::report
