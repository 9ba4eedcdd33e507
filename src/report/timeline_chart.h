#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/report/page.h"
#include "src/report/table.h"

// A chart of one step of a timeline. Streams and the host are lanes; operations are bars. Internal
// to this package.
namespace stepcast::report {

// The purpose of an operation, which determines the color of its bar.
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

// How bars of one kind are drawn.
struct BarStyle {
  const char* name;    // "forward", ..., "host", "host waits"
  const char* colour;  // CSS color variable of pages
  char letter;         // on terminals
  int background;      // of 256 terminal colors, on which black text is readable
};
// In the order of BarKind.
inline constexpr BarStyle kBarStyles[kBarKinds] = {
    {"forward", "--forward", 'F', 75},
    {"backward", "--backward", 'B', 176},
    {"backward of weights", "--backward-weight", 'G', 211},
    {"optimizer", "--optimizer", 'O', 79},
    {"communication", "--communication", 'C', 214},
    {"copy", "--copy", 'M', 186},
    {"host", "--host", 'H', 250},
    {"host waits", "--wait", 'W', 240}};
inline const BarStyle& StyleOf(BarKind kind) { return kBarStyles[static_cast<std::size_t>(kind)]; }
inline const char* Name(BarKind kind) { return StyleOf(kind).name; }

// The interval [start, end) of one program's timeline. Does not own the pointers.
struct StepWindow {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
  const cost::Prices* prices = nullptr;  // host times to issue operations; null: not shown
  Time start, end;
  std::string prefix{};  // prefix of the lanes' names: "forecast: "
};

struct Bar {
  Time start{}, end{};  // since the window's start, within the window
  BarKind kind = BarKind::kForward;
  std::string name{};           // name of the operation, or the number of joined operations
  std::string of{};             // layer, unit or bucket, and micro-batch; may be empty
  std::int64_t operations = 1;  // number of operations in the bar
  Time busy{};                  // total time of the operations
};

struct Lane {
  std::string name;
  std::vector<Bar> bars{};  // in time order
};

// Returns the lanes of the window: the host's lane, if it has bars, then the streams in the
// program's order. Empty streams are omitted. If the host issues several operations without a
// pause, one bar shows them all.
std::vector<Lane> LanesOf(const StepWindow& window);
// Returns the lane of the compute stream, without a name.
Lane ComputeLaneOf(const StepWindow& window);

// Joins neighboring bars of one kind, shortest first, until all lanes together have at most `most`
// bars. Returns the length of the longest joined bar, or zero if no bars were joined.
Time JoinShortBars(std::vector<Lane>& lanes, std::size_t most);

struct TimelineFigure {
  Chart chart;
  std::string note;  // a note on joined bars; may be empty
  Table lanes;       // for each lane: operations, busy time, fraction of the window
  Table longest;     // the longest operations
};

// Moves the chart and its note into a section. The tables remain in `figure`.
void Draw(TimelineFigure& figure, PageSection& section);
// Like Draw, with both tables, for the page of a command with the option --trace.
void DrawTraced(TimelineFigure& figure, PageSection& section);

// Returns a chart of the lanes. `length` is the length of the window. `unit` is the unit of the
// time axis; a millisecond is drawn as one unit.
TimelineFigure TimelineChart(std::vector<Lane> lanes, Time length, const std::string& label,
                             const std::string& unit = "ms");

}  // namespace stepcast::report
