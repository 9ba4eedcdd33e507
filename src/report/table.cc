#include "src/report/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"

namespace stepcast::report {
namespace {

bool IsNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Whether a spreadsheet would evaluate the field.
bool IsFormula(std::string_view field) {
  return !field.empty() &&
         std::string_view("=+-@\t\r").find(field.front()) != std::string_view::npos &&
         !IsNumber(field);
}

}  // namespace

std::string CsvRecord(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out.push_back(',');
    const bool formula = IsFormula(fields[i]);
    if (!formula && fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      out.append(fields[i]);
      continue;
    }
    out.push_back('"');
    if (formula) out.push_back('\'');
    for (char c : fields[i]) {
      if (c == '"') out.push_back('"');
      out.push_back(c);
    }
    out.push_back('"');
  }
  out.append("\r\n");
  return out;
}

namespace {

// Inserts thousands separators into the digits before the decimal point.
std::string WithSeparators(std::string text) {
  const std::size_t first = text.front() == '-' ? 1 : 0;
  std::size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  for (std::size_t at = end; at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

bool RoundsToZero(double number, int digits) {
  return std::abs(number) < 0.5 * std::pow(10.0, -digits);
}

}  // namespace

std::string Grouped(std::int64_t number) { return WithSeparators(fmt::format("{}", number)); }

std::string Decimal(double number, int digits) {
  if (RoundsToZero(number, digits)) number = 0;  // without a sign
  return WithSeparators(fmt::format("{:.{}f}", number, digits));
}

std::string PerCent(double part) { return fmt::format("{:.1f}", 100 * part); }
std::string SignedPerCent(double part) { return fmt::format("{:+.1f}", 100 * part); }

std::string Signed(double number, int digits) {
  const std::string text = Decimal(number, digits);
  return number > 0 && !RoundsToZero(number, digits) ? "+" + text : text;
}

std::string Milliseconds(Time time) {
  constexpr int kMostDigits = 9;  // a picosecond
  const double number = static_cast<double>(time.picoseconds()) / 1e9;
  int digits = 3;
  while (number != 0 && digits < kMostDigits && std::abs(number) < 0.5 * std::pow(10.0, -digits)) {
    ++digits;
  }
  return Decimal(number, digits);
}

ByteUnit UnitFor(double largest) {
  for (const ByteUnit unit :
       {ByteUnit{"GiB", 1 << 30}, ByteUnit{"MiB", 1 << 20}, ByteUnit{"KiB", 1 << 10}}) {
    if (largest >= static_cast<double>(unit.bytes)) return unit;
  }
  return {"B", 1};
}

std::string In(ByteUnit unit, double bytes) {
  constexpr double kSmallest = 0.005;  // rounds to 0.01
  const double amount = bytes / static_cast<double>(unit.bytes);
  if (unit.bytes == 1) return Decimal(amount, 0);
  if (amount != 0 && std::abs(amount) < kSmallest) return amount > 0 ? "<0.01" : ">-0.01";
  return Decimal(amount, 2);
}

std::string SignedIn(ByteUnit unit, Bytes bytes) {
  return bytes < Bytes() ? "-" + In(unit, Bytes(-bytes.count())) : In(unit, bytes);
}

std::string ChangeText(double change, double of) {
  constexpr double kLarge = 1000;
  if (of == 0) return "-";
  const double per_cent = 100 * change / of;
  if (std::abs(per_cent) >= kLarge) return per_cent > 0 ? ">1,000" : "<-1,000";
  return Signed(per_cent, 1);
}

std::string OnColours(std::string_view letters, const std::vector<int>& colours) {
  std::string text;
  int now = -1;  // the color that is on
  for (std::size_t i = 0; i < colours.size(); ++i) {
    if (colours[i] != now) {
      now = colours[i];
      text += now < 0 ? std::string("\033[0m") : fmt::format("\033[30;48;5;{}m", now);
    }
    text += letters[i];
  }
  return now < 0 ? text : text + "\033[0m";
}

std::string Percent(Time part, Time whole) {
  if (whole == Time()) return "-";
  return Decimal(100.0 * (part / whole), 1);
}

namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t kGap = 2;  // between columns

// A column that is shown, with its width.
struct Shown {
  std::size_t column = 0;
  std::size_t width = 0;
};

std::size_t TotalOf(const std::vector<Shown>& shown) {
  std::size_t total = shown.empty() ? 0 : kGap * (shown.size() - 1);
  for (const Shown& one : shown) total += one.width;
  return total;
}

class Layout {
 public:
  Layout(std::vector<Column> columns, std::vector<Cells> rows, std::size_t width)
      : columns_(std::move(columns)), rows_(std::move(rows)), width_(width) {}

  std::string Text() const {
    std::vector<Shown> shown = All();
    if (TotalOf(shown) <= width_) return Block(shown);
    std::string above;
    for (const bool without_constants : {false, true}) {
      if (without_constants) above = TakeConstants(shown);
      for (Shown& one : shown) one.width = NarrowHeading(one.column);
      if (TotalOf(shown) <= width_) return above + Block(Widened(shown));
    }
    for (Shown& one : shown) one.width = std::min(one.width, Least(one.column));
    const std::string below = LeaveOut(shown);
    Clip(shown);
    return above + Block(Widened(shown)) + below;
  }

 private:
  std::vector<Shown> All() const {
    std::vector<Shown> shown;
    for (std::size_t i = 0; i < columns_.size(); ++i) shown.push_back({i, Natural(i)});
    return shown;
  }

  std::size_t WidestCell(std::size_t column) const {
    std::size_t widest = 0;
    for (const Cells& row : rows_) {
      if (!row.empty()) widest = std::max(widest, WidthOf(row[column]));
    }
    return widest;
  }
  std::size_t Natural(std::size_t column) const {
    return std::max(WidthOf(columns_[column].heading), WidestCell(column));
  }
  // The width with the heading in as many lines as possible.
  std::size_t NarrowHeading(std::size_t column) const {
    return std::max(LongestPiece(columns_[column].heading), WidestCell(column));
  }
  // The width with the text of cells in several lines too. Figures are never broken.
  std::size_t Least(std::size_t column) const {
    constexpr std::size_t kText = 20, kLongestWord = 32;
    if (columns_[column].align == Align::kRight) return NarrowHeading(column);
    std::size_t word = LongestPiece(columns_[column].heading);
    for (const Cells& row : rows_) {
      if (!row.empty()) word = std::max(word, LongestWord(row[column]));
    }
    return std::max(kText, std::min(word, kLongestWord));
  }

  // Removes columns with equal cells in all rows, except the first column. Returns a sentence that
  // states them.
  std::string TakeConstants(std::vector<Shown>& shown) const {
    std::vector<std::string> said;
    std::vector<Shown> left;
    for (const Shown& one : shown) {
      std::set<std::string> cells;
      std::size_t rows = 0;
      for (const Cells& row : rows_) {
        if (row.empty()) continue;
        cells.insert(row[one.column]);
        ++rows;
      }
      if (one.column == 0 || rows < 2 || cells.size() > 1) {
        left.push_back(one);
      } else if (!cells.begin()->empty()) {
        said.push_back(fmt::format("{} {}", columns_[one.column].heading, *cells.begin()));
      }
    }
    if (left.size() < 2) return "";
    shown = std::move(left);
    return said.empty() ? ""
                        : Wrapped(fmt::format("all rows: {}\n", fmt::join(said, ", ")), width_);
  }

  // Removes columns until the others fit: spare ones, then other figures, then text, last ones
  // first. The first column and one other stay. Returns a sentence that names them.
  std::string LeaveOut(std::vector<Shown>& shown) const {
    std::vector<std::size_t> taken;
    const auto spare = [](const Column& column) { return column.spare; };
    const auto figure = [](const Column& column) { return column.align == Align::kRight; };
    const auto any = [](const Column&) { return true; };
    const auto take = [&](const auto& may_go) {
      for (std::size_t i = shown.size(); i-- > 1 && shown.size() > 2 && TotalOf(shown) > width_;) {
        const std::size_t column = shown[i].column;
        // A column without a heading refers to notes below.
        if (!may_go(columns_[column]) || columns_[column].heading.empty()) continue;
        taken.push_back(column);
        shown.erase(shown.begin() + static_cast<std::ptrdiff_t>(i));
      }
    };
    take(spare);
    take(figure);
    take(any);
    if (taken.empty()) return "";
    std::sort(taken.begin(), taken.end());
    std::vector<std::string> headings;
    for (const std::size_t column : taken) headings.push_back(columns_[column].heading);
    return Wrapped(
        fmt::format("columns not shown: {} (--columns shows all)\n", fmt::join(headings, ", ")),
        width_);
  }

  // Breaks what is left into the width.
  void Clip(std::vector<Shown>& shown) const {
    for (std::size_t i = shown.size(); i-- > 0 && TotalOf(shown) > width_;) {
      const std::size_t others = TotalOf(shown) - shown[i].width;
      const std::size_t least = std::max<std::size_t>(1, width_ / (2 * shown.size()));
      shown[i].width = std::min(shown[i].width, std::max(least, width_ - std::min(width_, others)));
    }
  }

  // Distributes the remaining width, first columns first.
  std::vector<Shown> Widened(std::vector<Shown> shown) const {
    std::size_t room = width_ - TotalOf(shown);
    // First to figures and headings, then to text.
    for (const bool text : {false, true}) {
      for (Shown& one : shown) {
        const bool is_text = WidestCell(one.column) > one.width;
        if (is_text != text) continue;
        const std::size_t natural = Natural(one.column);
        const std::size_t more = natural > one.width ? natural - one.width : 0;
        if (!text && more > room) continue;
        one.width += std::min(more, room);
        room -= std::min(more, room);
      }
    }
    return shown;
  }

  std::string Block(const std::vector<Shown>& shown) const {
    Cells headings;
    for (const Column& column : columns_) headings.push_back(column.heading);
    const std::string rule = std::string(TotalOf(shown), '-') + '\n';
    std::string out = Row(shown, headings, true) + rule;
    for (const Cells& row : rows_) out += row.empty() ? rule : Row(shown, row, false);
    return out;
  }

  // A row in as many lines as its cells need. Headings are aligned at the bottom, cells at the top.
  std::string Row(const std::vector<Shown>& shown, const Cells& cells, bool heading) const {
    std::vector<std::vector<std::string>> wrapped;
    std::size_t lines = 1;
    for (const Shown& one : shown) {
      wrapped.push_back(WrapWords(cells[one.column], std::max<std::size_t>(1, one.width)));
      lines = std::max(lines, wrapped.back().size());
    }
    std::string out;
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t i = 0; i < shown.size(); ++i) {
        if (i > 0) out.append(kGap, ' ');
        const std::size_t skipped = heading ? lines - wrapped[i].size() : 0;
        const bool there = line >= skipped && line - skipped < wrapped[i].size();
        const std::string cell = there ? wrapped[i][line - skipped] : "";
        const std::size_t blanks = shown[i].width - WidthOf(cell);
        const bool right = columns_[shown[i].column].align == Align::kRight;
        if (right) out.append(blanks, ' ');
        out += cell;
        if (!right) out.append(blanks, ' ');
      }
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n';
    }
    return out;
  }

  const std::vector<Column> columns_;
  const std::vector<Cells> rows_;
  const std::size_t width_;
};

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  STEPCAST_CHECK(!columns_.empty(), "a table has columns");
}

void Table::AddRow(std::vector<std::string> cells) {
  STEPCAST_CHECK(cells.size() == columns_.size(), "a row must have one cell for each column");
  rows_.push_back(std::move(cells));
}

void Table::AddRule() { rows_.emplace_back(); }

std::string Table::ToString(std::size_t width) const {
  return Layout(columns_, rows_, width).Text();
}

}  // namespace stepcast::report
