#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/outcome.h"
#include "src/report/terminal_style.h"

namespace stepcast::cli {

struct ScheduleOptions {
  std::optional<int> stages;
  std::optional<int> micro_batches;
  std::string schedule = "1f1b";
  std::optional<int> virtual_stages;  // chunks of layers a stage
  std::optional<int> group;           // micro-batches that a chunk runs before the next one does
  std::string csv;                    // a file of actions in the place of these five; empty: none
  int forward = 1, backward_input = 1, backward_weight = 1;  // slots of a pass
  std::string print = "drawing";                             // or list, csv
  bool json = false;
  report::TerminalStyle style;
};

Outcome DrawSchedule(const ScheduleOptions& options);

}  // namespace stepcast::cli
