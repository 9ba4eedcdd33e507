#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/published_file.h"

// Measured training steps as a table: one run a line. Format: docs/formats.md, "Runs as a table".
namespace stepcast::scenario {

struct RunsTable {
  std::vector<PublishedCase> runs;  // named by their `name`, or "line 7"
  std::vector<std::string> files;   // of each run: what paths in its scenario are relative to
  Diagnostics mistakes;             // of the table; runs are then those that could be read
};

// Columns are measurements (`step_time`, or `step_time_s`; `tokens_per_s_per_gpu` in their place;
// peaks of memory as in published steps), `name`, `split` (fit where it is left out), `scenario` (a
// file; `scenario` of the command where the column is missing or the field empty), and settings: a
// scenario's keys by their dotted paths, or the short keys of published steps. An empty field
// leaves the setting as the scenario has it, null takes it out. `set`: overrides for every run.
//
// Besides what tables, documents and overrides report: runs.unknown-column, runs.not-measured (no
// time), runs.measured-twice (two times of one run), runs.no-scenario (neither a column nor a
// file), runs.none.
Result<RunsTable> LoadRunsTable(const std::string& path, const std::string& scenario,
                                const std::vector<std::string>& set);

}  // namespace stepcast::scenario
