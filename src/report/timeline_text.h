#pragma once

#include <string>

#include "src/forecast/forecast.h"
#include "src/report/table.h"

// One step's timeline for a terminal: streams as rows, time as columns.
namespace stepcast::report {

// The forecast's step, with a scale below and what the letters stand for. No line is wider than the
// style says, as long as it has at least 40 columns. Each cell is what takes most of its time;
// small letters are less than half busy. Ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
