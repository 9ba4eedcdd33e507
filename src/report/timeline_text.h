#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/report/table.h"

// One step's timeline for a terminal: streams as rows, time as columns.
namespace stepcast::report {

// The forecast's step, with a time scale and the meaning of the letters below. No line is wider
// than the style's width, if that is at least 40 columns. A cell shows the kind of operation with
// the most time; a lowercase letter means less than half busy. Ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
