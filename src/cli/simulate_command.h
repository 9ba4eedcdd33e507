#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/emit_plan.h"
#include "src/cli/outcome.h"
#include "src/report/timeline_text.h"
#include "src/study/training_question.h"

namespace stepcast::cli {

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string network;           // "analytic", "flow", "message"; empty: as the scenario says
  bool json = false;
  std::string trace;      // file to write; empty: none
  int trace_steps = 1;    // that traces hold
  std::string trace_dir;  // folder for a trace that analysers of ranks read; empty: none
  std::optional<report::TerminalStyle> timeline;  // draw the step below the forecast
  std::string report;                             // HTML page to write; empty: none
  bool program = false;                           // print the step program instead of the forecast
  EmitOptions emit;
  study::TrainingQuestion training;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

Outcome Simulate(const SimulateOptions& options);

}  // namespace stepcast::cli
