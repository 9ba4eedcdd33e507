#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/report/table.h"

// Draws the timeline of one step for a terminal. Streams are rows, and time is divided into
// columns.
namespace stepcast::report {

// Returns a drawing of the forecast's step with a time scale and a legend of the letters. If the
// style's width is at least 40 columns, no line is wider than this width. Each cell shows the kind
// of operation that uses most of the cell's time. The letter is lowercase if the cell is busy for
// less than half of its time. The text ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
