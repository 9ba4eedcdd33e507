#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibrate/run_fit.h"
#include "src/report/table.h"
#include "src/validate/collectives.h"
#include "src/validate/measured_runs.h"
#include "src/validate/published.h"

namespace stepcast::report {

// Compares forecasts of collectives with published measurements (docs/formats.md).

// Returns tables by source and size band, totals, and the choices that differ from documented ones.
std::string CollectiveAccuracyText(const validate::CollectiveAccuracy& accuracy);
std::string CollectiveAccuracyJson(const validate::CollectiveAccuracy& accuracy);
// One record per point.
std::string CollectiveAccuracyCsv(const validate::CollectiveAccuracy& accuracy);
// Returns the text between the markers in docs/accuracy/collectives.md, without the markers.
std::string CollectiveAccuracyMarkdown(const validate::CollectiveAccuracy& accuracy);

// Reports on the accuracy of forecasts of published training steps, for people and for programs.

// Returns tables by source, separate for fit and check rows and for quality A and B. It also lists
// the cases that were not simulated, with reasons, and the accuracy targets.
std::string PublishedAccuracyText(const validate::PublishedAccuracy& accuracy);

// Returns the content of PublishedAccuracyText as a Markdown section.
std::string PublishedAccuracyMarkdown(const validate::PublishedAccuracy& accuracy);

// Both functions write all cases; the JSON document also has all tables.
std::string PublishedAccuracyJson(const validate::PublishedAccuracy& accuracy);
std::string PublishedAccuracyCsv(const validate::PublishedAccuracy& accuracy);

// Returns a self-contained page with tables and plots of forecast against measured values.
std::string PublishedAccuracyHtml(const validate::PublishedAccuracy& accuracy);

// A table of published steps, used by the text, the document and the page. Internal to this
// package.

struct PublishedTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows{};
  std::string note{};  // below the table; may be empty

  Table ToTable() const;
};

// Returns only the tables that have rows.
std::vector<PublishedTable> PublishedTables(const validate::PublishedAccuracy& accuracy);

// Returns the text that explains how to read the tables.
std::string PublishedPreface();

// Returns a sentence such as "1087 cases of 2 sources: 185 simulated, 902 not."
std::string PublishedCounts(const validate::PublishedAccuracy& accuracy);

// The output of `calibrate runs`: what was learned from runs, and its precision.

struct RunsReport {
  std::string path;                          // of the runs
  std::vector<validate::SimulatedRun> runs;  // all runs of the file
  std::vector<std::size_t> learned;          // indices of runs learned from, in the fit's order
  std::vector<std::size_t> held_back;        // indices of runs marked as check
  calibrate::RunFit fit;
  std::string written;    // "mine.yaml: h100-sxm"; empty: no profile
  std::string unwritten;  // why no profile was written, or how to write one
};

// Errors of the step time by three methods: the forecast, the nearest run alone, and the fit to
// other runs. For a run that was learned from, the other runs are the runs of other configurations.
// For a held-back run, they are all runs.
struct RunErrors {
  validate::AccuracyFigures forecast, nearest, learned;
};
RunErrors ErrorsOfLearned(const RunsReport& report);
RunErrors ErrorsOfHeldBack(const RunsReport& report);

// If the runs have only one configuration, the factor is measured time over forecast time. `low`
// and `high` enclose 90 % of its measurements. Returns none if there are several configurations or
// if nothing was learned.
struct OneFactor {
  double factor = 1, low = 1, high = 1;
};
std::optional<OneFactor> OneFactorOf(const RunsReport& report);

std::string RunsText(const RunsReport& report);
// Returns the document of `calibrate runs --json`, version 1.
std::string RunsJson(const RunsReport& report);

// Returns the section `runs` of a calibration profile, as YAML.
std::string LearnedRunsYaml(const RunsReport& report);

}  // namespace stepcast::report
