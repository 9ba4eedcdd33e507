#include "src/report/timeline_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/report/page_figures.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

// The time of each kind in one column of a row, in picoseconds.
using Column = std::array<std::int64_t, kBarKinds>;

std::vector<Column> CellsOf(const Lane& lane, Time length, int columns) {
  std::vector<Column> cells(static_cast<std::size_t>(columns));
  const std::int64_t whole = std::max<std::int64_t>(1, length.picoseconds());
  // Cell i begins at floor(whole * i / columns), computed without overflow.
  const std::int64_t each = whole / columns, rest = whole % columns;
  const auto border = [&](std::int64_t i) { return each * i + rest * i / columns; };
  for (const Bar& bar : lane.bars) {
    const std::int64_t start = bar.start.picoseconds(), end = bar.end.picoseconds();
    std::int64_t cell = start / (each + 1);
    while (border(cell + 1) <= start) ++cell;
    for (; cell < columns && border(cell) < end; ++cell) {
      const std::int64_t part = std::min(end, border(cell + 1)) - std::max(start, border(cell));
      if (part > 0)
        cells[static_cast<std::size_t>(cell)][static_cast<std::size_t>(bar.kind)] += part;
    }
  }
  return cells;
}

std::string RowOf(const std::vector<Column>& cells, Time length, bool colour) {
  const std::int64_t half = length.picoseconds() / static_cast<std::int64_t>(cells.size()) / 2;
  std::string row;
  std::vector<int> colours;
  for (const Column& cell : cells) {
    std::size_t most = 0;
    std::int64_t busy = 0;
    for (std::size_t i = 0; i < cell.size(); ++i) {
      busy += cell[i];
      if (cell[i] > cell[most]) most = i;
    }
    char letter = ' ';
    int wanted = -1;
    if (busy > 0) {
      letter = kBarStyles[most].letter;
      if (busy < half) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      wanted = kBarStyles[most].background;
    }
    row += letter;
    colours.push_back(wanted);
  }
  if (colour) return OnColours(row, colours);
  return row.erase(row.find_last_not_of(' ') + 1);
}

// Ticks at 1, 2 or 5 times a power of ten, so far apart that labels do not touch.
std::string Scale(Time length, int columns) {
  const double whole = static_cast<double>(length.picoseconds()) * 1e-9;  // ms
  constexpr int kLabel = 12;
  const double least = whole * kLabel / columns;
  double step = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (step >= least) break;
    step *= factor;
  }
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::string line;
  for (int i = 0; i * step <= whole; ++i) {
    const auto column = static_cast<std::size_t>(i * step / whole * columns);
    std::string label = Decimal(i * step, digits);
    if (i == 0) label += " ms";
    if (column + label.size() + 1 > static_cast<std::size_t>(columns)) break;
    if (line.size() < column) line.resize(column, ' ');
    line += "|" + label;
  }
  return line;
}

}  // namespace

std::string TimelineText(const forecast::Run& run, const TerminalStyle& style) {
  const StepWindow window = WindowOf(run, run.critical_class());
  const Time length = window.end - window.start;
  const std::vector<Lane> lanes = run.classes.size() == 1 ? LanesOf(window) : LanesOfClasses(run);
  constexpr std::size_t kMostName = 24;
  constexpr int kLeastColumns = 12;
  std::size_t name_width = 0;
  for (const Lane& lane : lanes) {
    name_width = std::max(name_width, std::min(lane.name.size(), kMostName));
  }
  const int columns = std::max(kLeastColumns, style.width - static_cast<int>(name_width) - 2);

  std::string out;
  std::array<bool, kBarKinds> present{};
  for (const Lane& lane : lanes) {
    for (const Bar& bar : lane.bars) present[static_cast<std::size_t>(bar.kind)] = true;
    out += fmt::format("{:<{}}  {}\n", lane.name.substr(0, kMostName), name_width,
                       RowOf(CellsOf(lane, length, columns), length, style.colour));
  }
  out += fmt::format("{:<{}}  {}\n", "", name_width, Scale(length, columns));

  // The meaning of the letters, in lines that fit.
  std::vector<std::string> words;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) continue;
    const auto& [name, variable, letter, background] = kBarStyles[i];
    words.push_back(style.colour
                        ? fmt::format("\033[30;48;5;{}m{}\033[0m {}", background, letter, name)
                        : fmt::format("{} {}", letter, name));
    widths.push_back(2 + std::string_view(name).size());
  }
  words.emplace_back("lowercase: less than half busy");
  widths.push_back(words.back().size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool fits = used + 3 + widths[i] <= static_cast<std::size_t>(std::max(style.width, 1));
    if (used > 0 && !fits) {
      out += "\n";
      used = 0;
    }
    if (used > 0) {
      out += "   ";
      used += 3;
    }
    out += words[i];
    used += widths[i];
  }
  return out + "\n";
}

}  // namespace stepcast::report
