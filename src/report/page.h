#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/report/answer.h"
#include "src/report/table.h"

// A report as a self-contained HTML page: the question, the answer in large numbers, and sections
// with charts and tables. Vega-Lite draws the charts from data in the page. Every chart has tables
// with the same content. Internal to this package.
namespace stepcast::report {

// Returns the text with HTML entities for the characters `&`, `<`, `>` and `"`.
std::string HtmlEscaped(std::string_view text);

enum class Tone : std::uint8_t { kPlain, kGood, kBad };

// A large number at the top of a page, with its label.
struct PageFigure {
  std::string label;
  std::string value;
  std::string more{};  // small text below the number; may be empty
  Tone tone = Tone::kPlain;
};

// The rows of a chart, stored by column with each distinct value once.
class ChartData {
 public:
  void Number(std::string_view column, double value);
  // Adds a missing value to a column of numbers.
  void Missing(std::string_view column);
  void Word(std::string_view column, const std::string& word);
  std::size_t rows() const { return columns_.empty() ? 0 : columns_.front().rows.size(); }
  // Returns the distinct values of a column, in the order of their first rows.
  const std::vector<Json>& Distinct(std::string_view column) { return At(column).values; }
  Json ToJson() const;

 private:
  struct Column {
    std::string name;
    bool has_words = false;
    std::vector<Json> values{};                            // distinct values
    std::unordered_map<std::string, std::size_t> known{};  // index of each value, by its text
    std::vector<std::size_t> rows{};                       // for each row: index in `values`
    void Add(const std::string& text, Json value);
    bool indexed() const;
    Json ToJson() const;
  };
  Column& At(std::string_view name);

  std::vector<Column> columns_;
};

// One line of a row's tooltip, which is also shown on keyboard focus.
struct ChartTip {
  std::string field;
  std::string title;
  std::string unit{};
  std::optional<int> digits{};  // digits after the decimal point; not set: five significant digits
};

struct Chart {
  std::string label;  // the chart's content, for screen readers
  Json spec;          // Vega-Lite specification with data source "rows"; "focus": focused row
  ChartData data;
  std::vector<ChartTip> tips;
  // The members below are only for a timeline. `window` is the timeline's start and end in ms;
  // `lanes` are ordered from top to bottom. Each row of the data is a bar, and rows are ordered by
  // lane. The columns are `kind`, `name`, `of`, `operations`, and three times in ticks. `gap` is
  // the time since the end of the lane's previous bar, `length` is the bar's length, and `idle` is
  // the idle time within `length`.
  struct TimelineLane {
    std::string name;
    std::size_t bars = 0;
  };
  std::optional<std::pair<double, double>> window{};
  // The initially visible part of the window. Absent: the complete window.
  std::optional<std::pair<double, double>> opened{};
  double tick = 0;  // ms
  std::vector<TimelineLane> lanes{};
};

struct PageTable {
  std::string caption;
  Table table;
  bool folded = false;    // collapsed behind a summary line
  bool sortable = false;  // readers can sort rows by a column
  // The highlighted cells as (row, column). Horizontal lines are not rows.
  std::set<std::pair<std::size_t, std::size_t>> stressed{};
};

// A collapsed text below a heading.
struct PageText {
  std::string heading;
  std::string text;         // preformatted
  bool is_command = false;  // a button copies the text
};

struct PageSection {
  std::string heading;
  std::vector<std::string> paragraphs{};
  std::optional<Chart> chart{};
  std::vector<std::string> notes{};  // below the chart, in small print
  // Links below the notes, as text and address.
  std::vector<std::pair<std::string, std::string>> links{};
  std::vector<PageTable> tables{};
  std::vector<PageText> texts{};  // below the tables
};

struct Page {
  std::string kind;   // "Forecast of one training step"
  std::string title;  // "Llama-3.1 8B, FSDP2 on 16 DGX H100"
  std::vector<std::pair<std::string, std::string>> asked{};
  std::string verdict{};     // the answer in one sentence; may be empty
  Tone tone = Tone::kPlain;  // tone of the verdict
  std::vector<PageFigure> answer{};
  std::vector<std::string> warnings{};
  std::vector<PageSection> sections{};
  std::vector<PageText> appendices{};  // at the end of the page
};

std::string PageHtml(const Page& page);

// Returns a number for charts, rounded to a millionth (milliseconds: to a nanosecond).
double Rounded(double value);
double InMilliseconds(Time time);

}  // namespace stepcast::report
