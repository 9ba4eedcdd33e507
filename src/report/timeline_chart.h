#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/report/page.h"
#include "src/report/table.h"

// A chart of one step of a timeline: streams and host are lanes, operations are bars. Internal to
// this package.
namespace stepcast::report {

// The purpose of an operation. It determines the color of the bar.
enum class BarKind : std::uint8_t {
  kForward,
  kBackward,
  kBackwardWeight,
  kOptimizer,
  kCommunication,
  kCopy,
  kHost,
  kWait,
};
inline constexpr int kBarKinds = 8;
const char* Name(BarKind kind);  // "forward", ..., "host", "host waits"

// The interval [start, end) of one program's timeline. Does not own the pointers.
struct StepWindow {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
  const cost::Prices* prices = nullptr;  // cost of issues; null: issues are not shown
  Time start, end;
  std::string prefix{};  // of the lanes' names: "forecast: "
};

struct Bar {
  Time start{}, end{};  // since the window's start, within the window
  BarKind kind = BarKind::kForward;
  std::string name{};           // of the operation, or the number of joined ones
  std::string of{};             // layer, unit or bucket, and micro-batch; may be empty
  std::int64_t operations = 1;  // number of operations in the bar
  Time busy{};                  // their total time
};

struct Lane {
  std::string name;
  std::vector<Bar> bars{};  // in time order
};

// Returns the host's lane first, if it has bars, then the streams in the program's order. Empty
// streams are omitted. Consecutive issues of the host are joined into one bar.
std::vector<Lane> LanesOf(const StepWindow& window);

// Joins neighboring bars of one kind, short ones first, until all lanes together have at most
// `most` bars. Returns the length of the longest joined bar, or zero if none was joined.
Time JoinShortBars(std::vector<Lane>& lanes, std::size_t most);

struct TimelineFigure {
  Chart chart;
  std::string note;  // a note on joined bars; may be empty
  Table lanes;       // by lane: operations, busy time, fraction of the window
  Table longest;     // the longest operations
};

// Moves the chart and its note into a section. The tables remain in `figure`.
void Draw(TimelineFigure& figure, PageSection& section);

// `length` is the length of the window.
TimelineFigure TimelineChart(std::vector<Lane> lanes, Time length, const std::string& label);

}  // namespace stepcast::report
