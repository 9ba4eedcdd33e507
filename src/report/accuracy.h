#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/calibrate/run_fit.h"
#include "src/report/table.h"
#include "src/validate/accuracy_figures.h"
#include "src/validate/collectives.h"
#include "src/validate/measured_runs.h"
#include "src/validate/published.h"

namespace stepcast::report {

// How forecasts of collectives compare with what was published (docs/formats.md).

// Tables by source and size band, totals, choices that differ from documented ones.
std::string CollectiveAccuracyText(const validate::CollectiveAccuracy& accuracy);
std::string CollectiveAccuracyJson(const validate::CollectiveAccuracy& accuracy);
// A record for each point.
std::string CollectiveAccuracyCsv(const validate::CollectiveAccuracy& accuracy);
// The section of docs/accuracy/collectives.md between its markers, without them.
std::string CollectiveAccuracyMarkdown(const validate::CollectiveAccuracy& accuracy);

// How well published training steps are forecast, for people and for programs.

// Tables by source, fit and check rows apart, quality A and B apart; what was not simulated, with
// reasons; what is aimed at.
std::string PublishedAccuracyText(const validate::PublishedAccuracy& accuracy);

// The same as a section of a document.
std::string PublishedAccuracyMarkdown(const validate::PublishedAccuracy& accuracy);

// Every case, and all tables.
std::string PublishedAccuracyJson(const validate::PublishedAccuracy& accuracy);
std::string PublishedAccuracyCsv(const validate::PublishedAccuracy& accuracy);

// One page that needs no other file: tables, and plots of forecast against measured.
std::string PublishedAccuracyHtml(const validate::PublishedAccuracy& accuracy);

// Tables of published steps, for text, document and page. For the .cc files of this package only.

struct PublishedTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;  // below the table; may be empty
};

// Those that have rows.
std::vector<PublishedTable> PublishedTables(const validate::PublishedAccuracy& accuracy);

// How the tables are to be read.
std::string PublishedPreface();

// "1087 cases of 2 sources: 185 simulated, 902 not."
std::string PublishedCounts(const validate::PublishedAccuracy& accuracy);

// The output of `calibrate runs`: what was learned from runs, and how precisely.

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
