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

// One step of a timeline for people to look at: streams and host as lanes, operations as bars. For
// the .cc files of this package only.
namespace stepcast::report {

// The purpose of an operation; the colour of its bar.
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

// A run of one program, of which [start, end) is shown.
struct StepWindow {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
  const cost::Prices* prices = nullptr;  // what issues cost; null: they are not shown
  Time start, end;
  std::string prefix{};  // of the lanes' names: "forecast: "
};

struct Bar {
  Time start{}, end{};  // since the window's start, inside of the window
  BarKind kind = BarKind::kForward;
  std::string name{};           // of the operation, or how many are joined
  std::string of{};             // layer, unit or bucket, with the micro-batch; may be empty
  std::int64_t operations = 1;  // how many it stands for
  Time busy{};                  // their time
};

struct Lane {
  std::string name;
  std::vector<Bar> bars{};  // in time order
};

// The host first where it has bars, then streams in the program's order, empty ones left out. The
// host's issues that follow one another without a gap are one bar.
std::vector<Lane> LanesOf(const StepWindow& window);

// Joins neighbours of one kind, short ones first, until there are at most `most` bars in all lanes.
// Returns the longest that a bar of joined ones can be; zero if none had to be joined.
Time JoinShortBars(std::vector<Lane>& lanes, std::size_t most);

struct TimelineFigure {
  Chart chart;
  std::string note;  // what was joined; empty if nothing
  Table lanes;       // by lane: operations, busy time, its share of the window
  Table longest;     // the longest operations
};

// Moves the chart and its note into a section; the tables stay.
void Draw(TimelineFigure& figure, PageSection& section);

// `length`: of the window.
TimelineFigure TimelineChart(std::vector<Lane> lanes, Time length, const std::string& label);

}  // namespace stepcast::report
