#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/calibrate/run_fit.h"
#include "src/report/answer.h"
#include "src/validate/collectives.h"
#include "src/validate/measured_runs.h"
#include "src/validate/published.h"

namespace stepcast::report {

// Compares forecasts of collectives with published measurements (docs/formats.md).

// Returns tables by source and by size band, totals, and a list of NCCL's choices that the forecast
// and the source state differently.
std::string CollectiveAccuracyText(const validate::CollectiveAccuracy& accuracy);
std::string CollectiveAccuracyJson(const validate::CollectiveAccuracy& accuracy);
// Returns one CSV record per measured point.
std::string CollectiveAccuracyCsv(const validate::CollectiveAccuracy& accuracy);
// Returns the text between the markers in docs/accuracy/collectives.md, without the markers.
std::string CollectiveAccuracyMarkdown(const validate::CollectiveAccuracy& accuracy);

// Reports the accuracy of forecasts of published training steps, as text and in formats for
// programs.

// Returns tables by source, separate for fit and check rows and for quality A and B. The text also
// lists the accuracy targets, and the reasons why cases were not simulated.
std::string PublishedAccuracyText(const validate::PublishedAccuracy& accuracy);

// Returns the same content as PublishedAccuracyText, as a Markdown section.
std::string PublishedAccuracyMarkdown(const validate::PublishedAccuracy& accuracy);

// These functions return all cases; the JSON document also has all tables.
std::string PublishedAccuracyJson(const validate::PublishedAccuracy& accuracy);
std::string PublishedAccuracyCsv(const validate::PublishedAccuracy& accuracy);

// Returns a self-contained HTML page with tables and plots of forecast against measured values.
std::string PublishedAccuracyHtml(const validate::PublishedAccuracy& accuracy);

// Returns the errors as a JSON object; null without cases. `count` is the key of their number.
Json ErrorJson(const char* count, const validate::AccuracyFigures& figures);

// A table of published steps, for the text, the JSON document and the HTML page. Internal to this
// package.

struct PublishedTable {
  std::string title;
  AnswerTable table{};
  std::string note{};  // a note below the table; may be empty
};

// Returns only the tables that have rows.
std::vector<PublishedTable> PublishedTables(const validate::PublishedAccuracy& accuracy);

// Returns the text that explains how to read the tables.
std::string PublishedPreface();

// Returns a sentence such as "1087 cases of 2 sources: 185 simulated, 902 not."
std::string PublishedCounts(const validate::PublishedAccuracy& accuracy);

// The output of `calibrate runs`: the corrections learned from measured runs, and their precision.

struct RunsReport {
  std::string path;                          // path of the file with runs
  std::vector<validate::SimulatedRun> runs;  // all runs of the file
  // Indices of the runs to which the correction was fitted.
  std::vector<std::size_t> learned;
  std::vector<std::size_t> held_back;  // indices of the runs with split `check`
  calibrate::RunFit fit;
  std::string written;    // "mine.yaml: h100-sxm"; empty: no profile was written
  std::string unwritten;  // why no profile was written, or how to write one
};

std::string RunsText(const RunsReport& report);
// Returns the document of `calibrate runs --json`, version 1.
std::string RunsJson(const RunsReport& report);

// Returns the section `runs` of a calibration profile as YAML.
std::string LearnedRunsYaml(const RunsReport& report);

}  // namespace stepcast::report
