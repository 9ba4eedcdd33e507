#pragma once

#include <string>
#include <vector>

#include "src/forecast/forecast.h"

// One step's timeline for a terminal: streams as rows, time as columns.
namespace stepcast::report {

struct TerminalStyle {
  int width = 80;       // columns of the terminal
  bool colour = false;  // by escape sequences; letters say the same
};

// The forecast's step, with a scale below and what the letters stand for. No line is wider than the
// style says, as long as it has at least 40 columns. Each cell is what takes most of its time;
// small letters are less than half busy. Ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
