#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/published_file.h"

// Reads measured training steps from a table with one run per line. docs/formats.md, "Runs as a
// table", documents the format.
namespace stepcast::scenario {

struct RunsTable {
  std::vector<PublishedCase> runs;  // their names are `name`, or "line 7"
  std::vector<std::string> files;   // [run]: base of the relative paths in its scenario
  Diagnostics mistakes;             // mistakes of the table; `runs` has only runs without mistakes
};

// Loads a table of runs.
//
// Columns are measurements (one of `step_time`, `step_time_s` and `tokens_per_s_per_gpu`, and
// memory peaks as in published steps), `name`, `split` (default: fit), `scenario` (a file; default:
// the command's `scenario`), and settings. A setting's column is a dotted scenario key, or a short
// key of published steps. An empty field keeps the scenario's setting; null removes the setting.
// `set` has overrides for every run.
//
// Errors in addition to the errors of tables, documents and overrides: runs.unknown-column,
// runs.not-measured (no time), runs.measured-twice (two times of one run), runs.no-scenario
// (neither a column nor a file), runs.none.
Result<RunsTable> LoadRunsTable(const std::string& path, const std::string& scenario,
                                const std::vector<std::string>& set);

}  // namespace stepcast::scenario
