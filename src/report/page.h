#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/report/json.h"
#include "src/report/table.h"

// A report as one HTML page that needs no other file and no network: the question, the answer in
// large figures, then sections of charts and tables. Vega-Lite draws the charts; what is written
// here are data and specifications. Every chart has tables that say the same without it. For the
// .cc files of this package only.
namespace stepcast::report {

enum class Tone : std::uint8_t { kPlain, kGood, kBad };

// One of the large figures at the top.
struct PageFigure {
  std::string label;
  std::string value;
  std::string more{};  // below it, small; may be empty
  Tone tone = Tone::kPlain;
};

// Rows of a chart, written column by column; words that repeat are written once.
class ChartData {
 public:
  void Number(std::string_view column, double value);
  // A gap of a column of numbers.
  void Missing(std::string_view column);
  void Word(std::string_view column, const std::string& word);
  Json ToJson() const;

 private:
  struct Column {
    std::string name;
    Json values = Json::array();
    std::vector<std::string> words{};
    std::vector<std::pair<std::string, std::size_t>> known{};  // sorted words and their places
  };
  Column& At(std::string_view name);

  std::vector<Column> columns_;
};

// Text of a row's tooltip, also by keyboard.
struct ChartTip {
  std::string field;
  std::string title;
  std::string unit{};
  std::optional<int> digits{};  // after the point; without: five significant ones
};

struct Chart {
  std::string label;  // what it shows, for screen readers
  Json spec;          // Vega-Lite; its data are named "rows", and "focus" is the row to stress
  ChartData data;
  std::vector<ChartTip> tips;
  // Of a timeline, with columns lane, start, end, kind, name, of, operations and busy: its first
  // and last instant in ms, and its lanes from top to bottom.
  std::optional<std::pair<double, double>> window{};
  std::vector<std::string> lanes{};
};

struct PageTable {
  std::string caption;
  Table table;
  bool folded = false;  // behind a line that opens it
  // Cells that are stressed, by row (rules not counted) and column.
  std::set<std::pair<std::size_t, std::size_t>> stressed{};
};

struct PageSection {
  std::string heading;
  std::vector<std::string> paragraphs{};
  std::optional<Chart> chart{};
  std::vector<std::string> notes{};  // below the chart, small
  std::vector<PageTable> tables{};
  // Below the tables: a heading and preformatted text, folded away.
  std::vector<std::pair<std::string, std::string>> texts{};
};

struct Page {
  std::string kind;   // "Forecast of one training step"
  std::string title;  // "Llama-3.1 8B, FSDP2 on 16 DGX H100"
  std::vector<std::pair<std::string, std::string>> asked{};
  std::vector<PageFigure> answer{};
  std::vector<std::string> warnings{};
  std::vector<PageSection> sections{};
  // Further figures, folded away: a heading and preformatted text.
  std::vector<std::pair<std::string, std::string>> appendices{};
};

std::string PageHtml(const Page& page);

// Numbers as charts have them: to a millionth, milliseconds to the nanosecond.
double Rounded(double value);
double InMilliseconds(Time time);

}  // namespace stepcast::report
