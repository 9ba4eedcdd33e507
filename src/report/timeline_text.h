#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/report/table.h"

// Draws one step's timeline for a terminal: streams are rows, time is divided into columns.
namespace stepcast::report {

// Draws the forecast's step, with a time scale and a legend of the letters below. No line is wider
// than the style's width if that width is at least 40 columns. Each cell shows the kind of
// operation that takes the most time in it; a lowercase letter means that the cell is busy for less
// than half of its time. The text ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
