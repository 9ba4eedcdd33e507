#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/calibrate/run_fit.h"
#include "src/validate/accuracy_figures.h"
#include "src/validate/measured_runs.h"

// The output of `calibrate runs`: what was learned from runs, and how precisely.
namespace stepcast::report {

struct RunsReport {
  std::string path;                          // of the runs
  std::vector<validate::SimulatedRun> runs;  // all that the file has
  std::vector<std::size_t> learned;          // those that are learned from, in the fit's order
  std::vector<std::size_t> held_back;        // those that are marked check
  calibrate::RunFit fit;
  std::string written;    // "mine.yaml: h100-sxm"; empty: no profile
  std::string unwritten;  // why there is none, or how to get one
};

// Errors of step times: of the forecast, of the nearest run alone, and learned from the others (the
// runs themselves: each from the configurations other than its own; held-back ones: from all).
struct RunErrors {
  validate::AccuracyFigures forecast, nearest, learned;
};
RunErrors ErrorsOfLearned(const RunsReport& report);
RunErrors ErrorsOfHeldBack(const RunsReport& report);

std::string RunsText(const RunsReport& report);
// The document of `calibrate runs --json`, version 1.
std::string RunsJson(const RunsReport& report);

// The section `runs` of a calibration profile, as YAML.
std::string LearnedRunsYaml(const RunsReport& report);

// A profile's text with this section in the place of the one that it has, or at its end.
std::string WithRuns(const std::string& profile, const std::string& section);

}  // namespace stepcast::report
